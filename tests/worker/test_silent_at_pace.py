"""Keys that are silent, missing, or alarm together, where states are written at their own pace.

A crash at every step of a checkpoint, with alarms that open and end between R and P, changes no output and no state.
"""

import asyncio
import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial

import pytest

from streamjobs.core import admit
from streamjobs.core.advance import advance
from streamjobs.core.interface import Core
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.silence import Silence
from streamjobs.core.live.stored import last_event
from streamjobs.core.messages import Stored
from streamjobs.worker.pace import Pace
from streamjobs.worker.partition import Partition
from tests.brokers.verification import Truth, identity, replayed
from tests.core.alarm_jobs import EXPECTED, GROUP, OUTAGE, SILENT, fleet, hall, job, of_missing, site
from tests.core.streams import START
from tests.worker.fakes import Broker, Crash, Worker
from tests.worker.lives import Lives

Patch = pytest.MonkeyPatch
STEPS = ("", "before changelog", "after changelog", "before commit", "after commit", "before store", "after store")


def ahead() -> list[Stored]:
    """As `of_missing`, with every other sample of s5 8 s ahead: these set the partition's event time."""
    records = list[Stored]()
    for one in of_missing():
        body = json.loads(one.value or b"")
        body["ts"] += 8.0 if one.key == b"s5" and len(records) % 2 else 0.0
        records.append(one._replace(value=json.dumps(body).encode()))
    return records


JOBS: dict[str, tuple[dict[str, object], Callable[[], list[Stored]]]] = {
    "silent": (EXPECTED | {"stuck": True}, ahead),
    "group": (
        GROUP,
        partial(hall, 12, 300, {key: [(110 + 5 * key + key // 6 * 40, 190 + key // 6 * 70)] for key in range(12)}),
    ),
    "outage": (OUTAGE, partial(site, 160, 5)),
}


@cache
def _of(name: str) -> tuple[Job, list[Stored], Truth]:
    """The job, its records, and what a replay of them gives."""
    sections, made = JOBS[name]
    one, records = job(alarms=sections).on_partitions(1), made()
    return one, records, replayed(one, records)


def _run(name: str, seed: int, monkeypatch: Patch, *, exactly_once: bool) -> Lives:
    one, records, truth = _of(name)
    rng = random.Random(seed)
    lives = Lives(one, records, rng, exactly_once=exactly_once, truth=truth)
    lives.batches = 1, 5, 40, 80
    lives.run(monkeypatch, rng.sample(STEPS, len(STEPS)) * 2)
    return lives


def _applied_again(lives: Lives) -> set[tuple[str, bool]]:
    """Kinds of alarms between R and P, each with whether its start or its end."""
    kinds = set()
    for name, (_, _, value, *_) in lives.truth.answers["alarms"].items():
        offset, one = int(name.split(b"-")[2]), json.loads(value or b"")
        if any(begin <= offset < upto for begin, upto in lives.began):
            kinds.add((one["watch"], one["open"]))
    return kinds


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("name", JOBS)
def test_a_crash_at_any_step_changes_no_bit(name: str, exactly_once: bool, monkeypatch: Patch) -> None:
    again = set[tuple[str, bool]]()
    wanted = {
        "silent": {("silent", True), ("silent", False), ("missing", False)},
        "group": {("stuck", True)},
        "outage": {("silent", False)},
    }[name]
    for seed in range(12):  # two are mostly enough
        again |= _applied_again(_run(name, seed, monkeypatch, exactly_once=exactly_once))
        if seed > 0 and again >= wanted:
            break
    assert again >= wanted
    assert not again & {("group", True), ("missing", True)}, "all states are written with these"


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("written", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("step", STEPS[1:])
def test_the_end_of_a_group_is_sent_once_whatever_part_of_its_checkpoint_is_there(
    step: str, written: float, exactly_once: bool, monkeypatch: Patch
) -> None:
    """written: part of the bounds, by which states are due. The end comes again only where no state has its record."""
    one, records, of_replay = _of("group")
    truth = [value for _, _, value, *_ in of_replay.answers["alarms"].values() if b'"watch":"group"' in value]
    assert [json.loads(value)["open"] for value in truth[:2]] == [True, False]
    end = next(at for at, single in enumerate(records) if json.loads(single.value)["ts"] >= json.loads(truth[1])["end"])
    core = Core(one, lambda job, read, _: Live(job, read_many=read), advance, last_event, meet=Live.meet)
    broker = Broker()
    first = Worker(broker, core=core, exactly_once=exactly_once, replay="1h")

    def crash(name: str) -> None:
        if name == step:
            raise Crash

    async def crashed() -> None:
        held = (await first.begin(0)).held[0]
        for part, due in ((records[: end - 15], 1.0), (records[end - 15 : end + 15], written)):
            monkeypatch.setattr(Pace, "_pass_time", lambda pace, most, due=due: due)
            first.fetch(0, part)
            await first.settle()
            broker.at = crash if part[-1].offset > end else lambda name: None
            with suppress(Crash):
                await held.checkpoints.take()
        for task in held.tasks:
            task.cancel()

    asyncio.run(crashed())
    broker.at = lambda name: None
    second = Worker(broker, core=core, exactly_once=exactly_once, replay="1h")
    asyncio.run(second.apply_and_stop(0, records[broker.committed[0] :]))
    seen = [one.value for one in broker.topics if one.value and b'"watch":"group"' in one.value]
    again = not exactly_once and step == ("before changelog" if written else "before commit")
    assert seen == [*truth[:2], *truth[1 : 1 + again], *truth[2:]]


@pytest.mark.parametrize("since", [0, 300])
def test_a_crash_before_the_first_commit_with_a_clock_changes_nothing(since: int, monkeypatch: Patch) -> None:
    """Of a new job, or of one that gets `silent`. Keys without states would be heard of at the clock of the others."""
    records, without, real = fleet(), job().on_partitions(1), Pace.cut
    upto = next(at for at, one in enumerate(records) if json.loads(one.value or b"")["ts"] > START + 330)  # s1 and s2 pause
    alarms = []
    for crashes in (False, True):
        broker = Broker()
        asyncio.run(_worker(broker, without).apply_and_stop(0, records[:since]))
        one = job(alarms=SILENT).on_partitions(1)
        if crashes:
            broker.at = partial(_crash, "before commit")
            with monkeypatch.context() as patch, suppress(Crash):
                patch.setattr(Pace, "cut", lambda *of, **how: real(*of, **how) if how["whole"] else [b"s7"])
                asyncio.run(_crashed(_worker(broker, one), records[since:upto]))
            assert broker.committed.get(0, 0) == since and broker.changelog[0]
            broker.at = lambda name: None
        asyncio.run(_worker(broker, one).apply_and_stop(0, records[since:]))
        alarms.append([one.value for one in broker.topics if one.value and b'"watch"' in one.value])
    assert len(alarms[0]) >= 10 and alarms[0] == alarms[1]


def test_a_group_of_silent_keys_stays_open_through_a_crash_between_states_and_commit() -> None:
    """The states have the group. Its keys fall silent once more, because the commit is from before they did."""
    records, one, broker = site(160, 5), job(alarms=OUTAGE).on_partitions(1), Broker()
    truth = replayed(one, records).answers["alarms"]
    opened = next(int(name.split(b"-")[2]) for name in truth if b"-group-" in name)
    asyncio.run(_worker(broker, one).apply_and_stop(0, records[: opened - 600]))
    broker.at = partial(_crash, "before commit")
    with suppress(Crash):
        asyncio.run(_crashed(_worker(broker, one), records[opened - 600 : opened + 50]))
    assert broker.committed == {0: opened - 600}
    broker.at = lambda name: None
    asyncio.run(_worker(broker, one).apply_and_stop(0, records[opened - 600 :]))
    seen = [single for single in broker.topics if single.value and b'"watch"' in single.value]
    assert {identity(single.headers): single.value for single in seen} == {name: of[2] for name, of in truth.items()}


def _worker(broker: Broker, one: Job) -> Worker:
    core = Core(one, lambda job, read, _: Live(job, read_many=read), advance, last_event, meet=Live.meet)
    return Worker(broker, core=core, replay="1h")


def _crash(step: str, name: str) -> None:
    if name == step:
        raise Crash


async def _crashed(worker: Worker, records: list[Stored]) -> None:
    held = (await worker.begin(0)).held[0]
    worker.fetch(0, records)
    await worker.settle()
    try:
        await held.checkpoints.take()
    finally:
        for task in held.tasks:
            task.cancel()


def _clock_of_the_newest_cut(patch: Patch) -> None:
    patch.setattr(Pace, "moment", property(lambda self: self._since.moment))


def _clock_not_committed(patch: Patch) -> None:
    real = Silence.meet
    patch.setattr(Silence, "meet", lambda self, stored, moment="": real(self, stored))


def _applied_samples_do_not_count(patch: Patch) -> None:
    patch.setattr(admit, "_pass", lambda *_: None)


def _alarms_raised_again_do_not_count(patch: Patch) -> None:
    patch.setattr(Silence, "alarm_again", lambda *_: None)


def _keys_of_a_group_written_alone(patch: Patch) -> None:
    real = Partition._snapshots
    patch.setattr(Partition, "_snapshots", lambda self, **_: (setattr(self, "_write_all", False), real(self))[1])


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("silent", _clock_of_the_newest_cut),
        ("silent", _clock_not_committed),
        ("silent", _applied_samples_do_not_count),
        ("group", _keys_of_a_group_written_alone),
        ("group", _alarms_raised_again_do_not_count),
        ("outage", _keys_of_a_group_written_alone),
    ],
)
def test_a_planted_bug_is_noticed(name: str, bug: Callable[[Patch], None], monkeypatch: Patch) -> None:
    _of(name)  # without the bug
    bug(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(12):  # mostly the first ones
            _run(name, seed, monkeypatch, exactly_once=False)
