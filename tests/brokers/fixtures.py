"""One real broker for a pytest session, and beds on it."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamjobs.kafka.devbroker.broker import Broker, missing_tool
from tests.brokers.bed import Bed
from tests.brokers.load import SOURCE
from tests.brokers.nursery import Nursery

_numbers = itertools.count(1)


@contextmanager
def cleaning_up_on_sigterm() -> Iterator[None]:
    """SIGTERM (of a runner's time limit) interrupts as Ctrl-C does, so that brokers and workers are ended."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A running node; without Java or Maven the test is skipped, in CI it fails."""
    problem = missing_tool()
    if problem is not None:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(problem)
        pytest.skip(problem)
    with cleaning_up_on_sigterm(), Broker() as running:
        yield running


MakeBed = Callable[..., Bed]
LEARNING = {"source": SOURCE, "head": {"name": "rls"}, "drift": {"detector": "page_hinkley"}}  # sections of a job


@pytest.fixture(scope="session")
def nursery(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Workers of LEARNING jobs forked from here start in a second."""
    folder = tmp_path_factory.mktemp("nursery")
    bed = Bed(broker.bootstrap, folder, "nursery", make=False, **LEARNING)
    with Nursery(folder, bed.path) as started:
        yield started


@pytest.fixture
def make_bed(broker: Broker, tmp_path: Path) -> MakeBed:
    """make_bed("name", section={...}) -> a job of its own on the shared broker, with its topics."""

    def make(name: str, **options: object) -> Bed:
        return Bed(broker.bootstrap, tmp_path, f"{name}-{next(_numbers)}", **options)  # type: ignore[arg-type]

    return make
