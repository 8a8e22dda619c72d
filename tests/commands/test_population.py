"""A job with a population: what is wrong with its file is said, and a worker moves its keys to a changed one."""

import json
import re
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from streamjobs.core.state.population import encode
from streamjobs.demo.mock import PARTITIONS, MockBroker
from streamjobs.errors import ConfigError
from streamjobs.job_files import core_from, job_of, load_job, read_job
from streamjobs.kafka.topics import changelog
from tests.commands.jobs import JOB, SESSION, command, job_file, rows
from tests.core.people import OTHERS, population_of

WITHIN = 150  # seconds; a cold compile cache on a busy machine included
PEOPLE = JOB.replace('name = "okfeb"\nrank = 3\nbudget = 5', 'name = "ald"\nbudget = 20\nfreeze = true').replace(
    '[head]\nname = "rls"', '[head]\nname = "rls"\nboost = 10.0\nsmooth = 0.3\nfallback = "last_label"'
)
SHARED = '[population]\nfile = "{}"\n[scaling]\nfrom = "population"\nclip = 5.0\n'
LABELS = '[labels]\nwait = "20s"\n'


def people(folder, records=OTHERS, more: str = ""):
    """A job file with a population beside it."""
    file = folder / "population.state"
    job = job_file(folder, PEOPLE + SHARED.format(file) + more)
    file.write_bytes(encode(population_of(load_job(job), records)))
    return job


def test_a_population_is_checked_before_anything_runs(tmp_path, capsys):
    job = people(tmp_path)
    file = tmp_path / "population.state"
    assert command("check", job) == 0
    whole = file.read_bytes()
    for damage, said in (
        (lambda: file.write_bytes(whole[:-9]), "its checksum does not fit"),
        (lambda: job.write_text(job.read_text().replace("clip = 5.0", "clip = 3.0")), "scaling Scaling(clip=5.0)"),
        (file.unlink, "cannot be read"),
    ):
        file.write_bytes(whole)
        damage()
        capsys.readouterr()
        assert command("check", job) == 2
        err = capsys.readouterr().err
        assert said in err and "[population]" in err and "Traceback" not in err
        with pytest.raises(ConfigError, match=rf"^\[population\].*{re.escape(str(file))}"):
            core_from(read_job(job))  # as the worker does


def test_a_person_in_other_units_is_named_before_anything_runs(tmp_path, capsys):
    job, sample = people(tmp_path), tmp_path / "new.csv"
    for times in (1.0, 9.80665):
        bodies = [json.loads(one.value) for one in OTHERS[::4]]
        lines = [f"p1,{one['ts']},{times * one['ax']},{times * one['ay']},{times * one['az']}" for one in bodies]
        sample.write_text("\n".join(["person,ts,ax,ay,az", *lines]))
        for words in (("check", job, "--sample"), ("replay", job, "--input")):
            assert command(*words, sample, "--key", "person") == 0
            said = capsys.readouterr()
            assert ("unlike those of the population, by a" in said.err) == (times > 1)


def test_a_pooled_replay_of_a_job_with_a_population_is_refused(tmp_path, capsys):
    assert command("replay", people(tmp_path), "--input", "none.csv", "--key", "person", "--pool") == 2
    assert "--pool learns a model for new keys, but these start from [population]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (JOB + '[scaling]\nfrom = "population"\n', "[scaling]: from = 'population' needs a [population]"),
        (JOB.replace("rank = 3", "rank = 3\nfreeze = true"), "[learner]: freeze = true needs a [population]"),
        (PEOPLE + '[population]\nfile = "p"\n[scaling]\nfrom = "key"\n', "[scaling]: from must be 'population'"),
        (PEOPLE.replace("freeze = true", "freeze = false") + '[population]\nfile = "p"\n', "[learner]: freeze must be true"),
        (PEOPLE + '[population]\nfile = "p"\n[state]\nstart_from = "s"\n', "[state]: start_from and [population] both"),
        (JOB.replace('"rls"', '"lms"') + '[population]\nfile = "p"\n', "[head]: lms cannot start from a [population]"),
        (
            JOB.replace('[head]\nname = "rls"\n', "") + '[population]\nfile = "p"\n',
            "a [population] needs a head, and okfeb only gives features; add [head] name = 'rls'",
        ),
        (JOB.replace('"rls"', '"rls"\ntask = "regression"') + '[population]\nfile = "p"\n', "task must be 'classification'"),
        (JOB + '[population]\nfile = "p"\nreplaces = ["zz"]\n', "[population]: replaces"),
        (
            JOB.replace('"rls"', '"rls"\nboots = 3.0\ngate = true'),
            "unknown setting 'boots' for gated_rls; did you mean 'boost'?",
        ),
        (JOB.replace('"rls"', '"rls"\nsmooth = 1.0'), "[head]: smooth must be below 1; got 1.0."),
        (JOB.replace('"rls"', '"rls"\ntask = "regression"\nsmooth = 0.5'), "smooth has no meaning in a regression"),
        (JOB + '[labels]\nwithin = "1s"\n', "[labels]: within has no meaning without wait or delay"),
        (
            JOB.replace('label = "activity"\n', "") + LABELS,
            "[labels]: wait needs the field with the label; set",
        ),
        (JOB.replace('time = "ts"\n', "") + LABELS, "[labels]: wait needs the field with the event time; set"),
        (JOB.replace('[head]\nname = "rls"\n', "") + LABELS, "[labels]: wait needs something that learns labels"),
        (JOB.replace('page_hinkley"', 'page_hinkley"\nwatch = "loss"') + LABELS, "[drift]: watch = 'loss' misses labels"),
        (
            JOB.replace('label = "activity"', 'label = "activity"\nformat = "raw"') + LABELS,
            "[labels]: wait has no meaning in raw",
        ),
    ],
)
def test_a_setting_that_contradicts_another_is_said_in_one_sentence(tmp_path, capsys, text, said):
    assert command("check", job_file(tmp_path, text)) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_worker_moves_its_keys_to_a_changed_population_where_the_job_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("STREAMJOBS_STATE__DIRECTORY", str(tmp_path / "state"))
    monkeypatch.setenv("STREAMJOBS_METRICS__PORT", "0")
    with MockBroker() as mock:
        monkeypatch.setenv("STREAMJOBS_BROKER__URL", mock.url)
        monkeypatch.setenv(*SESSION)
        job = people(tmp_path, more=LABELS)
        made = job_of(job)
        mock.create(["imu", *made.sinks.values(), changelog(made.settings)])
        table = list(rows(600))
        produce(mock, table[:300])
        assert work(job).returncode == 0
        assert migrate(job, capsys) == {"here": 3, "move": {}, "set": True}

        old = made.population.fingerprint.hex()
        people(tmp_path, OTHERS[:480], LABELS)
        assert migrate(job, capsys) == {"here": 0, "move": {old: 3}, "set": False}
        assert command("state", "migrate", job, "--population") == 0
        assert f'replaces = ["{old}"]' in capsys.readouterr().out
        produce(mock, table[300:])
        refused = work(job)
        assert refused.returncode == 1 and f"population {old}" in refused.stderr and "replaces" in refused.stderr
        assert migrate(job, capsys)["here"] == 0

        monkeypatch.setenv("STREAMJOBS_POPULATION__REPLACES", json.dumps([old]))
        done = work(job)
        assert done.returncode == 0, done.stderr[-2000:]
        assert migrate(job, capsys) == {"here": 3, "move": {}, "set": True}


def produce(mock: MockBroker, table: list) -> None:
    producer = Producer({"bootstrap.servers": mock.url.removeprefix("kafka://"), "log_level": 0})
    for row in table:
        key, stamp = row["person"], round(row["ts"] * 1000)
        producer.produce("imu", json.dumps(row), key=key, partition=int(key[1]) % PARTITIONS, timestamp=stamp)
    assert producer.flush(20) == 0


def work(job) -> subprocess.CompletedProcess:
    words = [sys.executable, "-m", "streamjobs", "run", str(job), "--once"]
    return subprocess.run(words, capture_output=True, text=True, timeout=WITHIN, check=False)


def migrate(job, capsys) -> dict:
    capsys.readouterr()
    assert command("state", "migrate", job, "--population", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    return {"here": found["keys_here"], "move": found["keys_to_move"], "set": found["set"]}
