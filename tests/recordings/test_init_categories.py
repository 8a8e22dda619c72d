"""`init` tries columns of few texts as categories where they may predict a label."""

import tomllib

import numpy as np
import pytest

from streamjobs.job_files import job_of
from streamjobs.recordings.files import records_of
from streamjobs.recordings.tables import How
from streamjobs.replay.engine import Replay
from tests.recordings.init_told import as_csv

START = 1_770_000_000
MODES = {"heat": 5.0, "cool": -3.0, "off": 0.0}


def rows(n, gain=1.0, texts=tuple(MODES), **more):
    random, made = np.random.default_rng(41), []
    for i in range(n):
        mode, a = texts[random.integers(len(texts))], round(float(random.normal()), 3)
        valve = ("shut", "open")[random.integers(2)]
        power = a + gain * (MODES.get(mode, 9.0) + 4.0 * (valve == "open")) + 0.1 * random.normal()
        made.append({"time": START + 60 * i, "a": a, "mode": mode, "valve": valve})
        made[-1] |= {name: one(i) for name, one in more.items()} | {"target": round(float(power), 3)}
    return made


def errors_of(line):
    return {
        one.rsplit(" ", 1)[0]: float(one.rsplit(" ", 1)[1]) for one in line.split("sample: ")[1].split(";")[0].split(", ")
    }


def test_texts_that_predict_a_label_are_categories_of_one_device(tmp_path, printed):
    sample = as_csv(tmp_path / "a.csv", rows(800))
    found = printed(sample)
    of_keys, of_one, texts = (errors_of(line) for line in found.lines if "rmse in the second half of the sample" in line)
    assert min(*of_keys.values(), *of_one.values()) > 3 * min(texts.values())
    assert found.says("with 'mode', 'valve' as categories")
    assert found.source["fields"] == ["a", "mode", "valve"] and found.source["unseen"] == "other"
    assert found.source["categories"] == {"mode": ["cool", "heat", "off"], "valve": ["open", "shut"]}
    assert "--key-is a" in found.out, "not the key, as where texts take turns"


def test_a_text_that_comes_later_is_no_dead_letter_and_one_that_is_missing_is_as_a_number(tmp_path, printed):
    made = rows(800)
    made[300]["mode"] = ""
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.says("1 of 800 rows lack a number in 'mode'") and found.source["missing"] == "skip"
    later = rows(900, texts=("heat", "dry"))
    later[5]["mode"] = ""
    job, letters, labels = job_of(found.file), [], 0

    def take(output):
        nonlocal labels
        letters.extend([output] if output.sink == "dlq" else [])
        labels += output.sink == "predictions"

    sample = as_csv(tmp_path / "later.csv", later)
    Replay(job).run(records_of(sample, job.settings.source, None, how=How(key_is="k")), take, lambda tally: None)
    assert not letters and labels == 899


def test_texts_that_predict_nothing_stay_out_with_the_errors_that_show_it(tmp_path, printed):
    """Nor are they keys of three devices, which learn the same three times."""
    found = printed(as_csv(tmp_path / "a.csv", rows(800, gain=0.0)))
    assert "--key-is a" in found.out
    assert found.source["fields"] == ["a"] and "categories" not in found.source
    assert found.says("left out of x: mode: texts; as categories, they do not make the error smaller")
    assert '#   "mode": texts; as categories, they do not make the error smaller' in found.text


def test_a_column_that_names_the_label_is_no_category_of_it(tmp_path, printed):
    """As in the best-known file of machine failures, in which every failure has its type beside it."""
    made = rows(800)
    for at, one in enumerate(made):
        one["target"] = int(at % 31 == 0)
        one["failure"] = ("heat", "wear")[at % 2] if one["target"] and at != 31 else "none"
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert "failure" not in found.source["fields"] and "failure" not in found.source.get("categories", {})
    assert found.says("left out of x: failure: has in other words the label 'target'")
    assert "--key failure" not in found.out and not found.says("not guessed, choose: key", "'failure'")


@pytest.mark.parametrize(
    "more",
    [
        {"site": lambda i: f"site {i // 10 % 3}", "device": lambda i: f"d{i // 10 % 3}"},  # the name of each key's site
        {"site": lambda i: f"order {i}"},  # different in each row
        {"site": lambda i: f"batch {i // 10}"},  # each comes too seldom
    ],
)
def test_names_and_texts_that_hardly_return_are_no_categories(tmp_path, printed, more):
    found = printed(as_csv(tmp_path / "a.csv", rows(800, **more)))
    assert "site" not in found.source["categories"] and "mode" in found.source["categories"]
    assert found.says("left out of x: site: texts")


@pytest.mark.parametrize("label", [{"target": None}, {}])
def test_rows_without_a_label_and_windows_have_no_categories(tmp_path, printed, label):
    pause = 60 if label else 0.1
    made = [{**one, "time": START + pause * i, **label} for i, one in enumerate(rows(800))]
    made = [{name: value for name, value in one.items() if value is not None} for one in made]
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.source["fields"] == ["a"] and "categories" not in found.source
    assert found.says(
        "left out of x: mode: texts" + (" of a few kinds, such as yes and no; [source] categories" if label else "")
    )
    assert tomllib.loads(found.text)


def test_a_candidate_that_is_tried_as_the_key_is_named(tmp_path, printed):
    made = rows(800, gain=0.0)
    for one in made:
        del one["target"]
    found = printed(as_csv(tmp_path / "a.csv", made))
    assert found.says("not guessed, choose: key", "candidates: 'mode', 'valve'")
    assert found.says("until you choose, 'mode' is tried as the key") and "--key mode" in found.out
