"""Records that are dead letters stay letters: no takeover learns from them, whatever it can read or has corrected."""

import asyncio
from typing import Any

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.interface import Core
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import last_event
from streamjobs.core.state import snapshot
from streamjobs.stages.learner import LearnerStage
from streamjobs.worker.logs import totals
from streamjobs.worker.pace import Pace
from tests.core.streams import TOPIC, record, samples, settings
from tests.worker.fakes import Crash, Worker

BAD, BEFORE = b"p1", 90
RECORDS = samples(180)


async def _crashed(worker: Worker, records: list, *, damaged: bool, at_once: int = 10) -> None:
    """All records in small batches with a checkpoint behind each, then a crash."""
    await worker.begin(0)
    if damaged:
        table = worker.store.data[0]  # type: ignore[attr-defined]
        table[BAD] = table[BAD][:-1] + bytes([table[BAD][-1] ^ 1])
    await worker.apply_and_crash(0, records, at_once)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_takeover_that_can_read_the_key_learns_no_record_that_is_a_letter(exactly_once: bool) -> None:
    job = Job.from_settings(settings())
    core = Core(job, lambda job, read, _: Live(job, read_many=read), advance, last_event)
    first = Worker(core=core, exactly_once=exactly_once)
    asyncio.run(_crashed(first, RECORDS[:BEFORE], damaged=False))
    broker = first.broker
    asyncio.run(
        _crashed(
            Worker(broker, store=first.store, core=core, exactly_once=exactly_once, replay="1h"),
            RECORDS[BEFORE:],
            damaged=True,
        )
    )
    letters = {int(dict(one.headers)["streamjobs-error-offset"]) for one in broker.topics if one.topic == f"{TOPIC}.dlq"}
    assert letters == {one.offset for one in RECORDS[BEFORE:] if one.key == BAD}
    assert broker.progress == {0: len(RECORDS)}
    asyncio.run(
        _crashed(
            Worker(broker, core=core, exactly_once=exactly_once),
            [one for one in RECORDS if one.offset >= broker.committed[0]],
            damaged=False,
        )
    )
    (applied,) = snapshot.decode(dict(broker.changelog[0])[BAD] or b"").offsets.values()
    assert applied < min(letters)


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("at_once", [10, 90])
def test_a_key_that_a_takeover_cannot_read_loses_no_record_of_those_that_are_applied_again(
    exactly_once: bool, at_once: int
) -> None:
    job = Job.from_settings(settings())
    core = Core(job, lambda job, read, _: Live(job, read_many=read), advance, last_event)
    first = Worker(core=core, exactly_once=exactly_once)
    asyncio.run(_crashed(first, RECORDS[:BEFORE], damaged=False))
    broker, store = first.broker, first.store
    again = RECORDS[BEFORE : BEFORE + 30]
    asyncio.run(
        _crashed(Worker(broker, store=store, core=core, exactly_once=exactly_once, replay="1h"), again, damaged=False)
    )
    assert broker.committed == {0: BEFORE} and broker.progress == {0: BEFORE + 30}
    takeover = Worker(broker, store=store, core=core, exactly_once=exactly_once, replay="1h")
    asyncio.run(_crashed(takeover, RECORDS[BEFORE:], damaged=True, at_once=at_once))
    letters = [int(dict(one.headers)["streamjobs-error-offset"]) for one in broker.topics if one.topic == f"{TOPIC}.dlq"]
    assert letters == [one.offset for one in RECORDS[BEFORE:] if one.key == BAD]
    counted = {reason: count for reason, count in takeover.delivery.metrics.taken.dead_lettered.items() if count}
    assert counted == {"state": len(letters)}
    outputs = [(one.topic, dict(one.headers)["streamjobs-id"]) for one in broker.topics]
    assert len(outputs) == len(set(outputs)) > len(letters)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_takeover_with_a_corrected_learner_learns_no_record_that_is_a_letter(
    exactly_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`dlq redrive` sends it back, and the key would learn from it twice."""
    guilty = 45
    records = [*RECORDS[:guilty], record(guilty, b"p0", {"ax": 4711.0, "ay": 0.0, "az": 0.0, "ts": 1_700_000_001.55})]
    records += RECORDS[guilty + 1 :]
    real = LearnerStage.advance

    def fails(self: LearnerStage, work: Any, slots: Any, X: Any, *columns: Any) -> Any:
        if (X == 4711.0).any():
            raise IndexError("planted")
        return real(self, work, slots, X, *columns)

    job = Job.from_settings(settings(window=None, scaling={"method": "none"}))
    core = Core(job, lambda job, read, _: Live(job, read_many=read), advance, last_event)
    first = Worker(core=core, exactly_once=exactly_once, replay="1h")
    with monkeypatch.context() as patch:
        patch.setattr(LearnerStage, "advance", fails)
        asyncio.run(_crashed(first, records[:BEFORE], damaged=False))
    broker = first.broker
    letters = [int(dict(one.headers)["streamjobs-error-offset"]) for one in broker.topics if one.topic == f"{TOPIC}.dlq"]
    assert letters == [guilty] and broker.committed[0] < broker.progress[0] == BEFORE
    left = [one for one in records if one.offset >= broker.committed[0]]
    asyncio.run(_crashed(Worker(broker, core=core, exactly_once=exactly_once), left, damaged=False))
    live = Live(job)
    advance(job, live, [one for one in records if one.offset != guilty])
    assert dict(broker.changelog[0]) == dict(live.snapshots())


def test_with_the_letters_of_a_state_that_cannot_be_written_all_states_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the letters of a second such key, whose state was not due; else a takeover would send them again, or never."""
    job, real = Job.from_settings(settings()), Pace.cut
    core = Core(job, lambda job, read, _: Live(job, read_many=read), advance, last_event)
    worker = Worker(core=core, replay="1h")
    monkeypatch.setattr(Pace, "cut", lambda *of, **how: real(*of, **how) if how["whole"] else [BAD])

    async def body() -> None:
        held = (await worker.begin(0)).held[0]
        worker.fetch(0, RECORDS[:BEFORE])
        await worker.settle()
        live = held.partition.live
        for key in (BAD, b"p2"):
            live.work["order"]["newest"][live.slot_of[key]] = float("nan")
        assert await held.checkpoints.take()

    asyncio.run(body())
    broker = worker.broker
    letters = [int(dict(one.headers)["streamjobs-error-offset"]) for one in broker.topics if one.topic == f"{TOPIC}.dlq"]
    assert sorted(letters) == [one.offset for one in RECORDS[:BEFORE] if one.key in (BAD, b"p2")]
    assert [key for key, _ in broker.changelog[0]] == [b"p0"]
    assert broker.committed == broker.progress == {0: BEFORE}


@pytest.mark.parametrize("replay", ["0s", "1h"])
@pytest.mark.parametrize("step", ["before commit", "after commit"])
def test_letters_are_counted_once_whatever_a_crash_makes_the_takeover_read_again(step: str, replay: str) -> None:
    """Before the commit states are ahead of it: letters come again, beside records that their keys have applied."""
    job = Job.from_settings(settings())
    core = Core(job, lambda job, read, _: Live(job, read_many=read), advance, last_event)
    records = [one._replace(value=b"{") if one.offset % 10 == 4 else one for one in RECORDS]
    first = Worker(core=core, replay=replay)

    def crash(name: str) -> None:
        if name == step:
            raise Crash

    async def crashed() -> None:
        held = (await first.begin(0)).held[0]
        first.fetch(0, records[:BEFORE])
        await first.settle()
        if held.partition.pace is not None:
            held.partition.pace.all = True
        first.broker.at = crash
        with pytest.raises(Crash):
            await held.checkpoints.take()
        for task in held.tasks:
            task.cancel()

    asyncio.run(crashed())
    first.broker.at = lambda name: None
    committed = {"before commit": {}, "after commit": {0: BEFORE}}[step]
    assert first.broker.committed == committed and first.broker.changelog[0]
    takeover = Worker(first.broker, store=first.store, core=core, replay=replay)
    asyncio.run(_crashed(takeover, records[committed.get(0, 0) :], damaged=False))
    counts = [totals(worker.delivery.metrics.taken) for worker in (first, takeover)]
    assert sum(one["dead_lettered"] for one in counts) == len(RECORDS) // 10
    assert sum(one["records"] - one["redelivered"] for one in counts) == len(RECORDS)
    assert sum(counts[1]["dead_letter_reasons"].values()) == (len(RECORDS) - BEFORE) // 10
