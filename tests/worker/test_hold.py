"""How long the broker may hold a fetch, with a clock of its own, and that aiokafka sends what was chosen."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.structs import TopicPartition

from streamjobs.worker import backpressure
from streamjobs.worker.backpressure import FETCH_WAIT_MS, HELD_BYTES, HELD_MS, LEAST_MS, Hold

FREE = (FETCH_WAIT_MS, 1)  # a fetch that returns with the first record


class Clock:
    """As the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(backpressure, "time", made)
    return made


def after(clock: Clock, hold: Hold, *, work: float, comes: float, records: int = 10) -> tuple[int, int]:
    """Longest wait in ms and least bytes after 200 fetches that each come so many seconds after the last one, or later.

    work: seconds after a fetch in which the worker does not wait. A fetch that is held comes 1 ms after the hold.
    """
    fetcher: Any = SimpleNamespace(_fetch_max_wait_ms=FETCH_WAIT_MS, _fetch_min_bytes=1)
    for _ in range(200):
        held = fetcher._fetch_max_wait_ms / 1000 + 0.001 if fetcher._fetch_min_bytes > 1 else 0.0
        free = clock.now + work
        clock.now = max(free, clock.now + comes, clock.now + held)
        hold.choose(fetcher, records, free)
    return fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes


@pytest.mark.parametrize(
    ("work", "comes", "wait"),
    [
        (0.0055, 0.001, 8),  # a call of `advance` for each of 4 partitions: with it .4 of 9 ms are to spare
        (0.0015, 0.005, None),  # one partition, with records every 5 ms
        (0.0028, 0.005, None),  # .44 are to spare without it
        (0.0009, 0.001, None),  # of less than 2 ms
        (0.0300, 0.001, HELD_MS),  # at most
    ],
)
def test_the_broker_holds_a_fetch_until_the_worker_has_time_to_spare(clock, work, comes, wait):
    chosen = after(clock, Hold(0.0), work=work, comes=comes)
    assert chosen == (FREE if wait is None else (wait, HELD_BYTES))


def test_a_worker_that_just_started_and_a_stream_that_ended_are_not_held(clock):
    fetcher: Any = SimpleNamespace()
    hold = Hold(0.0)
    clock.now += 5.0  # of imports and compiled code
    hold.choose(fetcher, 1, clock.now)
    assert hold._wanted_ms <= LEAST_MS
    assert after(clock, hold, work=0.0055, comes=0.001) == (8, HELD_BYTES)
    assert hold.patience == pytest.approx(0.032)
    clock.now += hold.patience
    hold.choose(fetcher, 0, clock.now)
    assert (fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes) == FREE and hold.patience == float("inf")
    assert after(clock, hold, work=0.001, comes=60.0, records=1) == FREE


def test_linger_holds_every_fetch(clock):
    hold = Hold(0.1)
    for records in (0, 1, 5000):
        assert after(clock, hold, work=0.005, comes=0.001, records=records) == (100, HELD_BYTES)
    assert hold.patience == float("inf")


def test_aiokafka_sends_the_next_fetch_with_what_was_chosen(clock):
    """On its own fetcher: the names of its settings, and that it reads them for each fetch."""
    tp = TopicPartition("in", 0)
    state = SimpleNamespace(has_valid_position=True, paused=False, position=7)
    assignment = SimpleNamespace(tps=[tp], state_value=lambda tp: state)

    async def body() -> list[tuple[int, int]]:
        cluster = SimpleNamespace(leader_for_partition=lambda tp: 0)
        client: Any = SimpleNamespace(_loop=asyncio.get_running_loop(), _metadata_max_age_ms=1000, cluster=cluster)
        subscriptions: Any = SimpleNamespace(register_fetch_waiters=lambda waiters: None)
        fetcher = Fetcher(client, subscriptions)
        fetcher._fetch_task.cancel()
        sent, hold = [], Hold(0.0)
        for records in (0, *[10] * 50):
            clock.now += 0.02
            hold.choose(fetcher, records, clock.now)
            ((_, request),) = fetcher._get_actions_per_node(assignment)[0]
            sent.append((request._max_wait_ms, request._min_bytes))
        return sent

    sent = asyncio.run(body())
    assert sent[0] == FREE and sent[-1] == (16, HELD_BYTES)
