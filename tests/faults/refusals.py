"""A broker that refuses what the job has to write: outputs, dead letters, snapshots."""

from tests.faults.case import Case
from tests.faults.inputs import MOST, poisoned


def output(case: Case) -> None:
    """The output topic may not be written for a while."""
    case.make_job()
    refused(case, case.job.core.sinks["predictions"])


def letters(case: Case) -> None:
    """The dead-letter topic may not be written for a while."""
    case.make_job(source={"max_bytes": MOST})
    poisoned(case)
    refused(case, case.job.core.sinks["dlq"])


def refused(case: Case, topic: str) -> None:
    """Both workers end with code 1, name the topic, and move no offset past what they could not write."""
    job = case.job
    workers = case.run_two_workers()
    case.start_load()
    case.wait_for_commits()
    case.job.alter(topic, "max.message.bytes", "100")  # the marker of a transaction has 78, and must fit
    for worker in workers:
        case.wait_for_exit(worker, 1, topic)
    committed = job.committed()
    written = answered(case)
    assert all(written[number] >= committed[number] for number in committed), f"committed {committed}, written {written}"
    case.job.alter(topic, "max.message.bytes", "2000000")
    case.prove(f"both ended with code 1 naming {topic}, nothing committed that was not written")
    case.run_two_workers()
    case.wait_for_commits()


def answered(case: Case) -> dict[int, int]:
    """Of every input partition the offset up to which all records have an output or a dead letter."""
    seen: dict[int, set[int]] = {number: set() for number in range(4)}
    for sink in ("predictions", "dlq"):
        for message in case.job.read(case.job.core.sinks[sink]):
            name = dict(message.headers())["streamjobs-id"].decode()
            seen[message.partition()].add(int(name.split("-")[2]))
    return {number: next(at for at in range(len(offsets) + 1) if at not in offsets) for number, offsets in seen.items()}


def snapshot(case: Case) -> None:
    """Snapshots are larger than the changelog takes, for a while."""
    job = case.make_job(state=case.soon)
    workers = case.run_two_workers()
    case.start_load()
    case.wait_for_commits()
    case.job.alter(job.changelog, "max.message.bytes", "600")
    for worker in workers:
        case.wait_for_exit(worker, 1, "max.message.bytes")
    case.prove("both ended with code 1 naming max.message.bytes")
    case.job.alter(job.changelog, "max.message.bytes", "1048588")
    case.run_two_workers()
    case.wait_for_commits()
