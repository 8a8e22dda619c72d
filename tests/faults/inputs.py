"""Records that cannot be used, come late, twice, in disorder, or from clocks that are wrong; an input that forgets."""

import json

import numpy as np
from confluent_kafka import TopicPartition

from streamjobs.core.messages import Stored
from tests.brokers.bed import PARTITIONS, until
from tests.brokers.planted import program
from tests.brokers.truth import identity
from tests.faults.audit import place
from tests.faults.processes import kill
from tests.faults.stream import EACH, KEYS, NOTE, START, STEP, sent
from tests.faults.trial import Trial

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


def poisoned(trial: Trial, every: int = 100) -> int:
    """Each so manieth record of the case replaced by one that cannot be used; gives how many were."""
    records, count = list(trial.records), 0
    for number in range(every // 2, len(records), every):
        records[number] = records[number]._replace(value=POISON[count % len(POISON)][0])
        count += 1
    trial.records = records
    return count


def poison(trial: Trial) -> None:
    """One record in a hundred cannot be used, among two kills."""
    trial.make_bed(source={"max_bytes": MOST})
    count = poisoned(trial)
    workers = trial.both(static=True)
    trial.pour()
    for turn in range(2):
        trial.progress()
        kill(trial, workers[turn])
        trial.work(workers[turn].name, static=True)
    finish(trial)
    reasons = trial.reasons()
    assert set(reasons) == {reason for _, reason in POISON}, f"dead letters for {reasons}"
    assert sum(reasons.values()) == count, f"{sum(reasons.values())} dead letters of {count}"
    trial.prove(f"{count} dead letters for {len(reasons)} reasons, 2 kills among them")


def finish(trial: Trial) -> None:
    assert trial.pouring is not None
    trial.pouring.finish()
    trial.bed.until_done(trial.alive, 300)


def clocks(trial: Trial) -> None:
    """Devices two days ahead and behind, and a worker whose own clock jumps by days every second."""
    trial.make_bed()
    records, ahead = list(trial.records), 0
    rnd = np.random.default_rng(trial.seed)
    for number in rnd.choice(len(records), len(records) // 50, replace=False).tolist():
        body = json.loads(records[number].value or b"")
        if number % 2:
            body["ts"] += 2 * DAY  # refused: two days after the record's own time
            ahead += 1
        else:
            body["ts"] -= 2 * DAY  # late
        records[number] = records[number]._replace(value=json.dumps(body).encode())
    trial.records = records
    trial.both(program=program("clock-jumps"))
    trial.pour(15)
    trial.progress(len(trial.records) // 5)
    finish(trial)
    reasons = trial.reasons()
    assert reasons == {"future": ahead}, f"dead letters for {reasons}, {ahead} records were ahead"
    trial.prove(f"{ahead} records two days ahead refused, as many behind; the workers' clocks jumped by days")


def disorder(trial: Trial) -> None:
    """Out of order, twice, with gaps, and too late, where a sample waits 0.2 s to be put in order; among two kills."""
    trial.make_bed(source={"lateness": "0.2s", "late": "dlq"})
    rnd = np.random.default_rng(trial.seed)
    steps, made = [0] * KEYS, []
    for record in trial.records:
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
    trial.records = made
    workers = trial.both(static=True)
    trial.pour()
    for turn in range(2):
        trial.progress()
        kill(trial, workers[turn])
        trial.work(workers[turn].name, static=True)
    finish(trial)
    reasons = trial.reasons()
    assert set(reasons) == {"late"}, f"dead letters for {reasons}"
    trial.prove(f"{reasons['late']} too late, others put in order, an hour's gap of everybody, 2 kills")


def retention(trial: Trial) -> None:
    """The input forgets records nobody has read: while no worker runs, and while one is frozen for a moment."""
    bed = trial.make_bed()
    workers = trial.both()
    pouring = trial.pour()
    trial.progress()
    for worker in workers:
        trial.terminate(worker)
    trial.keeps = Kept(trial)
    trial.keeps.forget(len(trial.records) // 20)
    worker = trial.work("a")
    trial.progress()
    worker.freeze()
    trial.keeps.forget(10)  # soon, so that it is still a member when it wakes
    worker.wake()
    trial.progress()
    pouring.finish()
    bed.until_done([worker], 300)
    unread = trial.keeps.unread()
    told = sum(event["records"] for event in worker.events(DELETED))
    times = len(worker.events(DELETED))
    # What was read but not committed when its partition was taken away is told as well.
    assert told >= len(unread) > 0, f"{len(unread)} records were deleted before anybody read them, {told} told"
    trial.prove(f"{len(unread)} records deleted before anybody read them, {told} told in {times} lines")


class Kept:
    """An input that is deleted from its beginning on, as it was before."""

    def __init__(self, trial: Trial) -> None:
        self.bed = trial.bed
        self.first = dict.fromkeys(range(PARTITIONS), 0)
        self.deleted: set[tuple[int, int]] = set()
        self.records: dict[tuple[int, int], Stored] = {}

    def read(self) -> list[Stored]:
        """All there ever was, partition by partition."""
        self.records |= {(record.partition, record.offset): record for record in self.bed.inputs(start=self.first)}
        return [self.records[at] for at in sorted(self.records)]

    def forget(self, least: int) -> None:
        """Wait for some records that are not committed, then delete half of them, the oldest."""
        bed = self.bed
        until(lambda: bed.behind() > least, "unread records", 240)
        committed, ends = bed.committed(), bed.ends()
        self.read()
        upto = {number: max((committed[number] + ends[number]) // 2, first) for number, first in self.first.items()}
        asked = bed.admin.delete_records([TopicPartition(bed.input, number, offset) for number, offset in upto.items()])
        for answer in asked.values():
            answer.result(30)
        self.deleted |= {(number, at) for number in upto for at in range(self.first[number], upto[number])}
        self.first = upto

    def unread(self) -> set[tuple[int, int]]:
        """Deleted, and without an output: nobody had read them."""
        answered = {place(identity(m.headers())) for m in self.bed.read(self.bed.job.sinks["predictions"])}
        return self.deleted - answered
