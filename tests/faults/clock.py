"""The wall clock of the machine jumps by an hour, ahead and back, under workers that are killed meanwhile."""

import json
import time
import urllib.request
from functools import partial

import numpy as np

from tests.brokers.fault_injection import program
from tests.brokers.kafka_job import Sent, until
from tests.brokers.workers import Worker
from tests.faults.case import Case, port_of, scrape_metrics
from tests.faults.inputs import finish
from tests.faults.load import NOTE, sent
from tests.faults.processes import kill

HOUR = 3600.0
JUMPS = (HOUR, 0.0, -HOUR, HOUR, 0.0)  # seconds that the clock is off, one after the other
SECONDS, PEOPLE, PAUSE = 120, 200, 30  # of event time, the last of which is about now; a third of the people pauses
# Idle keys are looked for among stored states that are not live: there is room for a third of the keys.
TTL = {"ttl": "25s", "cache": "1KB"}


def clock(case: Case, planted: str = "") -> None:
    """The clock jumps an hour ahead, back, behind, two ahead and back; a kill after each jump; a job with ttl."""
    source = {"lateness": "1s", "late": "dlq", "duplicates": "drop"}
    jumps = _jumps(case, planted, source=source, state=TTL | case.soon)
    count = sum(len(worker.events("states of idle keys removed")) for worker in case.all_workers)
    assert count, "no state of an idle key was removed"
    case.prove(f"{jumps}, {count} removals of idle keys")


def removes_by_clock(case: Case) -> None:
    """The same by workers that remove what is idle by their own clock."""
    clock(case, "+removes-by-clock")


def clock_silent(case: Case) -> None:
    """The same with alarms of keys that fall silent."""
    jumps = _jumps(case, "", alarms={"silent": "10s"})
    alarms = [json.loads(one.value()) for one in case.job.read(case.job.core.sinks["alarms"])]
    silent = sum(alarm["watch"] == "silent" for alarm in alarms)
    assert silent, "no key was silent"
    case.prove(f"{jumps}, {silent} records of alarms of silence")


def _jumps(case: Case, planted: str, **sections: dict[str, str]) -> str:
    case.make_job(**sections)
    case.records = _until_now(case.seed)
    off = case.folder / f"{case.name}.clock"
    off.write_text("0")
    words, env = program(f"clock-of-file{planted}"), {"STREAMJOBS_TESTS_CLOCK": str(off)}
    workers = [case.start_worker(name, static=True, program=words, **env) for name in ("a", "b")]
    for worker in workers:
        worker.ready()
    case.start_load(60)
    case.wait_for_commits()
    for turn, seconds in enumerate(JUMPS):
        part = off.with_suffix(".part")
        part.write_text(f"{seconds:.0f}")
        part.replace(off)  # never half written
        case.wait_for_commits(len(case.records) // 20)
        for worker in workers:
            until(partial(_is_off, worker, seconds), f"{worker.name}'s clock is off by {seconds:.0f} s", 60)
            with urllib.request.urlopen(f"http://127.0.0.1:{port_of(worker)}/health", timeout=30) as answer:
                assert json.load(answer)["healthy"]  # else 503, an error
        kill(case, workers[turn % 2])
        workers[turn % 2] = case.run_worker(workers[turn % 2].name, static=True, program=words, **env)
    finish(case)
    return f"commits timed {', '.join(f'{seconds:+.0f}' for seconds in JUMPS)} s off, {len(JUMPS)} kills"


def _is_off(worker: Worker, seconds: float) -> bool:
    """Whether the worker's last commit has the time of a clock that is off by so much."""
    last = scrape_metrics(worker)["streamjobs_last_commit_timestamp_seconds"]
    return abs(last - time.time() - seconds) < HOUR / 4


def _until_now(seed: int) -> list[Sent]:
    """A sample of each person each second, some a second late; a third of them pauses half of each minute."""
    random, records = np.random.default_rng(seed), []
    begin = round(time.time()) - SECONDS
    for step in range(SECONDS):
        for key in random.permutation(PEOPLE).tolist():
            if key % 3 or (step + 7 * key) % (2 * PAUSE) < PAUSE:
                at = begin + step - (0.9 if random.random() < 0.1 else 0.0)
                records.append(sent(key, {"x": random.normal(size=4).round(4).tolist(), "ts": at, "note": NOTE}, at))
    return records
