"""A release that is taken back: an earlier commit's workers, today's, the earlier ones again, and today's."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.state.snapshot import flatten
from streamjobs.errors import SnapshotError
from streamjobs.stages.idle import MANY
from streamjobs.stages.names import IDLE
from tests.brokers.fault_injection import program
from tests.brokers.kafka_job import Sent
from tests.brokers.workers import Worker
from tests.faults.alarms import STANDS, let_change, pausing
from tests.faults.audit import Audit
from tests.faults.case import Case
from tests.faults.drawn_records import SENSORS
from tests.faults.load import KEYS, NOTE, START, sent
from tests.faults.processes import kill
from tests.faults.releases import COMPILED_WITHIN, earlier

# Before keys counted the samples that are to come before they may stand still. Its `column_chart` has other numbers, so
# "drift" has another detector.
COMMIT = "ecdce1d9"
DELAYED = 30  # samples of a key between a sample and its label


class Kind(NamedTuple):
    """A job, and its records."""

    sections: dict[str, dict[str, Any]]
    records: Callable[[Case], Sequence[Sent]]


class RollbackAudit(Audit):
    """The earlier commit forgets how many samples a key lacks before it may stand still."""

    def same_state(self, got: bytes | None, due: bytes | None) -> bool:
        if got == due or got is None or due is None:
            return got == due
        try:
            (one, *named), (other, *due_named) = (decode_snapshot(self.job.core, data) for data in (got, due))
        except SnapshotError:
            return False
        for states in (one, other):
            if IDLE in states:
                states[IDLE] = states[IDLE]._replace(repeats=states[IDLE].repeats % MANY)
        return named == due_named and bytes_of(one) == bytes_of(other)


def bytes_of(states: dict[str, Any]) -> list[bytes]:
    return [array.tobytes() for name in states for array in flatten(states[name])]


def people_of(case: Case) -> Sequence[Sent]:
    return case.records


def late_labels(case: Case) -> list[Sent]:
    """Each label comes in a record of its own, so many samples after its sample."""
    waiting: dict[bytes | None, list[Sent]] = {}
    made = []
    for record in case.records:
        body = json.loads(record.value or b"")
        label = {name: body.pop(name) for name in ("label",) if name in body}
        made.append(record._replace(value=json.dumps(body).encode()))
        of_key = waiting.setdefault(record.key, [])
        of_key.append(record._replace(value=json.dumps({"ts": body["ts"], **label}).encode() if label else None))
        if len(of_key) > DELAYED and (due := of_key.pop(0)).value is not None:
            made.append(due)
    return made


def changes(case: Case) -> Sequence[Sent]:
    let_change(case)
    return case.records


def pauses(case: Case) -> Sequence[Sent]:
    return pausing(case.seed)


def of_sensors(case: Case) -> list[Sent]:
    """Ten samples a second of one sensor, a quarter as many of the other, which comes later."""
    random, records = np.random.default_rng(case.seed), []
    for step in range(max(80, len(case.records) // KEYS)):
        for key in random.permutation(KEYS).tolist():
            at = round(START + step / 10 + key * 1e-5, 6)
            x = random.normal(size=3).round(4).tolist()
            label = {"label": "up" if x[0] > 0 else "down"} if step % 3 == 0 else {}
            records.append(sent(key, {"s": "fast", "f0": x[0], "f1": x[1], "ts": at, "note": NOTE, **label}, at))
            if step % 4 == 0:
                records.append(sent(key, {"s": "slow", "f2": x[2], "ts": round(at - 0.01, 6), "note": NOTE}, at))
    return records


KINDS = {
    "heads": Kind({"labels": {"wait": "2s"}}, late_labels),
    "drift": Kind({"drift": STANDS, "alarms": {"silent": "1h", "group": 0.2}, "sinks": {"drift": ""}}, changes),
    "forecasts": Kind({"forecast": {"ahead": [1, 3], "season": 7}}, people_of),
    "silent": Kind({"alarms": {"silent": "20s"}}, pauses),
    "sensors": Kind(
        {"source": {"dim": None, "missing": "skip", "sensors": {"name": "s", "rate": 5, "each": SENSORS}}}, of_sensors
    ),
}


def rolled_back(kind: str, planted: str = "") -> Callable[[Case], None]:
    def do(case: Case) -> None:
        _roll_back(case, KINDS[kind], planted and program(planted))

    do.__doc__ = f"An earlier commit's worker, today's, the earlier one again, and today's; two kills; a job with {kind}."
    return do


def _roll_back(case: Case, kind: Kind, words: Sequence[str]) -> None:
    """words: the program of today's worker that the earlier one follows; none: the usual one."""
    env = earlier(COMMIT)
    case.make_job(**kind.sections)
    case.audit = RollbackAudit(case.job, exactly_once=case.exactly_once)
    case.records = kind.records(case)
    worker = case.start_worker("a", static=True, fresh=True, **env).ready(COMPILED_WITHIN)
    case.start_load(40)
    by_old = _work(case, worker)
    case.stop_worker(worker)
    worker = case.run_worker("a", static=True, program=words or None)
    by_new = _work(case, worker)
    kill(case, worker)
    opened = open_alarms(case)
    worker = case.start_worker("a", static=True, fresh=True, **env)
    by_old_again = _work(case, worker)
    if worker.process.poll() is None:
        kill(case, worker)
    else:
        case.found.append(
            f"the worker of {COMMIT} ended with {worker.process.returncode} after today's: {worker.text()[-300:]}"
        )
    assert opened or kind.records not in (changes, pauses), "no alarm was open when the earlier worker came back"
    case.killed = False  # with exactly_once: each of the two may have come just after a commit
    worker = case.run_worker("a", static=True)
    _work(case, worker)
    done = f"{by_old} records by commit {COMMIT}, {by_new} by today's, {by_old_again} by {COMMIT} again"
    case.prove(f"{done}; 2 kills, {opened} open alarms")


def open_alarms(case: Case) -> int:
    """Alarms that were raised, and have not ended."""
    is_open: dict[str, bool] = {}
    for message in case.job.read(case.job.core.sinks["alarms"]) if "alarms" in case.job.core.sinks else ():
        alarm = json.loads(message.value())
        is_open[alarm["id"]] = alarm["open"]
    return sum(is_open.values())


def _work(case: Case, worker: Worker) -> int:
    """Let the worker do a part of the work, or end by itself; gives how many records."""
    before = sum(case.job.committed().values())
    try:
        case.wait_for_commits(len(case.records) // 5)
    except AssertionError:
        if worker.process.poll() is None:
            raise
    return sum(case.job.committed().values()) - before
