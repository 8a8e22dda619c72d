"""Local stores gone, damaged, or without room: the changelog is the truth."""

import resource
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.brokers.workers import Worker
from tests.faults.case import Case, scrape_metrics
from tests.faults.processes import kill

FULL_AT = 512 << 10  # bytes of a file; far more than a worker logs


def wiped(case: Case) -> None:
    """Both workers killed, their disks gone."""
    case.make_job()
    workers = case.run_two_workers(static=True)
    case.start_load()
    for _ in range(2):
        case.wait_for_commits()
        deaths = [kill(case, worker) for worker in workers]
        for worker in workers:
            assert any(worker.state.rglob("*.db")), "there was no store"
            shutil.rmtree(worker.state)
        workers = [case.start_worker(worker.name, static=True) for worker in workers]
        for worker in workers:
            worker.ready()
        restored = sum(event["keys_written"] for worker in workers for event in worker.events("recovery finished"))
        again = sum(event["records"] for worker in workers for event in worker.events("applying records again"))
        assert restored + again > 0
        case.prove(f"{len(deaths)} killed, {restored} keys restored from the changelog, {again} records applied again")


def paced(case: Case, program: Sequence[str] | None = None) -> None:
    """States are written at their own pace; a worker is killed five times, and every second time its disk is gone."""
    case.make_job(state={"replay": "300ms"})
    case.start_load()
    again = 0
    for turn in range(5):
        worker = case.run_worker("a", static=True, program=program)
        case.wait_for_commits(len(case.records) // 10)
        again += sum(event["records"] for event in worker.events("applying records again"))
        kill(case, worker)
        if turn % 2:
            shutil.rmtree(worker.state)
    worker = case.run_worker("a", static=True, program=program)
    again += sum(event["records"] for event in worker.events("applying records again"))
    assert again or program is not None, "no takeover had a record to apply again"
    case.prove(f"5 kills, {again} records applied again without outputs")


def crowded(case: Case, program: Sequence[str] | None = None) -> None:
    """Room for a third of the keys: they come and leave all the time, and workers are killed meanwhile."""
    case.make_job(state={"cache": "1KB"})  # 16 states of each partition's 50
    workers = case.run_two_workers(static=True, program=program)
    case.start_load()
    read = 0.0
    for _ in range(2):
        case.wait_for_commits(len(case.records) // 10)
        read += sum(scrape_metrics(worker)["streamjobs_state_reads_total"] for worker in workers)
        for worker in workers:
            kill(case, worker)
        workers = [case.run_worker(worker.name, static=True, program=program) for worker in workers]
    assert read > len(case.records) // 20, f"only {read:.0f} states were read"
    case.prove(f"{read:.0f} states read again, 4 kills")


def truncated(case: Case) -> None:
    """A table file of each partition cut in half, and the log of another one."""
    case.make_job()
    worker = case.run_worker("a")
    case.start_load()
    case.wait_for_commits()
    case.stop_worker(worker)
    shutil.rmtree(worker.state)
    worker = case.run_worker("a")  # what is restored is written to table files at once
    case.wait_for_commits()
    case.stop_worker(worker)
    tables = sorted(worker.state.rglob("*.sst"))
    assert tables, "there is no table file"
    cut = {max(mine, key=size) for store in worker.state.rglob("*.db") if (mine := list(store.glob("*.sst")))}
    before = sum(map(size, cut))
    for table in cut:
        with table.open("r+b") as file:
            file.truncate(size(table) // 2)
    case.prove(f"{len(cut)} table files cut from {before} to {sum(map(size, cut))} bytes")
    worker = case.run_worker("a")
    case.wait_for_commits()


def size(file: Path) -> int:
    return file.stat().st_size


def full(case: Case) -> None:
    """No file of a worker can grow any more: it ends and says why; with room again it goes on."""
    case.make_job(state=case.soon)
    stuck, other = case.run_two_workers()
    case.start_load()
    case.wait_for_commits()
    limit(stuck)
    line = case.wait_for_exit(stuck, 1, "File too large")
    case.prove(f"no room: {line[:120]!r}")
    case.wait_for_one_member()
    case.wait_for_commits()
    other.assert_running()
    case.run_worker("a")
    case.wait_for_two_members()
    case.wait_for_commits()


def limit(worker: Worker) -> None:
    """From now on no file grows beyond what a few checkpoints write."""
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (FULL_AT, FULL_AT))
