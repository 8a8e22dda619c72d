"""[alarms] silent in a job that was killed without it, with states that lacked records."""

import asyncio
import json
from typing import Any

import pytest

from streamjobs.core.advance import advance
from streamjobs.core.interface import Core
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import last_event
from streamjobs.core.messages import Stored
from tests.core.alarm_jobs import NAMES, job
from tests.core.streams import START, TOPIC, record
from tests.worker.fakes import Broker, Worker

LATER = 60  # records; of these, s1 stops at 20


def records() -> list[Stored]:
    """s0 sends each second, s1 until it stops, s9 never."""
    sent: list[Stored] = []
    for second in range(2 * LATER):
        for key in ("s0", "s1") if second < 10 else ("s0",):
            body = dict.fromkeys(NAMES, 0.1 * second) | {"ts": START + second}
            sent.append(record(len(sent), key.encode(), body))
    return sent


async def ended(worker: Worker, some: list[Stored], at_once: int) -> None:
    """All records with checkpoints, then a crash."""
    await worker.begin(0)
    await worker.apply_and_crash(0, some, at_once)


def core_of(one: Job) -> Core:
    def meet(live: Any, scan: Any) -> None:
        live.meet(scan)

    return Core(one, lambda job, read, _: Live(job, read_many=read), advance, last_event, meet=meet)


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("at_once", [7, 1000])
def test_alarms_of_a_section_that_was_added_after_a_kill_are_sent(exactly_once: bool, at_once: int) -> None:
    broker, sent = Broker(), records()
    sinks = {"alarms": "imu.alarms"}
    before = Worker(broker, core=core_of(job(alarms={"stuck": True}, sinks=sinks)), exactly_once=exactly_once, replay="1h")
    asyncio.run(ended(before, sent[:LATER], at_once))
    assert broker.committed == {0: 0} and broker.progress == {0: LATER} and not broker.topics
    silent = job(alarms={"stuck": True, "silent": "30s", "expected": ["s9"]}, sinks=sinks)
    after = Worker(broker, core=core_of(silent), exactly_once=exactly_once)
    asyncio.run(ended(after, sent, at_once))
    alarms = [json.loads(one.value or b"") for one in broker.topics if one.topic == f"{TOPIC}.alarms"]
    assert [(one["watch"], one["key"], one["start"] - START) for one in alarms] == [
        ("missing", "s9", 30.0),
        ("silent", "s1", 39.0),
    ]
    count = after.delivery.metrics.registry.get_sample_value
    assert [count("streamjobs_alarms_total", {"watch": kind}) for kind in ("missing", "silent")] == [1, 1]
