"""`fit --choose`: candidates compared on people left out, the job file that comes of it, and the map beside its input."""

import json
import tomllib

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.heads.gated_rls import GatedRls
from streamjobs.errors import ConfigError
from streamjobs.fit import choosing, proposing
from streamjobs.fit.choosing import Candidate, Judged
from streamjobs.fit.learning import Recipe
from streamjobs.fit.recordings import Recordings
from streamjobs.job_files import job_of, load_job
from tests.fit.people import JOB, as_csv, command, job_file, rows

BOTH = JOB.replace("budget = 20", "budget = 20\ninput = true")
RECIPE = Recipe(
    learner_from("scaling", {"clip": 5.0}), learner_from("random_prototypes", {"budget": 40}), GatedRls(intercept=True)
)


def _judged(name: str, every: list[float], size: int) -> Judged:
    return Judged(Candidate("rich", name, "hmm"), *[np.array(every)] * 3, 10, size)


def test_the_best_for_a_person_is_what_the_others_choose():
    """Person 0 alone would choose the second; counting that would promise too much."""
    linear, other = _judged("linear", [0.5, 0.8, 0.8], 1), _judged("both", [0.9, 0.7, 0.7], 2)
    choice = choosing._chosen([linear, other])
    assert choice.best is other and choice.estimate.tolist() == [0.5, 0.7, 0.7]


def test_of_equal_ones_the_linear_head_is_taken_and_the_smallest_close_one_is_named():
    linear, other = _judged("linear", [0.8, 0.8], 1), _judged("both", [0.8, 0.8], 2)
    assert choosing._chosen([linear, other]).best is linear
    better, far = _judged("both", [0.805, 0.805], 2), _judged("both", [0.82, 0.82], 2)
    assert choosing._chosen([linear, better]).cheapest is linear
    assert choosing._chosen([linear, far]).cheapest is far


def test_states_above_the_limit_are_compared_and_not_chosen():
    large, small = _judged("both", [0.9, 0.9], choosing.MOST_STATE + 1), _judged("linear", [0.8, 0.8], 3)
    assert choosing._chosen([small, large]).best is large  # the job names no population, which directions need
    few = small._replace(candidate=small.candidate._replace(directions=64))
    choice = choosing._chosen([few, large])
    assert choice.best is few and choice.judged == [few, large] and choice.estimate.tolist() == [0.8, 0.8]


def test_prototypes_are_chosen_where_classes_are_no_half_spaces():
    """An inner ball and a ring around it; a linear head sees nothing."""
    random = np.random.default_rng(5)
    person, recording = np.repeat(np.arange(5), 200), np.repeat(np.arange(40), 25)
    activity = recording % 2
    X = random.normal(size=(1000, 2))
    X *= (np.where(activity == 1, 3.0, 1.0) / np.linalg.norm(X, axis=1))[:, None]
    data = Recordings(X, activity, person, recording, ["in", "out"])
    choice = choosing.choose(data, {("rich", 0): slice(None)}, RECIPE, 20)
    assert choice.best.candidate.map == "prototypes" and choice.estimate.mean() > 0.95
    linear = next(one for one in choice.judged if one.candidate == Candidate("rich", "linear", "hmm"))
    assert linear.every.mean() < 0.9 and linear.width == 2 and choice.best.width == 40


@pytest.mark.parametrize("rows_seen", [400, 100])
def test_coordinates_of_the_comparison_are_those_of_the_map_that_the_job_gets(rows_seen):
    """Also of a population with fewer windows than prototypes; a change of the map's default kernel fails here."""
    mapping, random = (
        learner_from(choosing.PROTOTYPES["name"], {"budget": choosing.PROTOTYPES["budget"]}),
        np.random.default_rng(6),
    )
    X = random.normal(size=(rows_seen, 12))
    state, new = mapping.state_after(X, seed=0), random.normal(size=(50, 12))
    expected = mapping.transform(state, new)
    found = choosing._coordinates(mapping, state, new)
    np.testing.assert_allclose(found, expected[:, : found.shape[1]], atol=1e-8)
    assert not expected[:, found.shape[1] :].any() and np.abs(expected).max() > 0.1


def test_the_written_job_is_the_job_with_the_best_and_can_be_fitted(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(choosing, "PROTOTYPES", choosing.PROTOTYPES | {"budget": 40})
    monkeypatch.setattr(choosing, "CONVOLUTIONS", 20)
    monkeypatch.setattr(choosing, "FEW", (12, 6))
    recordings, path = as_csv(tmp_path / "people.csv", list(rows())), job_file(tmp_path, JOB + "delta = 50.0  # ours\n")
    chosen = tmp_path / "chosen.toml"
    fit = ("fit", path, "--input", recordings, "--choose", chosen, "--no-report", "--json")
    assert command(*fit) == 0
    said = json.loads(capsys.readouterr().out)["chosen"]
    tuned = tmp_path / "tuned.toml"
    assert command("tune", path, "--input", recordings, "--key", "person", "--write", tuned, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {**said, "file": str(tuned)} and tuned.read_text() == chosen.read_text()
    assert len(said["candidates"]) == 4 * 3 * 2 + 3 * 2 * 2 + 2 and said["best"] in [
        {name: one[name] for name in ("statistics", "map", "filter", "convolutions", "directions", "delta")}
        for one in said["candidates"]
    ]
    table, before = tomllib.loads(chosen.read_text()), tomllib.loads(path.read_text())
    assert table["window"]["statistics"] == said["best"]["statistics"]
    assert table.get("head", table["learner"])["delta"] == (said["best"]["delta"] or 50.0)
    for section in ("job", "source", "scaling"):
        assert table[section] == before[section]
    assert table["population"]["file"] == before["population"]["file"]
    population = tmp_path / "population.state"
    at_once = population.read_bytes()
    assert command("fit", chosen, "--input", recordings, "--no-report", "--force") == 0
    assert population.read_bytes() == at_once  # that of the chosen job, from windows that were read once
    assert job_of(chosen).population is not None
    population.unlink()
    assert command(*fit) == 2  # the job's file is there already
    chosen.unlink()
    population.write_bytes(at_once)
    assert command(*fit) == 2 and not chosen.exists()  # the population is there


def test_rows_without_windows_are_compared_by_map_and_filter_alone(tmp_path, capsys, monkeypatch):
    """With more directions than numbers: the controls, which have no map, see the numbers themselves."""
    monkeypatch.setattr(choosing, "PROTOTYPES", choosing.PROTOTYPES | {"budget": 40})
    monkeypatch.setattr(choosing, "FEW", (12, 6))
    text = JOB.replace('[window]\nlength = "2s"\nhop = "1s"\nrate = 10.0\n', "")
    recordings, path = as_csv(tmp_path / "people.csv", list(rows())[::4]), job_file(tmp_path, text)
    chosen = tmp_path / "chosen.toml"
    assert command("fit", path, "--input", recordings, "--choose", chosen, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert {one["statistics"] for one in said["chosen"]["candidates"]} == {"samples"}
    assert {one["map"] for one in said["chosen"]["candidates"]} == {"linear", "prototypes", "both"}
    assert said["chosen"]["best"]["directions"] > 3 and "linear, gated" in said["report"]["ways"]
    assert "window" not in tomllib.loads(chosen.read_text()) and job_of(chosen).population is not None


def test_directions_come_into_the_population_of_the_written_job_and_leave_it(tmp_path):
    path = job_file(tmp_path, JOB)
    table, before = tomllib.loads(path.read_text()), tomllib.loads(path.read_text())
    other = choosing.tables_of(Candidate("rich", "both", "hmm", 0, 0, 0.01), table, {"delta": 50.0})
    assert other["head"]["delta"] == 0.01
    for few in (6, 0):
        tables = choosing.tables_of(Candidate("rich", "linear", "hmm", 0, few), table, {})
        path.write_text(proposing.with_tables(path, tables))
        expected = {**before["population"], "directions": few} if few else before["population"]
        assert tomllib.loads(path.read_text())["population"] == expected


@pytest.mark.long
def test_a_stated_length_of_activities_stays_with_the_filter_alone(tmp_path):
    task, table = {"delta": 50.0, "lasts": "60s"}, {"window": {"length": "2s"}}
    hmm, smooth = (
        choosing.tables_of(Candidate("rich", "linear", one), table, task)["learner"] for one in choosing.FILTERS[::-1]
    )
    assert hmm == {"name": "rls", "delta": 50.0, "lasts": "60s", "filter": "hmm"}
    assert smooth == {"name": "rls", "delta": 50.0, "smooth": 0.3}
    text = JOB.replace("smooth = 0.3", 'filter = "hmm"\nlasts = "60s"')
    recordings = as_csv(tmp_path / "people.csv", list(rows()))
    chosen = tmp_path / "chosen.toml"
    assert command("fit", job_file(tmp_path, text), "--input", recordings, "--choose", chosen, "--no-report") == 0
    load_job(chosen, {})


def test_a_head_may_see_rows_and_features(tmp_path):
    recordings = as_csv(tmp_path / "people.csv", list(rows()))
    assert command("fit", job_file(tmp_path, BOTH), "--input", recordings, "--no-report") == 0
    job = job_of(job_file(tmp_path, BOTH))
    assert job.population is not None and len(job.population.head.state.weights) == 24 + 20
    with pytest.raises(ConfigError, match="input rows and features"):
        job_of(job_file(tmp_path, JOB))
    for text in (
        BOTH.replace('[population]\nfile = "{file}"\n', ""),
        BOTH.replace('[head]\nname = "rls"\nsmooth = 0.3\n', ""),
    ):
        with pytest.raises(ConfigError, match="input = true needs a"):
            load_job(job_file(tmp_path, text), {})
