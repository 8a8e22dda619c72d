"""Sections added to a job that was killed with states that lacked records: they begin where its outputs end.

Settings of [alarms] that change while alarms are open: every end comes once, and nothing that was out is sent again.
"""

import asyncio
import json
from functools import partial
from typing import Any

import numpy as np
import pytest

from streamjobs.core.advance import advance
from streamjobs.core.interface import Core
from streamjobs.core.job import Job
from streamjobs.core.live import live as live_module
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot, last_event
from streamjobs.core.messages import Stored
from tests.core.alarm_jobs import CHART, DRIFT, GROUP, NAMES, fleet, hall, job
from tests.core.streams import START, TOPIC, record
from tests.worker.fakes import Broker, Worker

P = 900  # outputs of records before it are out
SINKS = {"alarms": f"{TOPIC}.alarms"}
CHARTED = {**DRIFT, "detector": {**CHART, "learn": 60}}
STUCK, SILENT = {"stuck": True}, {"stuck": True, "silent": "30s", "expected": ["s9"]}
ADDED = {  # (sections before, after, what is watched then)
    "stuck": ({"alarms": None}, {"alarms": STUCK, "sinks": SINKS}, {"stuck"}),
    "silent": ({"alarms": STUCK, "sinks": SINKS}, {"alarms": SILENT, "sinks": SINKS}, {"stuck", "silent", "missing"}),
    "expected": (
        {"alarms": SILENT, "sinks": SINKS},
        {"alarms": SILENT | {"expected": ["s9", "s8"]}, "sinks": SINKS},
        {"stuck", "silent", "missing"},
    ),
    "drift": ({"alarms": STUCK, "sinks": SINKS}, {"alarms": STUCK, "drift": CHARTED, "sinks": SINKS}, {"stuck", "columns"}),
    "alarms": ({"drift": CHARTED, "alarms": None}, {"drift": CHARTED, "alarms": None, "sinks": SINKS}, {"columns"}),
}


def records() -> list[Stored]:
    """s0 and s1 send each second. s0 repeats a number and jumps from before P on, both do later, at last s1 is silent."""
    rng, sent = np.random.default_rng(5), list[Stored]()
    for second in range(1_200):
        for number in (0, 1) if second < 1_120 else (0,):
            level = 30.0 if 430 < second < 446 or second > 1_000 else 0.0
            body = {name: level + float(rng.normal()) for name in NAMES} | {"ts": START + second}
            if (number == 0 and 380 <= second < 520) or (number == 1 and 600 < second < 790):
                body["ax"] = 4.0
            sent.append(record(len(sent), b"s%d" % number, body))
    return sent


def core_of(one: Job) -> Core:
    return Core(one, lambda job, read, _: Live(job, read_many=read), advance, last_event, meet=Live.meet)


async def killed(worker: Worker, some: list[Stored], at_once: int) -> None:
    await worker.begin(0)
    await worker.apply_and_crash(0, some, at_once)


def alarms(broker: Broker) -> list[dict[str, Any]]:
    return [json.loads(one.value or b"") for one in broker.topics if one.topic == SINKS["alarms"]]


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize(("at_once", "crashes"), [(60, (300, P - 30, P + 70)), (1_000, (P, P + 1)), (1_000, ())])
@pytest.mark.parametrize("section", ADDED)
def test_a_section_added_after_a_kill_gives_the_alarms_of_one_added_after_a_clean_stop(
    section: str, at_once: int, crashes: tuple[int, ...], exactly_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """crashes: where workers with the added section end, while they apply records again and later."""
    before, after, kinds = ADDED[section]
    at_once = 60 if section == "expected" else at_once  # all states are written with the batch in which s9 is missing
    sent, found = records(), []
    if section == "drift":  # as after 'drift relearn', which needs a clean stop
        monkeypatch.setattr(live_module, "decode_snapshot", partial(decode_snapshot, drift_anew=True))
        monkeypatch.setattr(Job, "seed_of", lambda self, key: 0)  # that of states made so
    for clean in (True, False):
        broker = Broker()
        options = {"exactly_once": exactly_once, "replay": "1h"}
        worker = Worker(broker, core=core_of(job(**before)), **options)
        asyncio.run(worker.apply_and_stop(0, sent[:P]) if clean else killed(worker, sent[:P], at_once))
        assert broker.progress == {0: P} and (broker.committed == {0: P}) == clean
        raised = len(alarms(broker))
        for until in () if clean else crashes:
            worker = Worker(broker, core=core_of(job(**after)), **options)
            asyncio.run(killed(worker, sent[broker.committed[0] : until], at_once))
        worker = Worker(broker, core=core_of(job(**after)), **options)
        asyncio.run(worker.apply_and_stop(0, sent[broker.committed[0] :]))
        seen = alarms(broker)[raised:]
        found.append(seen if exactly_once else [one for at, one in enumerate(seen) if one not in seen[:at]])
    assert found[0] == found[1] and {one["watch"] for one in found[0]} == kinds
    assert section != "expected" or [one["key"] for one in found[0] if one["watch"] == "missing"] == ["s8"]


@pytest.mark.parametrize("upto", [1_650, 1_740, 2_000])  # before the group would open, and while it is
def test_a_group_added_after_a_kill_is_as_one_added_after_a_clean_stop(upto: int) -> None:
    sent = hall(12, 300, {key: [(110 + 5 * key, 250 + 2 * key)] for key in range(12)})
    single, found = {"silent": "10m", "stuck": True}, []
    for clean in (True, False):
        broker = Broker()
        worker = Worker(broker, core=core_of(job(alarms=single, sinks=SINKS)), replay="1h")
        asyncio.run(worker.apply_and_stop(0, sent[:upto]) if clean else killed(worker, sent[:upto], 60))
        assert broker.progress == {0: upto} and (broker.committed == {0: upto}) == clean
        raised = len(alarms(broker))
        worker = Worker(broker, core=core_of(job(alarms=GROUP, sinks=SINKS)), replay="1h")
        asyncio.run(worker.apply_and_stop(0, sent[broker.committed[0] :]))
        found.append(alarms(broker)[raised:])
    assert found[0] == found[1] and [one["open"] for one in found[0] if one["watch"] == "group"] == [True, False]


TOGETHER = hall(12, 300, {key: [(110 + 5 * key, 250 + 2 * key)] for key in range(12)})
CHANGES = {  # (records, event time of the change, settings before, after, what is watched)
    "longer": (fleet(), 400.0, {"silent": "60s"}, {"silent": "300s"}, "silent"),
    "shorter": (fleet(), 480.0, {"silent": "300s"}, {"silent": "60s"}, "silent"),
    "share": (TOGETHER, 170.0, GROUP, GROUP | {"group": 1.0}, "group"),
    "within": (TOGETHER, 170.0, GROUP, GROUP | {"group_within": "5s"}, "group"),
}


def sent_by(broker: Broker, watch: str) -> list[dict[str, Any]]:
    return [one for one in alarms(broker) if one["watch"] == watch]


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_open_alarms_end_once_after_their_settings_changed(change: str, exactly_once: bool) -> None:
    sent, at, before, after, watch = CHANGES[change]
    upto = next(place for place, one in enumerate(sent) if _time(one) > at)
    found = []
    for clean, crashes in (
        (True, ()),
        (True, (upto + 3, upto + 90)),
        (False, ()),
        (False, (upto - 20, upto + 3, upto + 90)),
    ):
        broker = Broker()
        options = {"exactly_once": exactly_once, "replay": "1h"}
        worker = Worker(broker, core=core_of(job(alarms=before, sinks=SINKS)), **options)
        asyncio.run(worker.apply_and_stop(0, sent[:upto]) if clean else killed(worker, sent[:upto], 60))
        assert broker.progress == {0: upto} and (broker.committed == {0: upto}) == clean
        open_then = {one["id"] for one in sent_by(broker, watch)} - _ended(sent_by(broker, watch))
        assert bool(open_then) == (change != "shorter")
        out = len(sent_by(broker, watch))
        for until in crashes:
            worker = Worker(broker, core=core_of(job(alarms=after, sinks=SINKS)), **options)
            asyncio.run(killed(worker, sent[broker.committed[0] : until], 60))
        worker = Worker(broker, core=core_of(job(alarms=after, sinks=SINKS)), **options)
        asyncio.run(worker.apply_and_stop(0, sent[broker.committed[0] :]))
        seen = sent_by(broker, watch)[out:]
        assert open_then <= _ended(seen)
        found.append(seen)
    assert found[1:] == found[:1] * 3
    (first, *_), times = found[0], [(one["id"], one["open"]) for one in found[0]]
    assert len(set(times)) == len(times)
    if change == "shorter":  # s1 and s2 are silent by the new time with the first record
        assert [(one["key"], one["open"]) for one in found[0][:4]] == [
            (key, on) for on in (True, False) for key in ("s1", "s2")
        ]
    elif watch == "group":  # too few keys with the first record
        assert not first["open"] and first["end"] < START + at + 1 and first["keys_alarmed"] >= 5


def _ended(some: list[dict[str, Any]]) -> set[str]:
    return {one["id"] for one in some if not one["open"]}


def _time(one: Stored) -> float:
    return float(json.loads(one.value or b"")["ts"]) - START
