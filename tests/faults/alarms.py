"""Workers killed between an alarm and the checkpoint that keeps it open."""

import json
import shutil
import zlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamjobs.kafka.topic_id import progress_of
from tests.brokers.fault_injection import crash_after, program
from tests.brokers.kafka_job import Sent, until
from tests.faults.case import Case
from tests.faults.inputs import finish
from tests.faults.load import NOTE, START, people, sent
from tests.faults.processes import kill, wait_for_crash

CHART = {"name": "column_chart", "learn": 20, "least": 5, "reference": 40, "hold": 20}
DRIFT = {"watch": "columns", "false_alarms": "1 per 200 rows", "detector": CHART}
STANDS = {
    "watch": "columns",
    "false_alarms": "1 per 200 rows",
    "reference": "first 100 rows",
    "detector": "reference_chart",
}
QUIET, LASTS = 160, 40  # rows of a key before its first change, and from one to the next
CRASHES, MOST_CRASHES = 3, 12  # right after alarms, and all
AT_STAKE = 10_000  # records that wait for the worker which crashes: each key has a change among them


def alarms(case: Case) -> None:
    """Three kills right after alarms were sent and before their checkpoint: none is lost, none is opened under two ids."""
    _interrupted(case, DRIFT)


def reference(case: Case) -> None:
    """The same with a reference that stands still, so that alarms last as long as the change."""
    _interrupted(case, STANDS)


def silent(case: Case) -> None:
    """Keys fall silent and come back all the time; a worker is killed five times, with states that lack such alarms."""
    job = case.make_job(alarms={"silent": "20s"}, state={"replay": "300ms"})
    case.records, spans = pausing(case.seed), []
    case.start_load(40)
    for turn in range(5):
        worker = case.run_worker("a", static=True)
        case.wait_for_commits(len(case.records) // 10)
        kill(case, worker)
        commits = job.commits()
        spans += [(place.partition, one.offset, progress_of(one.offset, one.metadata)) for place, one in commits.items()]
        if turn % 2:
            shutil.rmtree(worker.state)
    case.run_worker("a", static=True)
    finish(case)
    job.wait_for_all_markers()
    again = dict.fromkeys((True, False), 0)  # by whether the alarm is raised
    for message in job.read(job.core.sinks["alarms"], committed_only=case.exactly_once):
        alarm = json.loads(message.value())
        if alarm["watch"] == "silent":
            offset = int(dict(message.headers())["streamjobs-id"].removesuffix(b"-end").split(b"-")[-3])
            inside = any(number == message.partition() and begin <= offset < end for number, begin, end in spans)
            again[alarm["open"]] += inside
    assert all(again.values()), f"alarms of silence between R and P, raised and ended: {again}"
    case.prove(f"5 kills, {again[True]} alarms of silence raised and {again[False]} ended between R and P")


def pausing(seed: int) -> list[Sent]:
    """A sample of each of 60 keys each second; a third of them pauses half a minute each minute, at different times."""
    random, records = np.random.default_rng(seed), []
    for step in range(400):
        for key in random.permutation(60).tolist():
            if key % 3 or (step + 7 * key) % 60 < 30:
                at = START + step
                records.append(sent(key, {"x": random.normal(size=4).round(4).tolist(), "ts": at, "note": NOTE}, at))
    return records


def counts_ids(case: Case) -> None:
    """The same with ids from a counter that is no part of the state."""
    _interrupted(case, DRIFT, "counts-ids")


def _interrupted(case: Case, drift: Mapping[str, Any], fault: str = "") -> None:
    job = case.make_job(drift=drift, sinks={"drift": ""}, state={"checkpoint": "2s"})
    topic = job.core.sinks["alarms"]
    let_change(case)
    case.start_load(40)
    plain, crash = (program(fault), program(f"{fault}+crash-after-outputs")) if fault else (None, crash_after("outputs"))
    worker = case.run_worker("a", static=True, program=plain)
    until(lambda: _sent(case, topic) > 0, "the first alarms", 180)
    case.stop_worker(worker)
    case.killed = True
    told_in = []  # of each crash: alarms that were sent before it
    while sum(map(bool, told_in)) < CRASHES:
        assert len(told_in) < MOST_CRASHES, f"alarms sent before each of {MOST_CRASHES} crashes: {told_in}"
        before = _sent(case, topic)
        until(lambda: job.lag() > AT_STAKE, "records with changes", 180)
        worker = case.start_worker("a", static=True, program=crash)
        wait_for_crash(worker, "outputs")  # on a busy machine perhaps before the first alarm
        told_in.append(_sent(case, topic) - before)
    case.run_worker("a", static=True, program=plain)
    finish(case)
    job.wait_for_all_markers()
    seen = job.read(topic, committed_only=case.exactly_once)
    told = [(dict(message.headers())["streamjobs-id"], message.key(), json.loads(message.value())) for message in seen]
    by_header: dict[bytes, set[str]] = defaultdict(set)
    by_id: dict[str, set[tuple[bytes, float]]] = defaultdict(set)
    for header, key, alarm in told:
        by_header[header].add(alarm["id"])
        by_id[alarm["id"]].add((key, alarm["start"]))
    case.found += [f"{len(ids)} ids of the alarm {header!r}" for header, ids in by_header.items() if len(ids) > 1][:3]
    case.found += [f"the id {one} of {len(of)} alarms" for one, of in by_id.items() if len(of) > 1][:3]
    again = _sent(case, topic) - len(by_header)
    assert again > 0, "no alarm was between its sending and its checkpoint"
    raised, ended = (sum(open_ == alarm["open"] for *_, alarm in told) for open_ in (True, False))
    assert raised, "no alarm was raised"
    assert ended, "no alarm has ended"
    case.prove(f"{CRASHES} kills, {len(by_id)} alarms, {again} records of alarms sent again or in transactions undone")


def _sent(case: Case, topic: str) -> int:
    """Records of alarms, those of transactions that may not count as well."""
    return sum(1 for _ in case.job.read(topic))


def let_change(case: Case) -> None:
    """Every record's x becomes noise about a level, which changes for each key after QUIET rows and then every LASTS.

    A suite with few records has no change in them: this case then makes its own.
    """
    random = np.random.default_rng(case.seed)
    steps: dict[bytes | None, int] = defaultdict(int)
    records = []
    for record in max(case.records, people(case.seed), key=len):
        step = steps[record.key]
        steps[record.key] += 1
        turn = zlib.crc32(record.key or b"")  # keys change at different times, so that any batch has alarms
        high = step >= QUIET and (step - QUIET + turn) // LASTS % 2 == 0
        body = json.loads(record.value or b"")
        body["x"] = np.round(random.normal([0, 6.0 * high, 0, 0]), 4).tolist()
        records.append(record._replace(value=json.dumps(body).encode()))
    case.records = records
