"""`size`: its slopes give back the runs they come from, its records are those of any job, its words say what is wrong."""

import json
import re
import time
from pathlib import Path

import pytest

from streamjobs.cli import run
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.errors import ConfigError
from streamjobs.settings.load import settings_from
from streamjobs.settings.types import readable
from streamjobs.sizing import measure
from streamjobs.sizing.slopes import BUSY, LONGEST, MB, Cost, Load, need, rate_of
from tests.parts import CHECKOUT

KNOWN = measure.slopes()
RUNS = KNOWN.data["run"]
CACHE = 256 << 20


def then(snapshot_bytes: int | None = None) -> Cost:
    """What `cost` would have measured where the runs were made."""
    core, told = KNOWN.data["core"], KNOWN.data
    miss = core["not_live"] - core["live"]
    return Cost(core["live"], miss, told["fixed_loop_seconds"], told["slot_bytes"], snapshot_bytes or told["state_bytes"])


def one_worker(keys: float) -> Load:
    """A load so small that one worker has all keys; a key's record finds its state as in a backlog."""
    return Load(int(keys), 1e-3 / keys, CACHE, 1.0)


@pytest.mark.parametrize("told", RUNS, ids=lambda told: str(told["keys"]))
def test_memory_and_disk_of_the_measured_runs_come_out(told: dict[str, float]) -> None:
    cost = then(int(told["snapshot_bytes"]))
    found = need(KNOWN, cost, one_worker(told["keys"]))
    assert found.workers == 1
    assert found.memory == pytest.approx(MB * told["resident_mb"], rel=0.15)
    assert found.disk == pytest.approx(MB * told["disk_mb"], rel=0.15)


@pytest.mark.parametrize("told", RUNS[1:], ids=lambda told: str(told["keys"]))
def test_the_processor_of_runs_beyond_the_cache_comes_out(told: dict[str, float]) -> None:
    cost = then()
    found = need(KNOWN, cost, one_worker(told["keys"]))
    assert found.cpu_us == pytest.approx(told["cpu_us"], rel=0.15)
    assert found.live < 0.5


def test_a_run_that_no_slope_was_derived_from_comes_out() -> None:
    paced = KNOWN.data["paced"]
    found = need(KNOWN, then(), Load(10_000, 1.0, 1 << 40, 1.0))
    told = paced["cpu_us"] * KNOWN.data["fixed_loop_seconds"] / paced["fixed_loop_seconds"]
    assert found.cpu_us == pytest.approx(told, rel=0.2)


def test_workers_stay_below_the_share_of_a_core_and_partitions_suffice() -> None:
    before = 0
    for keys in (10, 1_000, 10_000, 100_000, 1_000_000):
        found = need(KNOWN, then(), Load(keys, 1.0, CACHE, 1.0))
        assert found.cores <= BUSY * found.workers
        assert found.partitions >= 2 * found.workers >= before
        assert found.changelog == 86_400 * keys * KNOWN.data["state_bytes"]
        before = found.workers


def test_a_slower_machine_and_larger_states_cost_more() -> None:
    load = Load(10_000, 1.0, CACHE, 1.0)
    usual = need(KNOWN, then(), load).cpu_us
    slower = need(KNOWN, then()._replace(fixed_loop=2 * KNOWN.data["fixed_loop_seconds"]), load).cpu_us
    larger = need(KNOWN, then()._replace(miss=2 * then().miss), load).cpu_us
    assert slower - usual == pytest.approx(KNOWN.handling)
    assert larger - usual == pytest.approx(KNOWN.write)


def test_a_longer_checkpoint_writes_fewer_states() -> None:
    often, seldom = (need(KNOWN, then(), Load(1_000, 10.0, CACHE, seconds)) for seconds in (1.0, 10.0))
    assert seldom.changelog == pytest.approx(often.changelog / 10)
    assert seldom.cpu_us < often.cpu_us


def test_a_pace_of_states_is_bound_by_the_processor_by_memory_and_by_age() -> None:
    cost = then()
    every, remembered = (need(KNOWN, cost, Load(500, 1.0, CACHE, 1.0, replay)) for replay in (0.0, 10.0))
    assert remembered.changelog == pytest.approx(every.changelog / LONGEST)
    assert 0 < remembered.memory - every.memory < CACHE / 2 and remembered.cpu_us < every.cpu_us
    busy = cost._replace(live=1e5)  # 1 s of processor for 10 records
    load = Load(20, 1.0, CACHE, 1.0, 10.0)
    assert need(KNOWN, busy, load).changelog == pytest.approx(
        86_400 * load.keys / (10.0 * need(KNOWN, busy, load).workers / 2.0) * cost.state_bytes
    )
    large = cost._replace(record_bytes=1 << 20)
    kept = need(KNOWN, large, Load(100, 1.0, CACHE, 1.0, 10.0))
    assert kept.changelog == pytest.approx(every.changelog / 5 / 1.28, rel=0.01)  # half of the cache is 1.28 s of it
    assert kept.recovery > 0


def test_states_are_written_less_often_where_remembered_records_are_compressed() -> None:
    cost = then()._replace(record_bytes=200, compressed_bytes=100)
    for keys, times in ((30_000, 1.0), (42_000, 2.0)):  # live states leave .30 and .02 of the cache
        load = Load(keys, 0.1, CACHE, 1.0, 1e6)
        plain = need(KNOWN, cost._replace(compressed_bytes=200), load)
        assert plain.changelog == pytest.approx(times * need(KNOWN, cost, load).changelog)
    plain_bytes, compressed_bytes = measure.remembered_bytes([Stored("t", 0, n, n, b"key", b"0" * 80) for n in range(100)])
    assert 80 < plain_bytes < 140 and compressed_bytes < 20


def test_the_table_of_the_page_is_what_comes_out() -> None:
    page = (CHECKOUT / "deploy" / "README.md").read_text(encoding="utf-8")
    rows = [line.strip("| \n").split(" | ") for line in page.splitlines() if re.match(r"\| [\d,]+ \| 1/", line)]
    assert [row[0] for row in rows] == 2 * ["10,000"] + 3 * ["100,000"] + 2 * ["1,000,000"]
    for keys, rate, replay, *told in rows:
        found = need(KNOWN, then(), Load(int(keys.replace(",", "")), rate_of(rate), CACHE, 1.0, float(replay[:-2])))
        sizes = [readable(size) for size in (found.memory, found.disk, found.changelog)]
        assert told == [f"{found.cores:.2f}", str(found.workers), str(found.partitions), *sizes]


@pytest.mark.parametrize("text", ["", "1", "1/week", "-1/s", "0/s", "nan/s", "1e9/s"])
def test_a_rate_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--rate: expected a number for each s, min, h or day"):
        rate_of(text)


SAMPLE = {"topic": "t", "dim": 3, "label": "y"}
JOBS = {
    "samples": {"source": SAMPLE, "learner": {"name": "lms", "task": "regression"}},
    "targets": {
        "source": {**SAMPLE, "time": "ts", "time_unit": "ms"},
        "learner": {"name": "lms", "task": "regression", "targets": 2},
    },
    "raw windows": {
        "source": {"topic": "t", "dim": 3, "format": "raw"},
        "window": {"length": "2s", "rate": 10},
        "learner": {"name": "okfeb", "rank": 2, "budget": 3},
    },
    "worn on either side": {
        "source": {"topic": "t", "fields": ["ax", "ay", "az"], "time": "ts", "label": "y"},
        "window": {
            "length": "2s",
            "rate": 10,
            "mirror": {"field": "arm", "when": 1, "columns": ["ax"]},
        },
        "learner": {"name": "okfeb", "rank": 2, "budget": 3},
    },
}


def job_named(name: str) -> Job:
    return Job.from_settings(settings_from(JOBS[name]))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of the measurement: its numbers are not what is tested."""
    for name, value in (("SECONDS", 0.01), ("MOST_KEYS", 64), ("BATCH", 64), ("ROUNDS", 4)):
        monkeypatch.setattr(measure, name, value)


@pytest.mark.parametrize("name", JOBS)
def test_records_can_be_made_and_are_learned(name: str) -> None:
    found = measure.cost(job_named(name), 1.0)
    assert found.live > 0 and found.fixed_loop > 0
    assert found.slot_bytes > 0 and found.state_bytes == job_named(name).state_bytes


def test_a_learner_that_waits_ends_and_costs_what_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = []

    def waiting(job: Job, live: Live, records: list[Stored]) -> None:
        passed.append(len(records))
        time.sleep(0.01 * len(records))

    monkeypatch.setattr(measure, "advance", waiting)
    assert measure.cost(job_named("samples"), 1.0).live >= 10_000
    assert sum(passed) < 20


def test_what_silent_and_group_remember_of_keys_beyond_the_cache_is_counted() -> None:
    table = {"source": {"topic": "t", "fields": ["a"]}, "learner": {"name": "okfeb"}}
    found = []
    for alarms in ({"stuck": True}, {"silent": "1h"}, {"silent": "1h", "group": 0.1}):
        job = Job.from_settings(settings_from({**table, "alarms": alarms}))
        found.append(measure.known_bytes(job, 1_000))
    assert found[0] == 0 and 150 < found[1] < found[2] < 1_000
    load = one_worker(1_000_000)
    without, with_both = (need(KNOWN, then()._replace(known_bytes=size), load).memory for size in (0, found[2]))
    assert with_both - without == 1_000_000 * found[2]


def test_frames_too_long_for_the_source_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"--rate: at 0.00027\d* records a second each has 36,000 samples of a sensor of 10 Hz"
    ):
        measure.samples_of(job_named("raw windows"), 1 / 3600)


def test_the_command_prints_a_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.toml").write_text(
        '[source]\ntopic = "t"\ndim = 2\n[learner]\nname = "okfeb"\nrank = 2\nbudget = 3\n[state]\nreplay = 0\n'
    )
    words = ["size", str(tmp_path / "job.toml"), "--keys", "500", "--rate", "30/min"]
    assert run(words) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert '[state] replay = "10s" writes' in said.err
    assert [line.split()[0] for line in lines[2:6]] == ["500", "10,000", "100,000", "1,000,000"]
    assert "python -m tests.bench keys" in lines[-1]
    assert run([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["keys"], told["records_per_second"]) == (500, 250.0)
    assert [row["keys"] for row in told["table"]] == [500, 10_000, 100_000, 1_000_000]


def test_more_workers_than_a_job_is_made_for_are_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "cost", lambda job, rate: then()._replace(live=20_000.0))
    (tmp_path / "job.toml").write_text('[source]\ntopic = "t"\ndim = 2\n[learner]\nname = "okfeb"\n')
    assert run(["size", str(tmp_path / "job.toml"), "--keys", "20"]) == 0
    (note,) = [line for line in capsys.readouterr().err.splitlines() if "workers for" in line]
    assert "workers for 100,000 keys are more than a job is made for; a record costs 20." in note
