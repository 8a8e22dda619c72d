"""One real broker for a pytest session, and beds on it."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamjobs.shell.broker import Broker, missing_tool
from tests.kafka.bed import Bed

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


@pytest.fixture
def make_bed(broker: Broker, tmp_path: Path) -> MakeBed:
    """make_bed("name", section={...}) -> a job of its own on the shared broker, with its topics."""

    def make(name: str, **options: object) -> Bed:
        return Bed(broker.bootstrap, tmp_path, f"{name}-{next(_numbers)}", **options)  # type: ignore[arg-type]

    return make
