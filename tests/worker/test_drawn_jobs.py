"""The worker with the core of drawn jobs, on fakes: crashes at random steps of random checkpoints, with idle keys removed.

On a real broker the same is `python -m tests.faults --drawn`, which takes half a minute a job; here a job takes seconds.
"""

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.interface import Core
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import last_event
from streamjobs.core.messages import Stored
from streamjobs.settings.load import settings_from
from streamjobs.worker import idle_keys
from streamjobs.worker.delivery import Delivery
from streamjobs.worker.pace import Pace
from streamjobs.worker.store import MemoryStore
from tests.brokers.verification import identity, replayed
from tests.faults.drawn_records import Stream, draw, writer
from tests.worker.fakes import Broker, Crash, Worker

RECORDS = 600


class _Sim:
    """A job in several lives; in the last one the rest is applied and all states are written."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = rng = random.Random(seed)
        while (one := draw(rng)).form == "avro":
            pass
        one = one._replace(keys=rng.choice((3, 10, 30)))
        if one.population is not None:
            one.table["population"] = {"file": "population.state"}
        one.table["source"]["topic"] = "in"
        self.job = Job.from_settings(settings_from(one.table), population=one.population).on_partitions(1)
        sent = Stream(one, seed, writer(one, folder)).records(RECORDS)
        self.records = [
            Stored("in", 0, 2 * at, one.timestamp, one.key, one.value, tuple(one.headers)) for at, one in enumerate(sent)
        ]
        self.exactly_once = one.table["job"]["guarantee"] == "exactly_once"
        self.broker, self.store, self.removed = Broker(), MemoryStore(), 0

    def worker(self) -> Worker:
        rng, job = self.rng, self.job
        room, replay = rng.choice((1, 1 << 30)), 0 if job.steps.silent else rng.choice(("10s", "0s"))
        core = Core(job, lambda job, read, _: Live(job, read_many=read, most_bytes=room), advance, last_event)
        core = core._replace(meet=Live.meet)
        ttl = {"ttl": job.settings.state.ttl, "replay": replay, "checkpoint_records": 10**9}
        worker = Worker(self.broker, store=self.store, core=core, exactly_once=self.exactly_once, **ttl)
        if job.forecast_plan is not None:
            worker.delivery.metrics.expect_forecasts(*job.forecast_plan)
        return worker

    async def live(self, *, last: bool = False) -> None:
        broker, rng, worker = self.broker, self.rng, self.worker()
        await worker.begin(0)
        held = worker.delivery.held[0]
        at = sum(record.offset < broker.committed.get(0, 0) for record in self.records)
        left = len(self.records) if last else rng.randrange(1, 15)  # checkpoints
        with suppress(Crash):
            while at < len(self.records) and left:
                count, left = rng.choice((1, 5, 40, 200)), left - 1
                worker.fetch(0, self.records[at : at + count])
                at += count
                await worker.settle()
                assert worker.delivery.failed is None, worker.delivery.failed
                worker.kafka.takes = last or rng.random() > 0.05
                broker.at = self._crash_after(rng.randrange(1, 9) if not left and not last else 0)
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
            self.store = MemoryStore()

    def _crash_after(self, steps: int) -> Any:
        def at(_: str) -> None:
            nonlocal steps
            steps -= 1
            if not steps:
                raise Crash

        return at

    def check(self) -> None:
        truth, seen, order = replayed(self.job, self.records), set(), dict[Any, int]()
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


def _run(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> _Sim:
    sim = _Sim(seed, folder)
    monkeypatch.setattr(idle_keys, "RECENT_SECONDS", -1.0)  # a key is idle as soon as its state is written
    monkeypatch.setattr(Pace, "_pass_time", lambda self, most: sim.rng.choice((0.0, 0.05, 0.3)))
    monkeypatch.setattr(Delivery, "_count_expired", lambda self, number, keys: setattr(sim, "removed", sim.removed + keys))
    for _ in range(sim.rng.randrange(2, 8)):
        asyncio.run(sim.live())
    asyncio.run(sim.live(last=True))
    sim.check()
    return sim


@pytest.mark.long
def test_crashes_at_any_step_change_no_output_and_no_state_of_any_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(_run(seed, tmp_path, monkeypatch).removed for seed in range(60)) > 10


@pytest.mark.long
def test_a_planted_bug_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "replay_from", property(lambda self: self._since.offset))
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(10):
            _run(seed, tmp_path, monkeypatch)
