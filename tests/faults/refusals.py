"""A broker that refuses what the job has to write: outputs, dead letters, snapshots."""

from tests.faults.inputs import MOST, poisoned
from tests.faults.trial import Trial


def output(trial: Trial) -> None:
    """The output topic may not be written for a while."""
    trial.make_bed()
    refused(trial, trial.bed.job.sinks["predictions"])


def letters(trial: Trial) -> None:
    """The dead-letter topic may not be written for a while."""
    trial.make_bed(source={"max_bytes": MOST})
    poisoned(trial)
    refused(trial, trial.bed.job.sinks["dlq"])


def refused(trial: Trial, topic: str) -> None:
    """Both workers end with code 1, name the topic, and move no offset past what they could not write."""
    bed = trial.bed
    workers = trial.both()
    trial.pour()
    trial.progress()
    trial.bed.alter(topic, "max.message.bytes", "100")  # the marker of a transaction has 78, and must fit
    for worker in workers:
        trial.ends_by_itself(worker, 1, topic)
    committed = bed.committed()
    written = answered(trial)
    assert all(written[number] >= committed[number] for number in committed), f"committed {committed}, written {written}"
    trial.bed.alter(topic, "max.message.bytes", "2000000")
    trial.prove(f"both ended with code 1 naming {topic}, nothing committed that was not written")
    trial.both()
    trial.progress()


def answered(trial: Trial) -> dict[int, int]:
    """Of every input partition the offset up to which all records have an output or a dead letter."""
    seen: dict[int, set[int]] = {number: set() for number in range(4)}
    for sink in ("predictions", "dlq"):
        for message in trial.bed.read(trial.bed.job.sinks[sink]):
            name = dict(message.headers())["streamjobs-id"].decode()
            seen[message.partition()].add(int(name.split("-")[2]))
    return {number: next(at for at in range(len(offsets) + 1) if at not in offsets) for number, offsets in seen.items()}


def snapshot(trial: Trial) -> None:
    """Snapshots are larger than the changelog takes, for a while."""
    bed = trial.make_bed()
    workers = trial.both()
    trial.pour()
    trial.progress()
    trial.bed.alter(bed.changelog, "max.message.bytes", "600")
    for worker in workers:
        trial.ends_by_itself(worker, 1, "max.message.bytes")
    trial.prove("both ended with code 1 naming max.message.bytes")
    trial.bed.alter(bed.changelog, "max.message.bytes", "1048588")
    trial.both()
    trial.progress()
