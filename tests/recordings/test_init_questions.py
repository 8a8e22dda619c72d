"""What `init` asks at a terminal, and what it writes of the answers."""

import numpy as np
import pytest
from typer.testing import CliRunner

from streamjobs.cli import app
from streamjobs.commands.recordings import questions
from streamjobs.job_files import read_table
from tests.commands.jobs import command, jsonl

N = 60


@pytest.fixture
def sample(tmp_path):
    lines = ["Zeit;Band;Halle;Zustand;Druck;Temp"]
    for i in range(N):
        pressure = f"{150 + i % 7},25" if i % 9 else ""
        state = "auf" if i // 20 % 2 else "zu"
        lines.append(f"2026-11-20T08:00:{i:02};m{i * i % 11 % 2};h1;{state};{pressure};{60 + i % 5},5")
    (tmp_path / "press.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "press.csv"


def asked(monkeypatch, sample, answers, *words):
    monkeypatch.setattr(questions, "at_a_terminal", lambda: True)
    file = sample.with_name("press.toml")
    done = CliRunner().invoke(
        app, ["init", str(file), "--sample", str(sample), *words], input="".join(f"{a}\n" for a in answers)
    )
    return file, done


@pytest.mark.parametrize("key", ["1", "Band"])
def test_it_asks_for_key_label_zone_and_gaps_and_takes_the_answers(monkeypatch, sample, key):
    file, done = asked(monkeypatch, sample, [key, "1", "Europe/Berlin", "hold"])
    assert done.exit_code == 0, done.output
    source, text = read_table(file)["source"], file.read_text()
    assert (source["label"], source["time_zone"], source["missing"]) == ("Zustand", "Europe/Berlin", "hold")
    assert 'in the sample: column "Band" (as chosen)' in text and source["fields"] == ["Druck", "Temp"]
    assert '"Halle"' in text.partition("left out of x")[2]
    assert command("check", file, "--sample", sample, "--key", "Band") == 0


def test_an_answer_that_is_none_is_asked_again_and_empty_takes_the_proposal(monkeypatch, sample):
    file, done = asked(monkeypatch, sample, ["9", "x", "²", "", "", "Berlin", "", ""])
    assert done.exit_code == 0, done.output
    source = read_table(file)["source"]
    assert "label" not in source and "time_zone" not in source and source["missing"] == "skip"
    assert "not guessed, choose: label" not in done.output  # none was the answer
    assert done.output.count("a number from 0 to") == 3 and done.output.count("'Europe/Berlin', please") == 1


def test_yes_or_no_terminal_asks_nothing(monkeypatch, sample):
    file, done = asked(monkeypatch, sample, [], "--yes")
    assert done.exit_code == 0, done.output
    assert read_table(file)["source"]["missing"] == "skip"
    text = file.read_text()
    assert "choose: no column has the name of a label" in text and '# time_zone = "UTC"  # choose' in text


def test_options_answer_questions_and_unknown_columns_are_one_sentence(sample, capsys):
    file = sample.with_name("a.toml")
    words = ("--key", "Band", "--label", "Zustand", "--time-zone", "UTC", "--missing", "mean")
    assert command("init", file, "--sample", sample, *words) == 0
    source = read_table(file)["source"]
    assert (source["label"], source["time_zone"], source["missing"]) == ("Zustand", "UTC", "mean")
    capsys.readouterr()
    assert command("init", file, "--sample", sample, "--key", "who", "--force") == 2
    assert "no column is named 'who'; the columns are 'Band', 'Druck'" in capsys.readouterr().err


def test_a_boolean_may_be_the_label_and_its_learners_are_tried(tmp_path, capsys):
    rng, rows = np.random.default_rng(5), []
    for n in range(400):
        amount, place = rng.normal(size=2).round(3).tolist()
        rows.append({"time": 1_795_000_000 + n, "terminal": f"T{n % 4}", "amount": amount, "place": place})
        rows[-1]["fraud"] = amount > place
    file, sample = tmp_path / "a.toml", jsonl(tmp_path / "cards.jsonl", rows)
    assert command("init", file, "--sample", sample) == 0
    assert "choose: label: no column has the name of a label" in (said := capsys.readouterr().err)
    assert "candidates: 'fraud'; --label NAME chooses one" in said
    assert command("init", file, "--sample", sample, "--label", "fraud", "--force") == 0
    said = capsys.readouterr().err
    assert "label fraud (classification, 2 classes)" in said and "share of wrong predictions" in said
    assert read_table(file)["learner"]["task"] == "classification"


def test_fields_that_are_unsure_are_chosen_by_number(monkeypatch, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "".join(f"{i * 7 % 11},{i * 5 % 13}\n" for i in range(N)))
    file, done = asked(monkeypatch, path, ["0", "2"])
    assert done.exit_code == 0, done.output
    assert read_table(file)["source"]["fields"] == ["y"] and '"x": not chosen' in file.read_text()


def test_a_closed_input_is_not_a_terminal(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert not questions.at_a_terminal()
