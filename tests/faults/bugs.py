"""Workers with planted bugs, each in a case that must end with problems found by the audit."""

from collections.abc import Callable

from tests.brokers.bed import until
from tests.brokers.planted import program
from tests.brokers.workers import Worker
from tests.faults.inputs import MOST, poisoned
from tests.faults.processes import kill, unsaved
from tests.faults.trial import Trial


def dies(trial: Trial, fault: str) -> None:
    """A worker with this fault works until it has killed itself."""
    worker = trial.begin("a", static=True, program=program(fault))
    code = worker.process.wait(180)
    assert code == -9, f"it ended with {code}:\n{worker.text()[-2000:]}"
    assert trial.bed.behind() > 0, "it died after its work was done"
    trial.prove(f"{fault} at work until its death")


def acknowledges_before_writing(trial: Trial) -> None:
    trial.make_bed()
    trial.pour(10)
    dies(trial, "commits-first")
    trial.work("a", static=True)


def skips_the_offset_check(trial: Trial) -> None:
    trial.make_bed()
    trial.pour(10)
    dies(trial, "dies-after-store")
    trial.work("a", static=True, program=program("forgets-offsets"))
    trial.prove("forgets-offsets took over")


def drops_on_revoke(trial: Trial) -> None:
    trial.make_bed(state={"checkpoint": "60s"})
    trial.pour(40)
    first = trial.work("a", program=program("drops-on-revoke"))
    until(lambda: unsaved(trial) > 200, "more answered than committed", 120, every=0.01)  # and nothing of it is saved soon
    trial.work("b")
    until(lambda: bool(first.events("partitions checkpointed and released")), "the first one's partitions taken away", 120)
    trial.prove("partitions taken from drops-on-revoke")


def letters_after_commit(trial: Trial) -> None:
    trial.make_bed(source={"max_bytes": MOST})
    poisoned(trial)
    trial.pour(10)
    dies(trial, "letters-last")
    trial.work("a", static=True)


def writes_unfenced(trial: Trial) -> None:
    trial.make_bed(state={"checkpoint": "3s"})
    sleeper = trial.work("a", program=program("unfenced"))
    pouring = trial.pour(20)
    trial.progress()
    until(lambda: unsaved(trial) > 20, "more answered than committed", 120, every=0.01)
    sleeper.freeze()
    other = trial.begin("b", program=program("unfenced"))
    other.ready()
    trial.alone()
    pouring.finish()
    trial.bed.until_done([other], 300)
    before = trial.bed.ends(trial.bed.changelog)
    sleeper.wake()
    until(lambda: trial.bed.ends(trial.bed.changelog) != before or ended(sleeper), "the woken worker writes", 120)
    sleeper.stop()  # killed, a transaction of its would be open for minutes: nobody takes its id over
    if trial.exactly_once:  # its offset came with it: whoever reads next begins there
        trial.terminate(other)
        trial.work("c")
    trial.prove("a zombie's write to the changelog was not refused")


def outputs_outside(trial: Trial) -> None:
    trial.make_bed()
    trial.pour(20)
    for _ in range(2):
        worker = trial.work("a", static=True, program=program("outside"))
        trial.progress()
        until(lambda: answered(trial) - sum(trial.bed.committed().values()) > 20, "more answered than committed", 120)
        kill(trial, worker)
    trial.killed = False  # what it leaves counts: that is the bug
    trial.work("a", static=True)
    trial.prove("2 kills of outside")


def answered(trial: Trial) -> int:
    return sum(trial.bed.ends(trial.bed.job.sinks["predictions"], committed_only=False).values())


def ended(worker: Worker) -> bool:
    assert worker.process.poll() is None, f"it ended without writing:\n{worker.text()[-2000:]}"
    return False


Do = Callable[[Trial], None]
AT_LEAST_ONCE: dict[str, Do] = {
    "commits-first": acknowledges_before_writing,
    "forgets-offsets": skips_the_offset_check,
    "drops-on-revoke": drops_on_revoke,
    "letters-last": letters_after_commit,
    "unfenced": writes_unfenced,
}
# A transaction leaves no state ahead of its offset: nothing is skipped, and nobody notices who forgets to.
EXACTLY_ONCE: dict[str, Do] = {
    "outside": outputs_outside,
    "drops-on-revoke": drops_on_revoke,
    "letters-last": letters_after_commit,
    "unfenced": writes_unfenced,
}
BUGS = {"at_least_once": AT_LEAST_ONCE, "exactly_once": EXACTLY_ONCE}
