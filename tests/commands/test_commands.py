"""Commands as they are typed: what they print, and their exit codes."""

import contextlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from streamjobs import __version__
from streamjobs.commands.describe import stage_in_words
from streamjobs.core.job import Job
from streamjobs.demo.show import _open_page
from streamjobs.errors import ConfigError
from streamjobs.job_files import job_of, load_job
from streamjobs.kafka import topics
from streamjobs.settings.load import settings_from
from tests.commands.jobs import JOB, as_csv, as_npz, command, job_file, jsonl, rows
from tests.core.drawn_jobs import drawn

NOBODY = "kafka://127.0.0.1:9"  # nothing listens there


def test_the_job_file_of_init_passes_check(tmp_path, capsys):
    file = tmp_path / "job.toml"
    assert command("init", file) == 0
    assert command("check", file) == 0
    assert "no mistakes" in capsys.readouterr().out


def test_check_prints_learners_and_stages_without_the_notation_of_python(tmp_path, capsys):
    assert command("check", job_file(tmp_path)) == 0
    out = capsys.readouterr().out
    assert "  learner    okfeb (kernel gaussian" in out and ") + rls (intercept true)" in out
    assert "=" not in out and "None" not in out
    for seed in range(60):
        rng = random.Random(seed)
        with contextlib.suppress(ConfigError):
            for stage, text in Job.from_settings(settings_from(drawn(rng))).described.items():
                assert not {"=", "'"} & {*stage_in_words(stage, text)}, text


@pytest.mark.parametrize("write", [as_csv, as_npz])
def test_init_guesses_columns_times_and_labels_from_a_sample(tmp_path, write, capsys):
    sample = write(tmp_path / ("sample.csv" if write is as_csv else "sample.npz"), list(rows(300, keys=2)))
    file = tmp_path / "job.toml"
    assert command("init", file, "--sample", sample, "--topic", "wrist") == 0
    assert "key person" in capsys.readouterr().err
    settings = load_job(file, {})
    assert settings.source.fields == ["ax", "ay", "az"]
    assert (settings.source.topic, settings.source.time, settings.source.label) == ("wrist", "ts", "activity")
    assert settings.window is not None and settings.window.rate == 10.0
    assert settings.head is not None
    assert command("check", file, "--sample", sample, "--key", "person", "--json") == 0
    taken = json.loads(capsys.readouterr().out)["sample"]
    assert (taken["samples"], taken["keys"], taken["labelled"], taken["dead_letters"]) == (300, 2, 300, {})


def test_init_of_a_sample_with_lists_reads_x(tmp_path):
    sample = jsonl(tmp_path / "sample.jsonl", [{"user": "a", "x": [1.0, 2.0, 3.0, 4.0]}, {"user": "b", "x": [0, 1, 0, 1]}])
    file = tmp_path / "job.toml"
    assert command("init", file, "--sample", sample) == 0
    settings = load_job(file, {})
    assert (settings.source.fields, settings.source.x, settings.source.dim) == (None, "x", 4)
    assert settings.window is None and settings.head is None


def test_init_overwrites_only_when_asked(tmp_path, capsys):
    file = job_file(tmp_path)
    assert command("init", file) == 2
    assert "--force" in capsys.readouterr().err
    assert file.read_text() == JOB
    assert command("init", file, "--force") == 0


@pytest.mark.parametrize("name", ["pumps.csv", "pumps.CSV.gz", "pumps.xlsx", "."])
def test_init_overwrites_no_recording_even_when_asked(tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    file = Path(name)
    if not file.exists():
        file.write_text("ts,x\n1,2\n")
    assert command("init", file, "--force") == 2
    assert f"init --sample {name}" in capsys.readouterr().err
    assert file.is_dir() or file.read_text() == "ts,x\n1,2\n"


def test_check_prints_every_mistake_and_ends_with_code_2(tmp_path, capsys):
    file = job_file(tmp_path, JOB.replace("budget", "bugdet").replace("hop", "hpo").replace("[drift]", "[drfit]"))
    assert command("check", file) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 3
    for words in ("did you mean 'budget'?", "did you mean 'hop'?", "did you mean 'drift'?"):
        assert words in err


def test_check_predicts_the_size_of_states(tmp_path, capsys):
    file = job_file(tmp_path)
    assert command("check", file, "--keys", "10", "--json") == 0
    small = json.loads(capsys.readouterr().out)
    file.write_text(JOB.replace("budget = 5", "budget = 50"))
    assert command("check", file, "--keys", "10", "--json") == 0
    large = json.loads(capsys.readouterr().out)
    # 45 samples more of 24 statistics each, at least
    assert large["state_bytes_per_key"] - small["state_bytes_per_key"] >= 45 * 24 * 8
    assert small["state_bytes"] == 10 * small["state_bytes_per_key"]
    assert small["changelog_bytes_per_second"] == small["state_bytes"] / small["replay_seconds"]


def test_check_notes_a_state_that_brokers_refuse_unless_their_limit_is_raised(tmp_path, capsys):
    assert command("check", job_file(tmp_path, JOB.replace("budget = 5", "budget = 1000000"))) == 0
    assert " MB, and Kafka's brokers refuse requests of more than 100 MB unless" in capsys.readouterr().err


def test_check_prints_its_lines_in_one_column_below_long_names(tmp_path, capsys):
    drift = '[drift]\nwatch = "columns"\nslopes = { a = "1h" }\nfalse_alarms = "1 per 10000 rows"\n'
    source = '[source]\ntopic = "t"\nfields = ["a", "b"]\ntime = "ts"\n[learner]\nname = "okfeb"\nrank = 2\nbudget = 3\n'
    assert command("check", job_file(tmp_path, source + drift)) == 0
    lines = [line for line in capsys.readouterr().out.splitlines()[1:] if line.strip()]
    assert any(line.startswith("  drift_slopes ") for line in lines)
    assert len({len(line) - len(line[2:].partition(" ")[2].lstrip()) for line in lines}) == 1


def test_check_counts_the_dead_letters_of_a_sample(tmp_path, capsys):
    table = list(rows(20))
    table[3]["ax"], table[4]["ts"] = "left", None
    sample = jsonl(tmp_path / "sample.jsonl", table)
    assert command("check", job_file(tmp_path), "--sample", sample, "--key", "person", "--json") == 0
    taken = json.loads(capsys.readouterr().out)["sample"]
    assert taken["samples"] == 18
    assert taken["dead_letters"] == {"wrong_value": 1, "bad_time": 1}


def test_a_sample_without_records_ends_check_with_code_2(tmp_path, capsys):
    (tmp_path / "sample.csv").write_text("person,ts,a\n")
    assert command("check", job_file(tmp_path), "--sample", tmp_path / "sample.csv", "--key", "person") == 2
    assert "sample.csv: expected records to decode; got none." in capsys.readouterr().err


def test_a_sample_of_dead_letters_alone_ends_check_with_code_1(tmp_path, capsys):
    sample = jsonl(tmp_path / "sample.jsonl", [{**row, "ts": "noon"} for row in rows(20)])
    assert command("check", job_file(tmp_path), "--sample", sample, "--key", "person") == 1
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith(
        f"{sample}: all 20 records would be dead letters. The first: topic imu[0] offset 0: expected a number"
    )


def test_a_missing_broker_is_one_line_and_code_3(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("STREAMJOBS_BROKER__URL", NOBODY)
    assert command("check", job_file(tmp_path), "--online") == 3
    err = capsys.readouterr().err
    assert len(err.strip().splitlines()) == 1 and "127.0.0.1:9" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chekc"], "Did you mean 'check'?"),
        (
            ["forecast", "tune"],
            "[forecast] is a section of the job file; 'streamjobs tune' and 'replay' try it on a recording",
        ),
        (["check"], "Missing argument"),
        (["check", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["replay", "job.toml"], "--input"),
        (["replay", "job.toml", "--input", "x.jsonl", "--export", "y"], "--export needs --pool"),
        (["replay", "job.toml", "--input", "x.jsonl", "--pool", "--export", "."], "--export .: cannot be written there"),
        (["config", "--nonsense"], "No such option: --nonsense. See"),
        (
            ["run", "job.toml", "--guarante", "x"],
            "'guarantee' is a setting of the job file: [job], or STREAMJOBS_JOB__GUARANTEE",
        ),
        (["init", "--sample", "a.csv", "--sample", "b.csv"], "init: expected --sample once, got it 2 times; to read"),
        (["produce", "j.toml", "a.csv", "--key", "a", "--key", "b"], "produce: expected --key once, got it 2 times"),
        (["init", "--label", "a", "--label", "b"], "init: expected --label once, got it 2 times; a job has one label."),
        (["replay", "job.toml", "--inptu", "x"], "(Possible options: --input). See"),
    ],
)
def test_a_usage_mistake_is_one_line_and_code_2(words, said, capsys):
    assert command(*words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err and len(err.strip().splitlines()) == 1


def test_an_unforeseen_error_is_one_line_with_code_1_and_a_traceback_with_debug(tmp_path, capsys, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("made up\nfor this test")

    monkeypatch.setattr("streamjobs.job_files.read_job", broken)
    assert command("check", "job.toml") == 1
    assert capsys.readouterr().err == "streamjobs: ZeroDivisionError: made up (--debug prints the traceback)\n"
    assert command("check", "job.toml", "--debug") == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_ends_with_code_130_and_one_line(monkeypatch, capsys):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("streamjobs.job_files.read_job", interrupted)
    assert command("check", "job.toml") == 130
    assert capsys.readouterr().err == "streamjobs: interrupted.\n"


def test_config_show_prints_toml_that_is_the_same_job(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("STREAMJOBS_LEARNER__RANK", "2")
    file = job_file(tmp_path)
    assert command("config", "show", file) == 0
    shown = tmp_path / "shown.toml"
    shown.write_text(capsys.readouterr().out)
    again, first = load_job(shown, {}), load_job(file)
    assert again.learner.model_extra == {"rank": 2, "budget": 5}
    assert again.model_copy(update={"sinks": first.sinks}) == first
    assert again.sinks.features == "imu.features"


def test_topics_plan_lists_the_input_the_sinks_and_the_changelog(tmp_path, capsys):
    assert command("topics", "plan", job_file(tmp_path), "--partitions", "6", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert {one["role"] for one in planned} == {"input", "features", "predictions", "drift", "dlq", "state"}
    assert {one["partitions"] for one in planned} == {6}
    (state,) = (one for one in planned if one["role"] == "state")
    assert state["config"]["cleanup.policy"] == "compact"


def test_schema_and_version_print_json(capsys):
    assert command("schema") == 0
    assert "LearnerSection" in json.loads(capsys.readouterr().out)["$defs"]
    assert command("version", "--json") == 0
    assert json.loads(capsys.readouterr().out)["streamjobs"] == __version__
    assert command("--version") == command("version") == 0
    option, _, both = capsys.readouterr().out.partition("pydantic")
    assert option.split()[:2] == ["streamjobs", __version__] and both.count(option) == 1


def test_the_process_gives_the_exit_code_and_numpy_starts_with_one_blas_thread(tmp_path):
    words = [sys.executable, "-m", "streamjobs"]
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [*words, "check", str(tmp_path / "none.toml")], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 2 and "none.toml" in done.stderr and "Traceback" not in done.stderr
    look = "import sys; from streamjobs.cli import run; assert 'numpy' not in sys.modules; run(['version']); "
    look += "import os; print(os.environ['OPENBLAS_NUM_THREADS'])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.splitlines()[-1] == "1"


@pytest.mark.parametrize("words", [("fit",), ("state", "export"), ("state", "migrate")])
def test_help_pages_keep_the_names_of_sections(words, capsys):
    assert command(*words, "--help") == 0
    said = capsys.readouterr().out
    assert "[population]" in said or "[state] start_from" in said


@pytest.mark.parametrize(
    ("browser", "terminal", "window", "opened"), [(1, 1, 1, 1), (0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 0, 0)]
)
def test_the_demo_opens_its_page_where_there_are_a_browser_and_a_terminal(
    browser, terminal, window, opened, tmp_path, monkeypatch
):
    told, seen = [], []
    (tmp_path / "log").write_text('{"event": "serving /metrics and /health", "port": 4711}\n')
    monkeypatch.setattr("webbrowser.open", seen.append)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: bool(terminal)))
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0" if window else "")
    screen = SimpleNamespace(console=SimpleNamespace(print=lambda text, **_: told.append(text)))
    _open_page(tmp_path / "log", screen, browser=bool(browser))
    assert told == ["The worker's live page: http://127.0.0.1:4711/"]
    assert seen == (["http://127.0.0.1:4711/"] if opened else [])


@pytest.mark.parametrize("new", [{"input", "state", "output"}, {"state"}, set()])
def test_topics_create_names_outputs_that_another_job_may_write_and_keys_that_may_be_alone(
    tmp_path, monkeypatch, capsys, new
):
    job = job_file(tmp_path, JOB + '[alarms]\nsilent = "10m"\n')
    made = job_of(job)
    planned = topics.plan(made.settings, made.sinks, 4)
    created = [one for one in planned if (one.role if one.role in ("input", "state") else "output") in new]
    monkeypatch.setattr(topics, "create", lambda *_, **__: created)
    assert command("topics", "create", job) == 0
    said, printed = "imu.predictions existed before: if another job writes there, outputs of both", capsys.readouterr().err
    assert (said in printed) == (new == {"state"})
    assert ("[alarms] silent: keys of a partition watch one another" in printed) == ("input" in new)


@pytest.mark.parametrize("rekeyed", [True, False])
def test_topics_create_names_no_dead_letters_that_rekey_has_made(tmp_path, monkeypatch, capsys, rekeyed):
    keyed = 'key = "who"\nrekeyed = true' if rekeyed else ""
    job = job_file(tmp_path, JOB.replace("[source]", "[source]\n" + keyed))
    made = job_of(job)
    planned = topics.plan(made.settings, made.sinks, 4)
    monkeypatch.setattr(topics, "create", lambda *_, **__: [one for one in planned if one.name != made.sinks["dlq"]])
    assert command("topics", "create", job) == 0
    assert ("imu.dlq existed before: " in capsys.readouterr().err) != rekeyed
