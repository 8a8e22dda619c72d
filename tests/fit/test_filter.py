"""[head] filter = "hmm" and boost: what `fit` chooses inside the population, what the file keeps, and what is refused."""

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.heads.gated_rls import GatedRls
from streamjobs.core.state.population import encode
from streamjobs.core.state.population_reader import decode
from streamjobs.errors import ConfigError
from streamjobs.fit import inner
from streamjobs.fit.evaluation import calibration, filter_learned, leave_one_out
from streamjobs.fit.inner import calibration_error, filtered, learn_changes, learn_transitions, left_out
from streamjobs.fit.learning import Recipe, Way, decided, features, learned_from
from streamjobs.fit.recordings import Recordings, shuffled
from streamjobs.job_files import job_of, load_job
from streamjobs.stages.smoothing import Transitions
from tests.fit.people import JOB, as_csv, command, job_file, rows

HMM = JOB.replace("smooth = 0.3", 'filter = "hmm"')
RECIPE = Recipe(learner_from("scaling", {"clip": 5.0}), None, GatedRls(intercept=True), 0.0, Transitions(), True)


@pytest.fixture(scope="module")
def data() -> Recordings:
    """Six people whose windows are hard to tell apart one by one, and easily in a row."""
    random = np.random.default_rng(5)
    person, recording = np.repeat(np.arange(6), 300), np.repeat(np.arange(36), 50)
    activity = recording % 3
    X = random.normal(size=(1800, 3)) * 1.2 + 1.5 * np.eye(3)[activity] + 0.3 * random.normal(size=(6, 3))[person]
    return Recordings(X, activity, person, recording, ["a", "b", "c"])


def test_a_filter_learned_from_others_recognises_more_than_smoothing(data):
    smooth = replace(RECIPE, smooth=0.3, filter=None)
    runs = leave_one_out(data, [Way("hmm", RECIPE), Way("smooth", smooth)], shuffles=1)
    right = {name: np.mean([chosen == truth for chosen, truth, _ in runs[name].values()]) for name in ("hmm", "smooth")}
    assert right["hmm"] > right["smooth"] + 0.05
    error = calibration(runs, "hmm")
    assert error is not None and error < 0.15 and calibration(runs, "smooth") is None


def test_the_person_left_out_does_not_choose_the_numbers(data):
    """Other windows of person 2 change nothing that was chosen for 2."""
    mine = data.person == 2
    other = data._replace(X=np.where(mine[:, None], data.X[::-1], data.X))
    one, two = (leave_one_out(each, [Way("hmm", RECIPE)], shuffles=1, people=[2]) for each in (data, other))
    assert (one["hmm"][2, 0][0] != two["hmm"][2, 0][0]).any()
    chosen = []
    for each in (data, other):
        rest = each.person != 2
        others = Recordings(each.X[rest], each.activity[rest], each.person[rest], each.recording[rest], each.names)
        learned = learned_from(shuffled(each, rest, [0, 2]), RECIPE, 3)
        chosen.append(filter_learned(others, RECIPE, learned, 20).filter)
    assert chosen[0] == chosen[1] and chosen[0].switch < 0.2


def test_changes_are_learned_where_scores_move(data):
    """Of people without a change there is nothing to learn; where one comes, scores move further than elsewhere."""
    learned = learned_from(shuffled(data, data.person >= 0, [0]), RECIPE, 3)
    people = list(left_out(data, RECIPE, learned, features(learned, RECIPE, data.X), 20))
    changes = learn_changes(people)
    assert changes is not None and changes.slope > 0
    still = [one._replace(stream=one.stream._replace(activity=np.zeros_like(one.stream.activity))) for one in people]
    assert learn_changes(still) is None
    scores = np.tile([0.8, 0.1, 0.1], (6, 1))
    moved = np.vstack([scores, np.roll(scores, 1, axis=1)])
    with_, without = (filtered(Transitions(sharpness=3.0, switch=0.02, changes=one), moved) for one in (changes, None))
    assert with_.argmax(axis=1).tolist().index(1) < without.argmax(axis=1).tolist().index(1)


@pytest.mark.parametrize("alone", [False, True])  # one person does what no one else does
@pytest.mark.parametrize("head", [{}, {"unlabelled": 0.0}, {"gate": False}])
def test_heads_from_sums_and_rows_at_once_are_those_of_one_pass(data, head, alone, monkeypatch):
    if alone:
        data = data._replace(activity=np.where((data.activity == 2) & (data.person != 0), 1, data.activity))
    monkeypatch.setattr(inner, "WINDOWS", 1000)
    recipe = replace(RECIPE, head=replace(RECIPE.head, **head))
    learned = learned_from(shuffled(data, data.person >= 0, [0]), recipe, 3)
    Z = features(learned, recipe, data.X)
    for person, found in enumerate(left_out(data, recipe, learned, Z, 20)):
        others = shuffled(data, data.person != person, [0])
        begin, seen = recipe.teacher.init(dim=3, targets=3, seed=0), features(learned, recipe, others.X)
        one_pass, _ = recipe.teacher.run(begin, seen, np.eye(3)[others.activity])
        own = shuffled(data, data.person == person, [1, person, 0])
        rest = learned._replace(head=one_pass, people=5)
        expected = decided(replace(recipe, filter=None), "gated", rest, own, features(learned, recipe, own.X))
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
        stage = Transitions(sharpness=9.0, switch=0.02)
        with_filter = decided(replace(recipe, filter=stage), "gated", rest, own, features(learned, recipe, own.X))
        np.testing.assert_allclose(inner.corrected(stage, found), with_filter.scores, atol=1e-4)
        assert not np.allclose(filtered(stage, found.scores), with_filter.scores, atol=1e-4)


def test_all_pairs_at_once_give_the_pair_of_one_after_the_other(data):
    """As long as rows are those of `Transitions`, also where a class has taught nothing and where no change was learned."""
    learned = learned_from(shuffled(data, data.person >= 0, [0]), RECIPE, 3)
    people = list(left_out(data, RECIPE, learned, features(learned, RECIPE, data.X), 20))
    absent = [one._replace(scores=one.scores * [1.0, 1.0, 0.0]) for one in people]
    still = [one._replace(stream=one.stream._replace(activity=np.ones_like(one.stream.activity))) for one in people]
    for group in (people, absent, still):
        changes, shares = learn_changes(group), {}
        for pair in itertools.product(inner.SHARPNESS, inner.SWITCH):
            stage = Transitions(sharpness=pair[0], switch=pair[1], changes=changes)
            right = [(filtered(stage, one.scores).argmax(axis=1) == one.stream.activity).mean() for one in group]
            shares[stage] = np.mean(right)
        assert learn_transitions(group) == max(shares, key=lambda stage: shares[stage])
    assert learn_transitions(people, 0.04).switch == 0.04


def test_boost_follows_the_people_unless_the_job_states_it(tmp_path, data):
    recordings = as_csv(tmp_path / "people.csv", list(rows()))
    path = job_file(tmp_path, HMM)
    assert command("fit", path, "--input", recordings, "--no-report") == 0
    population = decode((tmp_path / "population.state").read_bytes())
    assert population.boost == 7.5 and population.people == 6 and population.transitions is not None
    job = job_of(path)
    stated = job_file(tmp_path, HMM.replace("[head]", "[head]\nboost = 10.0"))
    P = job.init(b"a")["learner"].P
    np.testing.assert_allclose(job_of(stated).init(b"a")["learner"].P, P * 10 / 7.5, rtol=1e-12)
    changes = population.transitions.changes
    assert changes is not None and changes.slope > 0 and len(changes.whitening) == 6
    plain = population._replace(transitions=replace(population.transitions, changes=None))
    assert decode(encode(plain)).transitions == plain.transitions and plain.fingerprint != population.fingerprint
    old = population._replace(boost=None)
    assert old.fingerprint != population.fingerprint and decode(encode(old)).boost is None
    (tmp_path / "population.state").write_bytes(encode(old))
    np.testing.assert_allclose(job_of(job_file(tmp_path, HMM)).init(b"a")["learner"].P, P * 10 / 7.5, rtol=1e-12)


def test_the_chance_of_a_switch_may_be_the_jobs(tmp_path):
    recordings = as_csv(tmp_path / "people.csv", list(rows()))
    path = job_file(tmp_path, HMM)
    assert command("fit", path, "--input", recordings, "--no-report") == 0
    learned = job_of(path).steps.smoothing
    stated = job_of(job_file(tmp_path, HMM.replace('"hmm"', '"hmm"\nlasts = "40s"'))).steps.smoothing
    assert isinstance(learned, Transitions) and learned.switch > 0 and learned.sharpness > 0
    assert stated == replace(learned, switch=1 / 40)
    assert job_of(path).fingerprint == job_of(job_file(tmp_path, HMM)).fingerprint


def test_two_people_are_reported_although_one_cannot_choose_a_filter(tmp_path, capsys):
    table = as_csv(tmp_path / "two.csv", list(rows(people=2)))
    assert command("fit", job_file(tmp_path, HMM), "--input", table, "--key", "person", "--shuffles", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["people"] == 2
    assert learn_transitions([], 0.25).switch == 0.25


def test_without_windows_an_activity_lasts_as_long_as_rows_are_apart(tmp_path, capsys):
    """In time of the recordings' rows; a population of before, which does not know them, goes on as it was."""
    text = re.sub(r"\[window\][^\[]*", "", HMM).replace('name = "ald"\nbudget = 20\n[head]\n', "")
    lasting = text.replace('"hmm"', '"hmm"\nlasts = "40s"')
    for pace in (1.0, 5.0):
        table = [row | {"ts": 1.7e9 + pace * (row["ts"] - 1.7e9)} for row in rows(people=2)]
        recordings, path = as_csv(tmp_path / "people.csv", table), job_file(tmp_path, lasting)
        assert command("fit", path, "--input", recordings, "--no-report", "--force") == 0
        stage, population = job_of(path).steps.smoothing, decode((tmp_path / "population.state").read_bytes())
        assert stage == population.transitions and stage.switch == pytest.approx(pace * 0.1 / 40, rel=1e-4)
    longer = job_of(job_file(tmp_path, text.replace('"hmm"', '"hmm"\nlasts = "80s"')))
    assert longer.steps.smoothing == replace(stage, switch=stage.switch / 2)
    before = encode(population._replace(transitions=replace(stage, hop=0.0)))
    (tmp_path / "population.state").write_bytes(before)
    old = job_of(path)
    assert old.steps.smoothing.switch == 1 / 80 and old.fingerprint == longer.fingerprint and b"hop" not in before
    job_file(tmp_path, lasting.replace("40s", "200ms"))
    assert command("fit", path, "--input", recordings, "--no-report", "--force") == 2
    assert "longer than the usual time between two rows (0.5 s); got 0.2 s" in capsys.readouterr().err
    job_file(tmp_path, lasting.replace('time = "ts"\n', ""))
    assert command("fit", path, "--input", recordings, "--no-report", "--force") == 2
    assert "lasts needs the times of rows" in capsys.readouterr().err


def test_what_does_not_fit_is_refused(tmp_path):
    recordings = as_csv(tmp_path / "people.csv", list(rows()))
    assert command("fit", job_file(tmp_path, JOB), "--input", recordings, "--no-report") == 0
    with pytest.raises(ConfigError, match="filter = 'hmm' needs what 'streamjobs fit' learns"):
        job_of(job_file(tmp_path, HMM))
    for text, said in (
        (HMM.replace('[population]\nfile = "{file}"\n', ""), "filter = 'hmm' needs a \\[population\\]"),
        (HMM.replace('"hmm"', '"hmm"\nsmooth = 0.3'), "exclude each other"),
        (JOB.replace("smooth = 0.3", 'lasts = "60s"'), "lasts is a setting of filter"),
        (HMM.replace('"hmm"', '"hmm"\nlasts = "1s"'), "longer than the hop"),
    ):
        with pytest.raises(ConfigError, match=said):
            load_job(job_file(tmp_path, text), {})


def test_the_report_has_the_calibration(tmp_path, capsys):
    recordings = as_csv(tmp_path / "people.csv", list(rows()))
    assert command("fit", job_file(tmp_path, HMM), "--input", recordings, "--folds", 2, "--shuffles", 1, "--json") == 0
    assert 0 <= json.loads(capsys.readouterr().out)["report"]["calibration_error"] < 0.3
    sure = np.array([0.95, 0.95, 0.55, 0.55])
    assert calibration_error(sure, np.array([True, True, True, False])) == pytest.approx(0.05)
