"""The worker with the core of a job, on fakes: crashes at random steps of random checkpoints, with idle keys removed."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.interface import Core
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import last_event
from streamjobs.core.messages import Stored
from streamjobs.worker import idle_keys
from streamjobs.worker.delivery import Delivery
from streamjobs.worker.pace import Pace
from tests.brokers.verification import Truth, identity, replayed
from tests.worker.fakes import Broker, Crash, WatchedStore, Worker

RECORDS = 600


class Lives:
    """A job in several lives; in the last one the rest is applied and all states are written."""

    def __init__(
        self,
        job: Job,
        records: Sequence[Stored],
        rng: random.Random,
        *,
        exactly_once: bool,
        truth: Truth | None = None,
    ) -> None:
        """truth: of a replay of the records, where it is there."""
        self.job, self.records, self.rng, self.exactly_once = job, records, rng, exactly_once
        self.truth = truth or replayed(job, records)
        self.broker, self.removed = Broker(), 0
        self.store = WatchedStore(self.broker)
        self.batches = 1, 5, 40, 200  # records
        self.began: list[tuple[int, int]] = []  # R and P of each life

    def run(self, monkeypatch: pytest.MonkeyPatch, steps: Sequence[str] = ()) -> None:
        """A life for each of these steps, which a crash ends before or after it; a random step without any."""
        monkeypatch.setattr(idle_keys, "RECENT_SECONDS", -1.0)  # a key is idle as soon as its state is written
        monkeypatch.setattr(Pace, "_pass_time", lambda pace, most: self.rng.choice((0.0, 0.05, 0.3)))
        monkeypatch.setattr(
            Delivery, "_count_expired", lambda delivery, number, keys: setattr(self, "removed", self.removed + keys)
        )
        for step in steps or [""] * self.rng.randrange(2, 8):
            if self.broker.committed.get(0, 0) <= self.records[-1].offset:
                asyncio.run(self.live(step))
        asyncio.run(self.live(last=True))
        self.check()

    def worker(self) -> Worker:
        rng, job = self.rng, self.job
        room, replay = rng.choice((1, 1 << 30)), rng.choice(("10s", "0s"))
        core = Core(job, lambda job, read, _: Live(job, read_many=read, most_bytes=room), advance, last_event)
        core = core._replace(meet=Live.meet)
        ttl = {"ttl": job.settings.state.ttl, "replay": replay, "checkpoint_records": 10**9}
        worker = Worker(self.broker, store=self.store, core=core, exactly_once=self.exactly_once, **ttl)
        if job.forecast_plan is not None:
            worker.delivery.metrics.expect_forecasts(*job.forecast_plan)
        return worker

    async def live(self, step: str = "", *, last: bool = False) -> None:
        broker, rng, worker = self.broker, self.rng, self.worker()
        self.began.append((broker.committed.get(0, 0), broker.progress.get(0, 0)))
        await worker.begin(0)
        held = worker.delivery.held[0]
        at = sum(record.offset < broker.committed.get(0, 0) for record in self.records)
        left = len(self.records) if last else rng.randrange(1, 15)  # checkpoints
        with suppress(Crash):
            while at < len(self.records) and left:
                count, left = rng.choice(self.batches), left - 1
                worker.fetch(0, self.records[at : at + count])
                at += count
                await worker.settle()
                assert worker.delivery.failed is None, worker.delivery.failed
                worker.kafka.takes = last or rng.random() > 0.05
                broker.at = self._crash_after(0 if left or last else 1 if step else rng.randrange(1, 9), step)
                await held.checkpoints.take()
        broker.at = lambda step: None
        for task in held.tasks if not last else ():
            task.cancel()
        if last:
            worker.delivery.finish_within = 60.0
            worker.delivery.raise_barrier()
            await worker.delivery.revoke("stop")
            assert worker.delivery.failed is None, worker.delivery.failed
        elif rng.random() < 0.4:
            self.store = WatchedStore(broker)

    def _crash_after(self, steps: int, wanted: str) -> Any:
        """steps: of this name, or of any; 0: never."""

        def at(step: str) -> None:
            nonlocal steps
            if step.endswith(wanted):
                steps -= 1
                if not steps:
                    raise Crash

        return at

    def check(self) -> None:
        truth, seen, order = self.truth, set(), dict[Any, int]()
        sinks = {topic: sink for sink, topic in self.job.sinks.items()}
        ranks = {(sink, name): rank for sink, of in truth.answers.items() for rank, name in enumerate(of)}
        for one in self.broker.topics:
            place, key = (sinks[one.topic], identity(one.headers)), (one.topic, one.key)
            _, *wanted, _, headers = truth.answers[place[0]][place[1]]
            assert (wanted, headers) == ([one.key, one.value], tuple(one.headers))
            assert place not in seen or not self.exactly_once, f"{place} came twice"
            assert place in seen or ranks[place] >= order.get(key, 0), f"{place} came before an earlier one"
            order[key] = max(ranks[place], order.get(key, 0))
            seen.add(place)
        assert seen == ranks.keys()
        states = {key: data for key, data in dict(self.broker.changelog[0]).items() if data is not None}
        assert states == self.store.data[0]
        final = {key: data for (_, key), data in truth.snapshots.items()}
        times = {key: last_event(self.job, data)[0] for key, data in final.items()}
        idle = {key for key, at in times.items() if max(times.values()) - at > (self.job.settings.state.ttl or float("inf"))}
        assert {**states, **{key: final[key] for key in idle - states.keys()}} == final
        assert self.broker.committed == self.broker.progress == {0: self.records[-1].offset + 1}
