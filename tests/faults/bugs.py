"""Workers with planted bugs, each in a case that must end with problems found by the audit."""

import shutil
from collections.abc import Callable

from tests.brokers.fault_injection import program
from tests.brokers.kafka_job import until
from tests.brokers.workers import Worker
from tests.faults.alarms import counts_ids
from tests.faults.aside import drops, overwrites
from tests.faults.case import Case
from tests.faults.changelogs import cut_unnoticed, recreate, send_first
from tests.faults.clock import removes_by_clock
from tests.faults.disks import crowded, paced
from tests.faults.growth import tombstones_first
from tests.faults.inputs import MOST, poisoned
from tests.faults.processes import kill, uncommitted
from tests.faults.rollback import rolled_back

Do = Callable[[Case], None]


def run_until_crash(case: Case, fault: str) -> None:
    """A worker with this fault runs until it kills itself with work left."""
    worker = case.start_worker("a", static=True, program=program(fault))
    code = worker.process.wait(180)
    assert code == -9, f"it ended with {code}:\n{worker.text()[-2000:]}"
    assert case.job.lag() > 0, "it crashed after its work was done"
    case.prove(f"{fault} ran until its crash")


def acknowledges_before_writing(case: Case) -> None:
    case.make_job()
    case.start_load(10)
    run_until_crash(case, "commits-first")
    case.run_worker("a", static=True)


def skips_the_offset_check(case: Case) -> None:
    case.make_job()
    case.start_load(10)
    run_until_crash(case, "crash-after-store")
    case.run_worker("a", static=True, program=program("forgets-offsets"))
    case.prove("forgets-offsets took over")


def forgets_parked(case: Case) -> None:
    crowded(case, program("forgets-parked"))


def drops_on_revoke(case: Case) -> None:
    case.make_job(state={"checkpoint": "60s"})
    case.start_load(40)
    first = case.run_worker("a", program=program("drops-on-revoke"))
    until(
        lambda: uncommitted(case) > 200, "more answered than committed", 120, every=0.01
    )  # and nothing of it is saved soon
    case.run_worker("b")
    until(lambda: bool(first.events("partitions checkpointed and released")), "the first one's partitions taken away", 120)
    case.prove("partitions taken from drops-on-revoke")


def letters_after_commit(case: Case) -> None:
    case.make_job(source={"max_bytes": MOST})
    poisoned(case)
    case.start_load(10)
    run_until_crash(case, "letters-last")
    case.run_worker("a", static=True)


def writes_unfenced(case: Case) -> None:
    case.make_job(state={"checkpoint": "3s", **case.soon})  # else the other one's last states heal what the sleeper writes
    sleeper = case.run_worker("a", program=program("unfenced"))
    load = case.start_load(20)
    case.wait_for_commits()
    until(lambda: uncommitted(case) > 20, "more answered than committed", 120, every=0.01)
    sleeper.freeze()
    other = case.start_worker("b", program=program("unfenced"))
    other.ready()
    case.wait_for_one_member()
    load.finish()
    case.job.wait_until_done([other], 300)
    before = case.job.ends(case.job.changelog)
    sleeper.wake()
    until(lambda: case.job.ends(case.job.changelog) != before or _has_exited(sleeper), "the woken worker writes", 120)
    sleeper.stop()  # killed, a transaction of its would be open for minutes: nobody takes its id over
    if case.exactly_once:  # its offset came with it: whoever reads next begins there
        case.stop_worker(other)
        case.run_worker("c")
    case.prove("a zombie's write to the changelog was not refused")


def outputs_outside(case: Case) -> None:
    case.make_job()
    case.start_load(20)
    for _ in range(2):
        worker = case.run_worker("a", static=True, program=program("outside"))
        case.wait_for_commits()
        until(lambda: answered(case) - sum(case.job.committed().values()) > 20, "more answered than committed", 120)
        kill(case, worker)
    case.killed = False  # what it leaves counts: that is the bug
    case.run_worker("a", static=True)
    case.prove("2 kills of outside")


def overlooks_a_recreated_changelog(case: Case) -> None:
    case.make_job()
    send_first(case)
    case.start_load(30)
    worker = case.run_worker("a", static=True, program=program("unwatched"))
    case.wait_for_commits(len(case.records) // 2)
    before, after = recreate(case)
    kill(case, worker)
    shutil.rmtree(worker.state)
    case.run_worker("a", static=True, program=program("unwatched"))
    case.prove(f"unwatched went on with {after} instead of {before}, without a local store")


def with_a_pace(fault: str) -> Do:
    return lambda case: paced(case, program(fault))


def answered(case: Case) -> int:
    return sum(case.job.ends(case.job.core.sinks["predictions"], committed_only=False).values())


def _has_exited(worker: Worker) -> bool:
    assert worker.process.poll() is None, f"it ended without writing:\n{worker.text()[-2000:]}"
    return False


AT_LEAST_ONCE: dict[str, Do] = {
    "commits-first": acknowledges_before_writing,
    "forgets-offsets": skips_the_offset_check,
    "skips": with_a_pace("skips"),
    "forgets-parked": forgets_parked,
    "drops-on-revoke": drops_on_revoke,
    "letters-last": letters_after_commit,
    "unfenced": writes_unfenced,
    "tombstones-first": tombstones_first,
    "unwatched": overlooks_a_recreated_changelog,
    "ignores-states": cut_unnoticed,
    "counts-ids": counts_ids,
    "overwrites-damaged": overwrites,
    "drops-aside": drops,
    "removes-by-clock": removes_by_clock,
    "below-0": rolled_back("drift", "below-0"),
    "long-clock": rolled_back("silent", "long-clock"),
}
# A transaction leaves no state ahead of its offset: nothing is skipped, and nobody notices who forgets to.
EXACTLY_ONCE: dict[str, Do] = {
    "outside": outputs_outside,
    "skips": with_a_pace("skips"),
    "repeats": with_a_pace("repeats"),
    "ignores-metadata": with_a_pace("ignores-metadata"),
    "forgets-parked": forgets_parked,
    "drops-on-revoke": drops_on_revoke,
    "letters-last": letters_after_commit,
    "unfenced": writes_unfenced,
    "tombstones-first": tombstones_first,
    "unwatched": overlooks_a_recreated_changelog,
    "ignores-states": cut_unnoticed,
    "counts-ids": counts_ids,
    "overwrites-damaged": overwrites,
    "drops-aside": drops,
    "removes-by-clock": removes_by_clock,
    "below-0": rolled_back("drift", "below-0"),
    "long-clock": rolled_back("silent", "long-clock"),
}
BUGS = {"at_least_once": AT_LEAST_ONCE, "exactly_once": EXACTLY_ONCE}
