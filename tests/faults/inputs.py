"""Records that cannot be used, come late, twice, in disorder, or from clocks that are wrong; an input that forgets."""

import json

import numpy as np

from streamjobs.core.advance import advance
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from tests.brokers.fault_injection import FAILS, learner_fails, program
from tests.brokers.kafka_job import PARTITIONS, until
from tests.brokers.verification import AT_ONCE, identity
from tests.faults.audit import input_position
from tests.faults.case import Case, scrape_metrics
from tests.faults.load import EACH, KEYS, NOTE, START, STEP, sent
from tests.faults.processes import kill

DAY = 86_400.0
POISON = (
    (b"{", "malformed"),
    (b"", "malformed"),
    (json.dumps({"x": [1.0, 2.0, 3.0], "ts": START, "note": NOTE}).encode(), "wrong_dimension"),
    (json.dumps({"x": [1.0, 2.0, 3.0, 1e12], "ts": START, "note": NOTE}).encode(), "out_of_range"),
    (json.dumps({"ts": START, "note": NOTE}).encode(), "missing_field"),
    (json.dumps({"x": [1.0, 2.0, 3.0, 4.0], "ts": START, "comment": NOTE * 2_000}).encode(), "too_large"),
    (json.dumps({"x": [1.0, 2.0, 3.0, 4.0], "ts": "yesterday", "note": NOTE}).encode(), "bad_time"),
)
MOST = 10_000  # bytes of a record
DELETED = "records were deleted before this job read them"  # in a worker's log


def poisoned(case: Case, every: int = 100) -> int:
    """Each so manieth record of the case replaced by one that cannot be used; gives how many were."""
    records, count = list(case.records), 0
    for number in range(every // 2, len(records), every):
        records[number] = records[number]._replace(value=POISON[count % len(POISON)][0])
        count += 1
    case.records = records
    return count


def poison(case: Case) -> None:
    """One record in a hundred cannot be used, among two kills."""
    case.make_job(source={"max_bytes": MOST})
    count = poisoned(case)
    workers = case.run_two_workers(static=True)
    case.start_load()
    for turn in range(2):
        case.wait_for_commits()
        kill(case, workers[turn])
        case.run_worker(workers[turn].name, static=True)
    finish(case)
    reasons = case.dead_letter_reasons()
    assert set(reasons) == {reason for _, reason in POISON}, f"dead letters for {reasons}"
    assert sum(reasons.values()) == count, f"{sum(reasons.values())} dead letters of {count}"
    case.prove(f"{count} dead letters for {len(reasons)} reasons, 2 kills among them")


def learner(case: Case) -> None:
    """The learner raises for one record in two hundred, among two kills: a dead letter each, its key as if without it."""
    job = case.make_job(scaling={"method": "none"})
    records = list(case.records)
    failing = range(100, len(records), 200)
    for number in failing:
        body = json.loads(records[number].value or b"")
        body["x"][0] = FAILS
        records[number] = records[number]._replace(value=json.dumps(body).encode())
    case.records = records
    workers = case.run_two_workers(static=True, program=program("learner-fails"))
    case.start_load()
    for turn in range(2):
        case.wait_for_commits()
        case.freeze_with_open_outputs(workers[turn])
        kill(case, workers[turn])
        workers[turn] = case.run_worker(workers[turn].name, static=True, program=program("learner-fails"))
    finish(case)
    assert case.dead_letter_reasons() == {"learner_failed": len(failing)}, f"dead letters for {case.dead_letter_reasons()}"
    counted = sum(
        scrape_metrics(worker)["streamjobs_records_dead_lettered_total{reason=learner_failed}"] for worker in workers
    )
    told = [event for worker in case.all_workers for event in worker.events("learner failed")]
    assert counted > 0 and told and {event["level"] for event in told} == {"error"}, "nobody was told"
    for worker in workers:
        case.stop_worker(worker)  # which writes the states
    assert job.snapshots() == _states_without_failing(case), (
        "the states are not those of a replay without the records that failed"
    )
    for worker in workers:
        case.run_worker(worker.name, static=True, program=program("learner-fails"))
    case.audited_with = learner_fails
    case.prove(f"{len(failing)} records failed, {len(told)} log lines; states as without them; 2 kills among them")


def _states_without_failing(case: Case) -> dict[tuple[int, bytes], bytes]:
    """The final states of a replay that never saw the records for which the learner raises."""
    states = {}
    for partition in range(PARTITIONS):
        live = Live(case.job.core, lambda key: None)
        mine = [one for one in case.job.inputs() if one.partition == partition]
        good = [one for one in mine if json.loads(one.value or b"")["x"][0] != FAILS]
        for at in range(0, len(good), AT_ONCE):
            advance(case.job.core, live, good[at : at + AT_ONCE])
        states |= {(partition, key): snapshot for key, snapshot in live.snapshots()}
    return states


def finish(case: Case) -> None:
    assert case.load is not None
    case.load.finish()
    case.job.wait_until_done(case.running_workers, 300)


def clocks(case: Case) -> None:
    """Devices two days ahead and behind, and a worker whose own clock jumps by days every second."""
    case.make_job()
    records, ahead = list(case.records), 0
    rnd = np.random.default_rng(case.seed)
    for number in rnd.choice(len(records), len(records) // 50, replace=False).tolist():
        body = json.loads(records[number].value or b"")
        if number % 2:
            body["ts"] += 2 * DAY  # refused: two days after the record's own time
            ahead += 1
        else:
            body["ts"] -= 2 * DAY  # late
        records[number] = records[number]._replace(value=json.dumps(body).encode())
    case.records = records
    case.run_two_workers(program=program("clock-jumps"))
    case.start_load(15)
    case.wait_for_commits(len(case.records) // 5)
    finish(case)
    reasons = case.dead_letter_reasons()
    assert reasons == {"future": ahead}, f"dead letters for {reasons}, {ahead} records were ahead"
    case.prove(f"{ahead} records two days ahead refused, as many behind; the workers' clocks jumped by days")


def disorder(case: Case) -> None:
    """Out of order, twice, with gaps, and too late, where a sample waits 0.2 s to be put in order; among two kills."""
    case.make_job(source={"lateness": "0.2s", "late": "dlq"})
    rnd = np.random.default_rng(case.seed)
    steps, made = [0] * KEYS, []
    for record in case.records:
        key = int((record.key or b"").rpartition(b"-")[2])
        body = json.loads(record.value or b"")
        steps[key] += 1
        fate = rnd.random()
        gap = 3_600.0 if steps[key] > EACH // 2 else 0.0  # everybody pauses for an hour
        at = START + gap + steps[key] * STEP
        if fate < 0.10:
            at -= rnd.integers(1, 8) * STEP  # out of order
        elif fate < 0.12:
            at -= 5.0  # too late
        elif fate < 0.15 and steps[key] > 1:
            at -= STEP  # the time of the one before
        made.append(sent(key, body | {"ts": round(at, 3)}, at))
    case.records = made
    workers = case.run_two_workers(static=True)
    case.start_load()
    for turn in range(2):
        case.wait_for_commits()
        case.freeze_with_open_outputs(workers[turn])
        kill(case, workers[turn])
        case.run_worker(workers[turn].name, static=True)
    finish(case)
    reasons = case.dead_letter_reasons()
    assert set(reasons) == {"late"}, f"dead letters for {reasons}"
    case.prove(f"{reasons['late']} too late, others put in order, an hour's gap of everybody, 2 kills")


def retention(case: Case) -> None:
    """The input forgets records nobody has read: while no worker runs, and while one is frozen for a moment."""
    job = case.make_job()
    workers = case.run_two_workers()
    load = case.start_load()
    case.wait_for_commits()
    for worker in workers:
        case.stop_worker(worker)
    case.deleted_input = Kept(case)
    case.deleted_input.forget(len(case.records) // 20)
    worker = case.run_worker("a")
    case.wait_for_commits()
    worker.freeze()
    case.deleted_input.forget(10)  # soon, so that it is still a member when it wakes
    worker.wake()
    case.wait_for_commits()
    load.finish()
    job.wait_until_done([worker], 300)
    unread = case.deleted_input.unread()
    told = sum(event["records"] for event in worker.events(DELETED))
    times = len(worker.events(DELETED))
    # What was read but not committed when its partition was taken away is told as well.
    assert told >= len(unread) > 0, f"{len(unread)} records were deleted before anybody read them, {told} told"
    case.prove(f"{len(unread)} records deleted before anybody read them, {told} told in {times} lines")


class Kept:
    """An input that is deleted from its beginning on, as it was before."""

    def __init__(self, case: Case) -> None:
        self.job = case.job
        self.first = dict.fromkeys(range(PARTITIONS), 0)
        self.deleted: set[tuple[int, int]] = set()
        self.records: dict[tuple[int, int], Stored] = {}

    def read(self) -> list[Stored]:
        """All there ever was, partition by partition."""
        self.records |= {(record.partition, record.offset): record for record in self.job.inputs(start=self.first)}
        return [self.records[at] for at in sorted(self.records)]

    def forget(self, least: int) -> None:
        """Wait for some records that are not committed, then delete half of them, the oldest."""
        job = self.job
        until(lambda: job.lag() > least, "unread records", 240)
        committed, ends = job.committed(), job.ends()
        self.read()
        upto = {number: max((committed[number] + ends[number]) // 2, first) for number, first in self.first.items()}
        job.delete_records(job.input, upto)
        self.deleted |= {(number, at) for number in upto for at in range(self.first[number], upto[number])}
        self.first = upto

    def unread(self) -> set[tuple[int, int]]:
        """Deleted, and without an output: nobody had read them."""
        answered = {input_position(identity(m.headers())) for m in self.job.read(self.job.core.sinks["predictions"])}
        return self.deleted - answered
