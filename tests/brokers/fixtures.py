"""One real broker for a pytest session, and jobs on it."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamjobs.kafka.devbroker.broker import Broker, missing_tool
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob
from tests.brokers.load import SOURCE

# A node writes nothing of its own twice a second: a fifth of what it takes while no test asks.
QUIET = {"metadata.max.idle.interval.ms": "0"}

_numbers = itertools.count(1)
_nodes: list[Broker] = []  # the one of this run: a folder's conftest has fixtures of its own, which share it
_servers: list[ForkServer] = []


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
    if _nodes:
        yield _nodes[0]
        return
    problem = missing_tool()
    if problem is not None:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(problem)
        pytest.skip(problem)
    with cleaning_up_on_sigterm(), Broker(extra=QUIET) as running:
        _nodes.append(running)
        yield running
        _nodes.clear()


MakeJob = Callable[..., KafkaJob]
LEARNING = {"source": SOURCE, "head": {"name": "rls"}, "drift": {"detector": "page_hinkley"}}  # sections of a job


@pytest.fixture(scope="session")
def fork_server(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Workers of LEARNING jobs forked from here start in a second."""
    if _servers:
        yield _servers[0]
        return
    folder = tmp_path_factory.mktemp("fork_server")
    job = KafkaJob(broker.bootstrap, folder, "fork_server", make=False, **LEARNING)
    with ForkServer(folder, job.path) as started:
        _servers.append(started)
        yield started
        _servers.clear()


@pytest.fixture
def make_job(broker: Broker, tmp_path: Path) -> MakeJob:
    """make_job("name", section={...}) -> a job of its own on the shared broker, with its topics."""

    def make(name: str, **options: object) -> KafkaJob:
        return KafkaJob(broker.bootstrap, tmp_path, f"{name}-{next(_numbers)}", **options)  # type: ignore[arg-type]

    return make
