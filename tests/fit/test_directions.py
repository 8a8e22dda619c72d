"""Directions in which people differ: what a head keeps of all numbers, and what a population's file may not say of them."""

from dataclasses import replace

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.heads.gated_rls import GatedRls
from streamjobs.core.state.population import encode
from streamjobs.core.state.population_reader import decode
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.fit.learning import Recipe, features, learned_from
from streamjobs.fit.least_squares import sums_of
from streamjobs.fit.recordings import Recordings, shuffled
from streamjobs.job_files import job_of
from streamjobs.stages.population.directions import JOINT
from tests.fit.people import JOB, as_csv, command, job_file, rows

RECIPE = Recipe(learner_from("scaling", {"clip": 5.0}), None, GatedRls(intercept=True))
JOINT_P = (JOINT + 1) * (JOINT + 2)
DIRECTED = JOB.replace('file = "{file}"', 'file = "{file}"\ndirections = 5')


def _people(people=6, width=30, classes=3):
    """A person's means at an activity differ from others' in 4 of the numbers."""
    random = np.random.default_rng(8)
    person, activity = (each.ravel() for each in np.meshgrid(np.arange(people), np.repeat(np.arange(classes), 20)))
    own = np.zeros((people, classes, width))
    own[..., :4] = 3 * random.normal(size=(people, classes, 4))
    X = random.normal(size=(len(person), width)) + own[person, activity] + np.eye(classes, width)[activity]
    recording = 10 * person + activity
    return Recordings(X, activity.astype(np.int64), person.astype(np.int64), recording, list("abc"))


def test_a_head_on_them_says_what_the_populations_head_says_and_sees_where_people_differ():
    data = _people()
    others = shuffled(data, data.person >= 0, [0])
    few, all_ = (learned_from(others, replace(RECIPE, directions=count), 3) for count in (8, 0))
    said = [RECIPE.teacher.predict(one.head, features(one, RECIPE, data.X)) for one in (few, all_)]
    np.testing.assert_allclose(said[0], said[1], atol=1e-3)
    assert few.head.weights.shape == (8, 3) and all_.head.weights.shape == (30, 3)
    matrix, differ = few.directions.matrix, np.eye(30)[:, :4]
    rest = differ - matrix @ np.linalg.lstsq(matrix, differ, rcond=None)[0]
    assert np.linalg.norm(rest, axis=0).max() < 0.6  # of 1: by chance it is the root of 22 of 30


def test_sums_through_directions_are_sums_of_the_rows_in_them():
    data = _people()
    few = learned_from(shuffled(data, data.person >= 0, [0]), replace(RECIPE, directions=8), 3).directions
    found, expected = sums_of(data.X, data.activity, 3).through(few), sums_of(few.rows(data.X), data.activity, 3)
    np.testing.assert_allclose(found.gram, expected.gram, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(found.along, expected.along, rtol=1e-9, atol=1e-8)


def test_any_split_of_rows_gives_the_same_bits():
    data = _people()
    learned = learned_from(shuffled(data, data.person >= 0, [0]), replace(RECIPE, directions=7), 3).directions
    np.testing.assert_array_equal(np.vstack([learned.rows(data.X[:7]), learned.rows(data.X[7:])]), learned.rows(data.X))
    assert np.isnan(learned.rows(np.full((1, 30), np.nan))).all()


@pytest.mark.parametrize("count", [5, 36])
def test_a_file_keeps_them_and_refuses_others(tmp_path, count):
    recordings = as_csv(tmp_path / "people.csv", list(rows()))
    directed = DIRECTED.replace("directions = 5", f"directions = {count}").replace("= 20", "= 20\ninput = true")
    assert command("fit", job_file(tmp_path, directed), "--input", recordings, "--no-report") == 0
    stored = (tmp_path / "population.state").read_bytes()
    population = decode(stored)
    assert stored[2] == (6 if count == 5 else 8) and encode(population) == stored and population.directions is not None
    job = job_of(tmp_path / "job.toml")
    head = job.template["learner"]
    assert head.weights.shape[0] == count and len(head.P) == (6 * 7 if count == 5 else JOINT_P) // 2
    if count > 5:  # as earlier releases learned it, with all covariances
        before = encode(population._replace(joint=0))
        (tmp_path / "population.state").write_bytes(before)
        assert before[2] == 6 and len(job_of(tmp_path / "job.toml").template["learner"].P) == (count + 1) * (count + 2) // 2
    for joint in (-1, count - 1, count + 100):
        with pytest.raises(SnapshotError, match="covariances"):
            decode(encode(population._replace(joint=joint)))
    for wrong in (population.directions.matrix[:-1], np.nan * population.directions.matrix):
        with pytest.raises(SnapshotError, match="directions"):
            decode(encode(population._replace(directions=population.directions._replace(matrix=wrong))))
    with pytest.raises(ConfigError, match=r"directions \d+.* this job has .*directions none"):
        job_of(job_file(tmp_path, JOB))


def test_too_few_or_too_many_are_refused(tmp_path, capsys):
    recordings = as_csv(tmp_path / "people.csv", list(rows()))
    for count in (2, 900):
        path = job_file(tmp_path, DIRECTED.replace("directions = 5", f"directions = {count}"))
        assert command("fit", path, "--input", recordings, "--no-report") == 2
        assert f"got {count}" in capsys.readouterr().err


@pytest.mark.parametrize("times", [1.0, 0.4])
def test_a_sensor_in_smaller_units_is_named_though_no_number_alone_is_far(tmp_path, capsys, times):
    linear = DIRECTED.replace("directions = 5", "directions = 20").replace("rate = 10.0", 'rate = 10.0\nstatistics = "rich"')
    job = job_file(tmp_path, linear.replace('"ald"\nbudget = 20\n[head]\nname = "rls"', '"rls"'))
    assert command("fit", job, "--input", as_csv(tmp_path / "people.csv", list(rows())), "--no-report") == 0
    recorded = as_csv(
        tmp_path / "others.csv", [row | {name: row[name] * times for name in ("ax", "ay", "az")} for row in rows(3, seed=2)]
    )
    for words in (("check", job, "--sample", recorded), ("replay", job, "--input", recorded)):
        capsys.readouterr()
        assert command(*words, "--key", "person") == 0
        said = "".join(capsys.readouterr())
        assert ("unlike those of the population, by all their numbers together: other units" in said) == (times < 1)
        assert said.count("unlike") == (times < 1)
