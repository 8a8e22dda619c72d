"""Keys with states that cannot be read or written: in the changelog, in local stores, at eviction, at a checkpoint."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from streamjobs.core.state import snapshot
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import reset_snapshot
from tests.brokers.damage import CHECKSUM, damage_changelog, damage_stores, flipped
from tests.brokers.fault_injection import program
from tests.brokers.kafka_job import PARTITIONS, until
from tests.brokers.workers import CHECKOUT, Worker
from tests.faults.case import Case, scrape_metrics
from tests.faults.gaps import Gap
from tests.faults.load import PERSON
from tests.faults.processes import kill

FLIPPED, CUT, LOCAL, EVICTED, SPOILED = 1, 2, 3, 5, 6  # numbers of keys


def place(number: int) -> tuple[int, bytes]:
    return number % PARTITIONS, f"{PERSON}{number}".encode()


def key(number: int) -> str:
    return f"{PERSON}{number}"


def streamjobs(case: Case, *words: str | Path) -> None:
    command = [sys.executable, "-m", "streamjobs", *map(str, words)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def letters(case: Case, number: int) -> list[int]:
    """Offsets of the key's records that are dead letters with the reason `state`, each once."""
    found = set()
    for message in case.job.read(case.job.core.sinks["dlq"], committed_only=case.exactly_once):
        headers = dict(message.headers())
        if message.key() == place(number)[1] and headers["streamjobs-error-reason"] == b"state":
            found.add(int(headers["streamjobs-error-offset"]))
    return sorted(found)


def wait_for_no_member(case: Case) -> None:
    """A static member that has stopped stays in the group until its session is over."""
    until(lambda: case.job.members() == [], "no worker in the group", 60, every=0.5)


def set_aside(case: Case, workers: Sequence[Worker], keys: int) -> None:
    """The workers are healthy, and their metrics report so many keys."""
    for worker in workers:
        worker.assert_running()
    counted = sum(scrape_metrics(worker)["streamjobs_keys_set_aside"] for worker in workers)
    if counted != keys:
        case.found.append(f"metrics report {counted:.0f} keys set aside, expected {keys}")


def damaged(case: Case, faulty: Sequence[str] | None = None) -> None:
    """Two keys damaged in the changelog, one in the local stores, two workers and a kill; then all three come back."""
    job = case.make_job()
    workers = case.run_two_workers(static=True)
    load = case.start_load(60)
    case.wait_for_commits(len(case.records) // 5)
    for worker in workers:
        case.stop_worker(worker)
    begin, stored, copy = job.committed(), job.snapshots(), job.folder / f"{job.name}.copy"
    streamjobs(case, "state", "export", job.path, "--all", "-o", copy)
    bad = {FLIPPED: flipped(stored[place(FLIPPED)]), CUT: stored[place(CUT)][:-100]}
    for number, data in bad.items():
        damage_changelog(job, *place(number), data)
    (owner,) = [worker for worker in workers if damage_stores(worker.state, place(LOCAL)[1])]
    for worker in workers:  # whichever gets the partition
        if worker is not owner:
            shutil.rmtree(worker.state)
            shutil.copytree(owner.state, worker.state)

    workers = [case.start_worker(worker.name, static=True, program=faulty) for worker in workers]
    for worker in workers:
        worker.ready()
    case.wait_for_commits(len(case.records) // 20)
    case.freeze_with_open_outputs(workers[0])
    kill(case, workers[0])
    workers[0] = case.run_worker(workers[0].name, static=True, program=faulty)
    load.finish()
    job.wait_until_done(workers, 300)
    set_aside(case, workers, 3)
    for worker in workers:
        case.stop_worker(worker)
    after, end = job.snapshots(), job.ends()
    for number in (FLIPPED, CUT, LOCAL):
        if after[place(number)] != bad.get(number, stored[place(number)]):
            case.found.append(f"the changelog has other bytes of key {number} than before")
    case.prove(f"{[len(letters(case, number)) for number in (FLIPPED, CUT, LOCAL)]} letters of 3 damaged keys")
    wait_for_no_member(case)
    streamjobs(case, "state", "restore", job.path, key(FLIPPED), "--copy", copy)
    streamjobs(case, "state", "reset", job.path, key(CUT))
    for worker in workers:
        shutil.rmtree(worker.state)
    streamjobs(case, "dlq", "redrive", job.path, "--reason", "state")
    for number in (FLIPPED, CUT, LOCAL):
        number_of = place(number)[0]
        case.audit.gaps[place(number)] = Gap(begin[number_of], "read", CHECKSUM, end[number_of])
    case.audit.gaps[place(CUT)].then = None
    case.run_worker("a", static=True)


def evicted(case: Case) -> None:
    """Room for a third of the keys; a key is damaged in the local store whenever it is written, and found at its return."""
    job = case.make_job(state={"cache": "1KB"})
    workers = case.run_two_workers(static=True, program=program("damages-store", EVICTED))
    load = case.start_load(20)
    until(lambda: len(letters(case, EVICTED)) > 0, "letters of the damaged key", 180, every=0.5)
    load.finish()
    job.wait_until_done(workers, 300)
    set_aside(case, workers, 1)
    for worker in workers:
        case.stop_worker(worker)
    offsets, (number, name) = letters(case, EVICTED), place(EVICTED)
    stored = job.snapshots()[number, name]
    wait_for_no_member(case)
    streamjobs(case, "state", "reset", job.path, key(EVICTED))
    then = reset_snapshot(job.core, Entry(number, name, stored, 0, 0))
    case.audit.gaps[number, name] = Gap(offsets[0], "read", CHECKSUM, job.ends()[number], then=then)
    streamjobs(case, "dlq", "redrive", job.path, "--reason", "state")
    case.prove(f"{len(offsets)} letters of a key that came back damaged from the local store")
    case.run_worker("a", static=True)


def unwritable(case: Case) -> None:
    """A key with a state that a checkpoint cannot write: what it has applied since its last stored state comes back."""
    job = case.make_job(state=case.soon)
    worker = case.run_worker("a", static=True, program=program("spoils", SPOILED))
    load = case.start_load(20)
    until(lambda: bool(worker.events("key set aside")), "a key that is set aside", 180, every=0.2)
    load.finish()
    job.wait_until_done([worker], 300)
    set_aside(case, [worker], 1)
    case.stop_worker(worker)
    offsets, (number, name) = letters(case, SPOILED), place(SPOILED)
    applied = snapshot.decode(job.snapshots()[number, name]).offsets[job.input, number]
    (event,) = worker.events("key set aside")
    case.audit.gaps[number, name] = Gap(applied + 1, "written", event["reason"], job.ends()[number])
    streamjobs(case, "dlq", "redrive", job.path, "--reason", "state")
    case.prove(f"{len(offsets)} letters of a key that could not be written, from offset {offsets[0]} on")
    case.run_worker("a", static=True)


def overwrites(case: Case) -> None:
    """Planted: a damaged state is overwritten by a new one."""
    damaged(case, program("overwrites-damaged"))


def drops(case: Case) -> None:
    """Planted: records of keys that are set aside are dropped without a word."""
    damaged(case, program("drops-aside"))
