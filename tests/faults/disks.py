"""Local stores gone, damaged, or without room: the changelog is the truth."""

import resource
import shutil
from pathlib import Path

from tests.brokers.workers import Worker
from tests.faults.processes import kill
from tests.faults.trial import Trial

FULL_AT = 512 << 10  # bytes of a file; far more than a worker logs


def wiped(trial: Trial) -> None:
    """Both workers killed, their disks gone."""
    trial.make_bed()
    workers = trial.both(static=True)
    trial.pour()
    for _ in range(2):
        trial.progress()
        deaths = [kill(trial, worker) for worker in workers]
        for worker in workers:
            assert any(worker.state.rglob("*.db")), "there was no store"
            shutil.rmtree(worker.state)
        workers = [trial.begin(worker.name, static=True) for worker in workers]
        for worker in workers:
            worker.ready()
        restored = sum(event["keys_written"] for worker in workers for event in worker.events("recovery finished"))
        assert restored > 0
        trial.prove(f"{len(deaths)} killed, {restored} keys restored from the changelog")


def truncated(trial: Trial) -> None:
    """A table file of each partition cut in half, and the log of another one."""
    trial.make_bed()
    worker = trial.work("a")
    trial.pour()
    trial.progress()
    trial.terminate(worker)
    shutil.rmtree(worker.state)
    worker = trial.work("a")  # what is restored is written to table files at once
    trial.progress()
    trial.terminate(worker)
    tables = sorted(worker.state.rglob("*.sst"))
    assert tables, "there is no table file"
    cut = {max(mine, key=size) for store in worker.state.rglob("*.db") if (mine := list(store.glob("*.sst")))}
    before = sum(map(size, cut))
    for table in cut:
        with table.open("r+b") as file:
            file.truncate(size(table) // 2)
    trial.prove(f"{len(cut)} table files cut from {before} to {sum(map(size, cut))} bytes")
    worker = trial.work("a")
    trial.progress()


def size(file: Path) -> int:
    return file.stat().st_size


def full(trial: Trial) -> None:
    """No file of a worker can grow any more: it ends and says why; with room again it goes on."""
    trial.make_bed()
    stuck, other = trial.both()
    trial.pour()
    trial.progress()
    limit(stuck)
    line = trial.ends_by_itself(stuck, 1, "File too large")
    trial.prove(f"no room: {line[:120]!r}")
    trial.alone()
    trial.progress()
    other.must_live()
    trial.work("a")
    trial.shared()
    trial.progress()


def limit(worker: Worker) -> None:
    """From now on no file grows beyond what a few checkpoints write."""
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (FULL_AT, FULL_AT))
