"""How long the broker may hold a fetch, with a clock of its own, and that aiokafka sends what was chosen."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.structs import TopicPartition

from streamjobs.worker import backpressure
from streamjobs.worker.backpressure import FETCH_WAIT_MS, HELD_BYTES, Hold

FREE = (FETCH_WAIT_MS, 1)  # a fetch that returns with the first record


class Clock:
    """As the module `time`."""

    def __init__(self) -> None:
        self.now = self.spent = 100.0

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.spent


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(backpressure, "time", made)
    return made


def after(clock: Clock, hold: Hold, *, fetches: int, records: int, pause: float, busy: float) -> tuple[int, int]:
    """Longest wait in ms and least bytes after fetches with so many records, with seconds between them and of processor."""
    fetcher: Any = SimpleNamespace()
    for _ in range(fetches):
        clock.now += pause
        clock.spent += busy
        hold.choose(fetcher, records)
    return fetcher._fetch_max_wait_ms, fetcher._fetch_min_bytes


@pytest.mark.parametrize(
    ("records", "pause", "busy", "wait"),
    [
        (10, 0.005, 0.0048, 5),  # 2,000 records/s and a busy worker
        (10, 0.005, 0.002, 2),  # and a worker with time to spare: its records are late by less
        (60, 0.012, 0.030, 8),  # a busy time is not held longer than HELD_MS
        (1, 0.0025, 0.0018, None),  # 400/s: not even one record is expected
        (4, 0.01, 0.009, 8),  # 400/s, but so slow that three come meanwhile
        (1, 1.0, 0.002, None),  # a record a second
        (10, 0.002, 0.0003, None),  # faster than the broker's clock ticks
    ],
)
def test_the_broker_holds_a_fetch_as_long_as_the_worker_is_busy(clock, records, pause, busy, wait):
    chosen = after(clock, Hold(0.0), fetches=200, records=records, pause=pause, busy=busy)
    assert chosen == (FREE if wait is None else (wait, HELD_BYTES))


def test_a_worker_that_just_started_and_a_stream_that_ended_are_not_held(clock):
    hold = Hold(0.0)
    clock.spent += 5.0  # of imports and compiled code
    assert after(clock, hold, fetches=1, records=1, pause=0.1, busy=0.001) == FREE
    assert after(clock, hold, fetches=50, records=10, pause=0.005, busy=0.0048) == (5, HELD_BYTES)
    assert hold.patience == pytest.approx(0.02)
    assert after(clock, hold, fetches=1, records=0, pause=hold.patience, busy=0.001) == FREE
    assert hold.patience == float("inf")
    assert after(clock, hold, fetches=1, records=1, pause=60.0, busy=0.001) == FREE


def test_linger_holds_every_fetch(clock):
    hold = Hold(0.1)
    for records in (0, 1, 5000):
        assert after(clock, hold, fetches=20, records=records, pause=0.005, busy=0.005) == (100, HELD_BYTES)
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
            clock.now += 0.005
            clock.spent += 0.0048
            hold.choose(fetcher, records)
            ((_, request),) = fetcher._get_actions_per_node(assignment)[0]
            sent.append((request._max_wait_ms, request._min_bytes))
        return sent

    sent = asyncio.run(body())
    assert sent[0] == FREE and sent[-1] == (5, HELD_BYTES)
