"""[head] reject: what fit learns from people left out, what it tells, and that nothing else changes."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers.gated_streams import way
from streamjobs.core.state.population import encode
from streamjobs.core.state.population_reader import decode
from streamjobs.errors import SnapshotError
from streamjobs.fit.learning import decided, features, learned_from
from streamjobs.fit.recordings import Recordings, shuffled
from streamjobs.fit.rejection import as_text, factor_of, learn_rejection, steps
from streamjobs.job_files import job_of
from streamjobs.recordings.files import records_of
from streamjobs.replay.engine import Replay
from streamjobs.stages.population.reject import MEASURES, Measures, Rejection, distance, measured, threshold
from tests.commands.jobs import problems
from tests.fit.people import ACTIVITIES, JOB, command, job_file, jsonl, rows

REJECT = JOB + "reject = 0.1\n"
FIT = ("--no-report",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of others without one activity, and of somebody new with it."""
    folder, table = tmp_path_factory.mktemp("reject"), list(rows())
    jsonl(folder / "others.jsonl", [row for row in table if row["person"] != "p13" and row["activity"] != "run"])
    jsonl(folder / "new.jsonl", [row | {"activity": None} for row in table if row["person"] == "p13"])
    return folder


def _fit(folder: Path, name: str, text: str) -> Path:
    """The job's file, with a population of its own."""
    path = folder / f"{name}.toml"
    path.write_text(text.replace("{file}", str(folder / f"{name}.state")))
    assert command("fit", path, "--input", folder / "others.jsonl", *FIT) == 0
    return path


@pytest.fixture(scope="module")
def jobs(folder: Path) -> tuple[Path, Path]:
    return _fit(folder, "plain", JOB), _fit(folder, "reject", REJECT)


def _predictions(path: Path, recording: Path) -> tuple[list[dict[str, Any]], Replay]:
    job, made = job_of(path), []
    replay = Replay(job)
    replay.run(records_of(recording, job.settings.source, "person"), made.append, lambda tally: None)
    return [json.loads(one.value) for one in made if one.sink == "predictions"], replay


def test_the_population_is_the_same_but_for_the_threshold(folder: Path, jobs: tuple[Path, Path]) -> None:
    plain, with_reject = (decode((folder / f"{name}.state").read_bytes()) for name in ("plain", "reject"))
    assert plain.reject is None and with_reject.reject is not None and with_reject.reject.share == 0.1
    assert encode(with_reject._replace(reject=None)) == encode(plain) == (folder / "plain.state").read_bytes()
    assert with_reject.fingerprint == plain.fingerprint
    assert job_of(jobs[0]).fingerprint == job_of(jobs[1]).fingerprint


def test_an_activity_nobody_taught_is_mostly_unknown_and_known_ones_are_mostly_not(
    folder: Path, jobs: tuple[Path, Path]
) -> None:
    (plain, before), (said, after) = (_predictions(path, folder / "new.jsonl") for path in jobs)
    truth = [row["activity"] for row in rows() if row["person"] == "p13"]
    of_windows = [truth[min(len(truth) - 1, 400 * (n // 39))] for n in range(len(said))]
    unknown = np.array([one["unknown"] for one in said])
    absent = np.array([name == "run" for name in of_windows])
    assert len(said) == 6 * 39 and unknown[absent].mean() > 0.8 and unknown[~absent].mean() < 0.25
    assert after.tally.unknown == unknown.sum() and before.tally.unknown == 0
    for one, other in zip(plain, said, strict=True):
        is_unknown = other.pop("unknown")
        assert "unknown" not in one
        assert other == (one | {"predicted_class": None, "score": None, "smoothed": None} if is_unknown else one)
    assert dict(before.snapshots()) == dict(after.snapshots())  # no state depends on it


def test_with_a_filter_the_scores_of_the_head_are_measured_and_files_from_before_keep_their_probabilities(
    folder: Path,
) -> None:
    """A filter's probabilities soon are certain of what goes on, known or not."""
    path = _fit(folder, "filter", REJECT.replace("smooth = 0.3", 'filter = "hmm"'))
    data = (folder / "filter.state").read_bytes()
    population = decode(data)
    assert population.reject is not None and population.reject.of_head and encode(population) == data
    truth = [row["activity"] for row in rows() if row["person"] == "p13"]
    said, _ = _predictions(path, folder / "new.jsonl")
    absent = np.array([truth[min(len(truth) - 1, 400 * (n // 39))] == "run" for n in range(len(said))])
    unknown = np.array([one["unknown"] for one in said])
    assert unknown[absent].mean() > 0.8 and unknown[~absent].mean() < 0.25
    (folder / "filter.state").write_bytes(encode(population._replace(reject=population.reject._replace(of_head=False))))
    before = np.array([one["unknown"] for one in _predictions(path, folder / "new.jsonl")[0]])
    assert not decode((folder / "filter.state").read_bytes()).reject.of_head and (before != unknown).any()


def test_the_report_tells_what_it_rejects_and_the_same_recordings_give_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = job_file(tmp_path, REJECT)
    asked = "fit", path, "--input", jsonl(tmp_path / "in.jsonl", list(rows())), "--shuffles", "1", "--folds", "1", "--json"
    told, files = [], []
    for _ in range(2):
        assert command(*asked, "--force") == 0
        printed = capsys.readouterr()
        told.append(json.loads(printed.out)["reject"])
        files.append((tmp_path / "population.state").read_bytes())
    assert files[0] == files[1] and told[0] == told[1]
    (said, _), threshold_of = told, decode(files[0]).reject
    assert threshold_of is not None and threshold_of[:2] == (said["share"], said["above"])
    assert [one["activity"] for one in said["activities_left_out"]] == sorted(ACTIVITIES)
    assert 0.0 < said["known"] < 0.25 and said["worst_person"] >= said["known"]
    assert all(0.0 <= one[figure] <= 1.0 for one in said["activities_left_out"] for figure in ("unknown", "known"))
    assert "Of activities that were not taught" in printed.err


def test_at_most_the_share_of_the_windows_of_people_left_out_is_beyond_the_threshold() -> None:
    random = np.random.default_rng(3)
    for n, share in ((40, 0.05), (1000, 0.1), (7, 0.5)):
        distances = random.exponential(size=n)
        above = threshold(distances, share)
        assert (distances > above).mean() <= share < (distances >= above).mean() + 1e-9


def test_activities_that_look_alike_are_not_distinguished() -> None:
    """Nothing is there to reject by: the figures say so."""
    random = np.random.default_rng(5)
    activity = np.tile(np.repeat([0, 1, 2], 40), 6)
    person = np.repeat(np.arange(6), 120)
    data = Recordings(random.normal(size=(720, 4)), activity, person, person * 3 + activity, ["a", "b", "c"])
    judged = learn_rejection(data, way("linear", "linear").recipe, 0.05)
    assert judged.unknown < 0.2 and judged.known < 0.1 and judged.right < 0.6


def test_scores_are_the_closer_the_more_certain() -> None:
    scores = np.array([[1.0, 0.0], [0.7, 0.1], [0.4, 0.4], [np.nan, np.nan]])
    assert distance(scores, np.array([0, 0, 0, 0])).tolist()[:3] == pytest.approx([0.0, 0.1, 0.52])
    unknown = Rejection(0.05, 0.2).unknown(scores, np.array([0, 0, 0, -1]), np.zeros((4, 2)))
    assert unknown.tolist() == [False, False, True, False]


def test_the_measures_are_those_of_their_definition() -> None:
    random = np.random.default_rng(11)
    taught, X = random.normal(size=(500, 4)), random.normal(size=(60, 4)) * 3
    scores, chosen = random.normal(size=(60, 3)), random.integers(-1, 3, 60)
    scores[7], X[9], chosen[9] = np.nan, 1e200, 1
    covariance, means = np.cov(random.normal(size=(3, 90))), random.normal(size=(3, 3))
    whitening = np.linalg.cholesky(np.linalg.inv(covariance))
    usual = random.uniform(0.5, 2.0, size=(3, 3))
    measures = Measures(whitening, means @ whitening, factor_of(taught), usual)
    found, total = measured(measures, scores, chosen, X)
    A = np.hstack([taught, np.ones((500, 1))])
    inverse = 500 * np.linalg.inv(A.T @ A)
    for n, (s, c, x) in enumerate(zip(scores, chosen.tolist(), X, strict=True)):
        if c < 0 or n == 7:
            assert np.isnan(total[n])
            continue
        mahalanobis = min((s - m) @ np.linalg.inv(covariance) @ (s - m) for m in means)
        row = np.append(x, 1.0)
        plain = [((s - np.eye(3)[c]) ** 2).sum(), mahalanobis, row @ inverse @ row if n != 9 else np.inf]
        assert found[n] == pytest.approx(plain, rel=1e-4)
        assert total[n] == pytest.approx(np.log(np.array(plain) / usual[:, c]).sum(), rel=1e-3, abs=1e-4)
    alone = [measured(measures, scores[n : n + 1], chosen[n : n + 1], X[n : n + 1])[1][0] for n in range(60)]
    assert np.array_equal(alone, total, equal_nan=True)  # the same bits, whatever rows stand beside one another
    assert np.array_equal(Rejection(0.05, 0.0, measures).unknown(scores, chosen, X), total > 0)


def test_an_activity_that_only_the_person_taught_is_judged_by_its_answer() -> None:
    usual = np.array([[0.5, 1.5], [7.0, 7.0], [7.0, 7.0]])
    measures = Measures(np.eye(2), np.eye(2), factor_of(np.eye(2)), usual)
    scores = np.array([[0.0, 0.1, 0.8]])  # a third column
    found, total = measured(measures, scores, np.array([2]), np.full((1, 2), 1e6))
    assert found[0] == pytest.approx([0.05] * 3) and total[0] == pytest.approx(3 * np.log(0.05 / 1.0))


def test_the_promise_holds_for_people_left_out_and_more_is_found_than_by_the_scores_alone() -> None:
    """People differ in where their activities lie; one activity lies beside the others, where the head never looked."""
    random = np.random.default_rng(2)
    places = np.array([[3, 0, 0, 0], [0, 3, 0, 0], [2, 2, 0, 0], [1.5, 1, 5, 0]], float)
    person, activity = np.repeat(np.arange(8), 160), np.tile(np.repeat(np.arange(4), 40), 8)
    X = places[activity] + 0.4 * random.normal(size=(8, 4))[person] + 0.5 * random.normal(size=(1280, 4))
    data = Recordings(X, activity, person, person * 4 + activity, ["a", "b", "c", "d"])
    judged = learn_rejection(data, way("linear", "linear").recipe, 0.05)
    assert judged.known < 0.09 and judged.rejection.measures is not None
    (beside,) = (one for one in judged.activities if one.activity == "d")
    assert beside.unknown > 0.5 and beside.by_answer < 0.1
    assert judged.unknown > judged.by_answer
    people = len(np.unique(data.person))
    assert len(judged.people) == people and min(judged.people) < judged.unknown < max(judged.people)
    assert f"For a single person it is {min(judged.people):.1%} to {max(judged.people):.1%}" in as_text(judged)


def test_the_report_is_what_each_person_gets_of_a_population_of_the_others() -> None:
    """By their own population's threshold, and not by one that the person's windows helped to learn."""
    random = np.random.default_rng(4)
    person, activity = np.repeat(np.arange(5), 120), np.tile(np.repeat(np.arange(3), 40), 5)
    own = 1.5 * random.normal(size=(5, 3, 6))
    X = 2.0 * np.eye(6)[activity] + own[person, activity] + 0.5 * random.normal(size=(600, 6))
    data = Recordings(X, activity, person, person * 3 + activity, ["a", "b", "c"])
    recipe, unknown = way("linear", "linear").recipe, []
    for one in range(5):
        others = data.of(person != one)
        rejection = learn_rejection(others, recipe, 0.1, activities=False).rejection
        learned = learned_from(shuffled(others, others.person >= 0, [0]), recipe, 3)
        stream = shuffled(data, person == one, [1, one, 0])
        said = decided(recipe, "gated", learned, stream, features(learned, recipe, stream.X))
        unknown.append(rejection.unknown(said.scores, said.chosen, recipe.scaled(learned.scaling, stream.X)).mean())
    calls: list[None] = []
    judged = learn_rejection(data, recipe, 0.1, progress=lambda: calls.append(None))
    assert judged.known == pytest.approx(np.mean(unknown)) and judged.worst == pytest.approx(max(unknown))
    assert len(calls) == steps(data, activities=True)
    met = np.mean([one.known for one in judged.activities])
    assert abs(met - judged.known) < abs(met - 0.1), "activities left out are judged at the share that new people have"


def test_a_population_written_before_the_measures_rejects_by_the_answer_as_it_did(
    folder: Path, jobs: tuple[Path, Path]
) -> None:
    """Version 1, in which a threshold stands alone."""
    new = decode((folder / "reject.state").read_bytes())._replace(boost=None)  # which no such file had
    old = new._replace(reject=Rejection(0.1, 0.25))
    data, path = encode(old), folder / "before.toml"
    assert (data[2], encode(new)[2]) == (1, 2) and old.fingerprint == new.fingerprint
    (folder / "before.state").write_bytes(data)
    path.write_text(REJECT.replace("{file}", str(folder / "before.state")) + "[sinks]\nscores = true\n")
    said, _ = _predictions(path, folder / "new.jsonl")
    for one in said:
        scores = np.array([list(one["scores"].values())])
        assert one["unknown"] == (distance(scores, scores.argmax(axis=1))[0] > 0.25)
    assert 0 < sum(one["unknown"] for one in said) < len(said)


def test_what_does_not_fit_is_reported(folder: Path, jobs: tuple[Path, Path], capsys: pytest.CaptureFixture) -> None:
    for text, said in ((REJECT, "was learned without it"), (REJECT.replace("0.1", "0.2"), "with reject = 0.1")):
        file = "plain" if text is REJECT else "reject"
        path = folder / "other.toml"
        path.write_text(text.replace("{file}", str(folder / f"{file}.state")))
        assert command("check", path) == 2
        assert said in capsys.readouterr().err
    without = {"source": {"topic": "a", "dim": 2, "x": "x"}, "learner": {"name": "okfeb"}}
    (one,) = problems(without | {"head": {"name": "rls", "reject": 0.1}})
    assert "reject needs a [population]" in one
    good = decode((folder / "reject.state").read_bytes())
    for wrong in (Rejection(0.9, 1.0), Rejection(0.1, float("nan")), Rejection(0.1, -1.0)):
        with pytest.raises(SnapshotError, match="expected a share up to"):
            decode(encode(good._replace(reject=wrong)))
    assert good.reject is not None and good.reject.measures is not None
    for name, array in good.reject.measures._asdict().items():
        for other in (array[:-1], np.full(array.shape, np.nan), array.astype(np.float32)):
            bad = good.reject._replace(measures=good.reject.measures._replace(**{name: other}))
            with pytest.raises(SnapshotError, match=f"as {name} of reject|damaged"):
                decode(encode(good._replace(reject=bad)))
    unlike = encode(good).replace(json.dumps(list(MEASURES)).encode(), json.dumps(["answer", "other!", "windows"]).encode())
    with pytest.raises(SnapshotError, match="measures that this release does not have"):
        decode(unlike[:-4] + zlib.crc32(unlike[:-4]).to_bytes(4, "little"))
