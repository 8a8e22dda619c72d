"""Which partitions of an assignment wait for a leader, and when they begin. A broker: tests/brokers/test_leaderless.py."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from streamjobs.worker.health import leaders as module
from streamjobs.worker.health.leaders import Leaders

DOWN = {("in", 1), ("log", 1), ("log", 2)}


class Begun:
    """What became of partitions 0 to 2 after `seconds`. looks: what has no leader at each look, or None; the last stays."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *looks: Any, within: float = 0.0, seconds: float = 0.0, again: bool = False
    ) -> None:
        self.left, self.joined, self.failed = list(looks), 0, list[BaseException]()
        monkeypatch.setattr(module, "ELECTED_WITHIN", within)
        monkeypatch.setattr(module, "RETRY_EVERY", 0.001)
        monkeypatch.setattr(module, "LOOK_EVERY", 0.001)
        asyncio.run(self.begin(seconds, again))

    async def begin(self, seconds: float, again: bool) -> None:
        consumer = SimpleNamespace(without_leader=self.without_leader, rejoin=self.join)
        delivery = SimpleNamespace(topics={"predictions": "out"}, fail=self.failed.append)
        leaders = Leaders(SimpleNamespace(consumer=consumer, delivery=delivery, source="in", changelog="log"))
        self.able = await leaders.able({0, 1, 2})
        if again:
            module.ELECTED_WITHIN, started = 60.0, time.monotonic()
            self.able = await leaders.able({0, 1, 2})
            assert time.monotonic() - started < 30.0
        await asyncio.sleep(seconds)
        self.waiting, self.reason = dict(leaders.waiting), leaders.reason
        leaders.close()

    async def without_leader(self, topics: list[str]) -> Any:
        assert topics == ["in", "log", "out"]
        now = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if isinstance(now, Exception):
            raise now
        return now

    def join(self) -> None:
        self.joined += 1


def test_a_partition_waits_for_each_of_its_leaders_and_the_others_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Begun(monkeypatch, DOWN | {("out", 7)})
    assert begun.able == {0} and begun.waiting == {1: {"in", "log"}, 2: {"log"}}
    assert begun.reason == "2 partitions without a leader in in, log"


def test_an_election_under_way_is_waited_for_and_a_partition_that_waited_before_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = Begun(monkeypatch, DOWN, DOWN, set(), within=60.0)
    assert begun.able == {0, 1, 2} and not begun.reason
    assert Begun(monkeypatch, DOWN, again=True).able == {0}


def test_the_group_is_joined_again_once_when_all_leaders_of_a_partition_are_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Begun(monkeypatch, DOWN, DOWN, None, {("in", 0), ("in", 1), ("log", 2)}, seconds=0.05).joined == 0
    assert Begun(monkeypatch, DOWN, DOWN, None, {("in", 1)}, seconds=0.05).joined == 1


def test_without_an_answer_every_partition_begins_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Begun(monkeypatch, None).able == {0, 1, 2}


def test_looking_for_leaders_never_ends_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("the thread has ended")
    assert Begun(monkeypatch, DOWN, DOWN, error, seconds=0.05).failed == [error]
