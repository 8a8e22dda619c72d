"""[drift] reference = "population": what fit learns, whose limit it counts, and that nothing else changes."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.drift.glr_chart import GlrChart
from streamjobs.core.job import Job
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.state import snapshot
from streamjobs.core.state.population import encode
from streamjobs.core.state.population_reader import decode
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.fit.alarms import learn_reference, usual_of
from streamjobs.fit.recordings import Recordings
from streamjobs.job_files import job_of
from streamjobs.recordings.files import records_of
from streamjobs.stages.population.reference import CLIP, DIRECTIONS, PopulationReference
from tests.commands.jobs import problems
from tests.core.streams import Worker, values
from tests.fit.people import JOB, command, job_file, jsonl, rows

DRIFT = '[drift]\nwatch = "columns"\nreference = "population"\nfalse_alarms = "{number}"\n'
FIT = ("--no-report",)
_DETECTOR = GlrChart(limit=1.0, tested=DIRECTIONS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of others, and of somebody new."""
    folder, table = tmp_path_factory.mktemp("alarms"), list(rows())
    jsonl(folder / "others.jsonl", [row for row in table if row["person"] != "p13"])
    jsonl(folder / "new.jsonl", [row for row in table if row["person"] == "p13"])
    return folder


def _job(folder: Path, name: str, text: str, *words: str) -> Path:
    """The job's file, with a population of its own."""
    path = folder / f"{name}.toml"
    path.write_text(text.replace("{file}", str(folder / f"{name}.state")))
    assert command("fit", path, "--input", folder / "others.jsonl", *FIT, *words) == 0
    return path


@pytest.fixture(scope="module")
def jobs(folder: Path) -> dict[str, Path]:
    numbers = {"often": "30/h", "seldom": "10/h"}
    made = {name: _job(folder, name, JOB + DRIFT.replace("{number}", number)) for name, number in numbers.items()}
    return made | {"plain": _job(folder, "plain", JOB)}


def _records(path: Path, recording: Path) -> list[Any]:
    return list(records_of(recording, job_of(path).settings.source, "person"))


def test_the_population_is_the_same_but_for_the_reference(folder: Path, jobs: dict[str, Path]) -> None:
    plain, with_reference = (decode((folder / f"{name}.state").read_bytes()) for name in ("plain", "often"))
    assert plain.reference is None and with_reference.reference is not None
    assert with_reference.reference.rows_between == 120.0, "30 an hour, windows every second"
    assert encode(with_reference._replace(reference=None)) == encode(plain) == (folder / "plain.state").read_bytes()
    assert with_reference.fingerprint == plain.fingerprint
    assert encode(decode(encode(with_reference))) == encode(with_reference)
    assert job_of(jobs["plain"]).described["population"] == job_of(jobs["often"]).described["population"]


def test_changes_of_activity_are_found_and_reported_by_column_however_the_records_come(
    folder: Path, jobs: dict[str, Path]
) -> None:
    job, records = job_of(jobs["often"]), _records(jobs["often"], folder / "new.jsonl")
    outputs = Worker(job).apply(records)
    alarms = [json.loads(one.value or b"") for one in outputs if one.sink == "alarms"]
    raised = [one for one in alarms if one["open"]]
    begins = np.array([row["ts"] for row in rows() if row["person"] == "p13"])[::400][1:]  # of each recording but the first
    starts = np.array([one["start"] for one in raised])
    for begin in begins.tolist():
        assert ((starts >= begin) & (starts <= begin + 12)).any(), f"nothing within ten windows of {begin}"
    assert len(raised) <= len(begins) + 3
    assert all(one["false_alarms"] == "30/h" and one["detector"] == "glr_chart" for one in raised)
    assert {one["outcome"] for one in alarms if not one["open"]} == {"learned anew"}
    assert all(one["column"] in job.composition.columns for alarm in raised for one in alarm["columns"])
    assert sum(bool(alarm["columns"]) for alarm in raised) >= len(raised) - 2

    parts, got = Worker(job), []
    for begin in range(0, len(records), 61):
        got += values(parts.apply(records[begin : begin + 61]))
        parts.checkpoint()
        parts = Worker(job, parts.store)
    assert sorted(got) == sorted(values(outputs))


def test_a_state_of_another_reference_keeps_its_model_and_its_detector_starts_over(
    folder: Path, jobs: dict[str, Path]
) -> None:
    before, after = job_of(jobs["often"]), job_of(jobs["seldom"])
    worker, records = Worker(before), _records(jobs["often"], folder / "new.jsonl")
    worker.apply(records[:1000])
    worker.checkpoint()
    held = worker.store[b"p13"]
    old, _, offsets = decode_snapshot(before, held)
    new, _, same = decode_snapshot(after, held)
    assert offsets == same
    for name in before.own:
        left, right = snapshot.flatten(old[name]), snapshot.flatten(new[name])
        equal = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(left, right, strict=True))
        assert equal == (name != "drift"), name
    assert new["drift"].before == 0 < old["drift"].before
    with pytest.raises(SnapshotError):
        decode_snapshot(job_of(jobs["plain"]), held)
    went_on = Worker(after, worker.store).apply(records[1000:])
    assert {one.sink for one in went_on} == {"predictions", "alarms"}


def test_a_job_that_states_another_number_than_was_counted_is_refused(
    folder: Path, jobs: dict[str, Path], capsys: pytest.CaptureFixture
) -> None:
    for name, had in (("plain", "without it"), ("often", "for 1 per 120 rows")):
        text = (JOB + DRIFT).replace("{number}", "20/h").replace("{file}", str(folder / f"{name}.state"))
        path = folder / "other.toml"
        path.write_text(text)
        assert command("check", path) == 2
        told = capsys.readouterr().err
        assert f"was learned {had}. Learn the file again with 'streamjobs fit'" in told
        assert "false_alarms = '20/h' (1 per 180 rows) needs a limit" in told


def test_fit_tells_what_it_is_worth_and_refuses_what_cannot_be_counted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = job_file(tmp_path, JOB + DRIFT.replace("{number}", "30/h"))
    asked = "fit", path, "--input", folder / "others.jsonl", *FIT, "--json", "--force"
    told, files = [], []
    for _ in range(2):
        assert command(*asked) == 0
        printed = capsys.readouterr()
        told.append(json.loads(printed.out)["alarms"])
        files.append((tmp_path / "population.state").read_bytes())
    assert files[0] == files[1] and told[0] == told[1]
    assert told[0]["rows_between"] == 120.0 and told[0]["rows"] == 5 * 6 * 39
    assert told[0]["found"] > 0.8 * told[0]["changes"] > 0
    assert f"to {told[0]['between'][1]:.1f} times the stated false alarms (30/h)" in printed.err
    path.write_text(path.read_text().replace("30/h", "1/day"))
    assert command(*asked) == 2
    assert "the people left out have 1,170 windows, too few to count one alarm in 86400" in capsys.readouterr().err
    assert (tmp_path / "population.state").read_bytes() == files[0]


def test_somebody_new_alarms_no_more_than_is_stated_on_average() -> None:
    """Over many draws of people who teach and of somebody new: what is stated is the mean."""
    random, false, windows = np.random.default_rng(0), 0, 0
    for _ in range(12):
        data = _people(random, 7)
        taught = data.person < 5
        teach = data._replace(**{name: getattr(data, name)[taught] for name in ("X", "activity", "person", "recording")})
        reference = learn_reference(teach, _DETECTOR, 100.0).reference
        for person in (5, 6):
            for recording in np.unique(data.recording[data.person == person]):
                X = reference.rows(data.X[data.recording == recording])
                out = _DETECTOR.run(_DETECTOR.init(dim=X.shape[1], targets=0, seed=0), X)[1]
                false, windows = false + int((out.features[:, 1] == 1).sum()), windows + len(X)
    assert 0 < false <= windows / 100.0


def test_a_recording_of_several_activities_is_as_many_recordings() -> None:
    data = _people(np.random.default_rng(2), 4)
    together = learn_reference(data._replace(recording=data.person), _DETECTOR, 100.0)
    alone = learn_reference(data, _DETECTOR, 100.0)
    assert all(np.array_equal(a, b) for a, b in zip(together.reference[1:], alone.reference[1:], strict=True))
    assert together.false_alarms == alone.false_alarms and together.rows == alone.rows


def test_without_a_change_of_mean_there_is_nothing_to_find_and_the_number_is_kept() -> None:
    random = np.random.default_rng(5)
    data = _people(random, 6)
    data = data._replace(X=random.normal(size=data.X.shape))
    learned = learn_reference(data, _DETECTOR, 100.0)
    assert learned.false_alarms <= learned.rows / 100.0 and learned.found < 0.5 * learned.changes


def _people(random: np.random.Generator, people: int) -> Recordings:
    """Each with six recordings of 40 windows of 8 numbers, correlated in time and among themselves; some more restless."""
    X, mix = [], random.normal(size=(8, 8))
    for _ in range(people):
        restless = random.uniform(0.7, 1.4)
        for _ in range(6):
            rows = random.normal(size=(40, 8)) * restless
            for t in range(1, 40):
                rows[t] = 0.5 * rows[t - 1] + 0.87 * rows[t]
            X.append((rows + 3.0 * random.normal(size=8)) @ mix)
    n = 6 * people
    recording = np.repeat(np.arange(n), 40)
    return Recordings(np.concatenate(X), recording % 3, recording // 6, recording, ["a", "b", "c"])


def test_rows_are_projected_as_defined_and_stay_missing_where_they_are() -> None:
    random = np.random.default_rng(3)
    X = random.normal(size=(30, 25)) * 10
    X[4, 3], X[5, 0] = np.nan, 1e300
    reference = PopulationReference(
        9.0, random.normal(size=25), random.uniform(1, 3, 25), random.normal(size=(25, DIRECTIONS))
    )
    rows_of = reference.rows(X)
    assert np.array_equal(rows_of[:, DIRECTIONS:], X, equal_nan=True)
    scaled = np.clip((X - reference.mean) / reference.spread, -CLIP, CLIP)
    good = np.arange(30) != 4
    np.testing.assert_allclose(rows_of[good, :DIRECTIONS], scaled[good] @ reference.projection, rtol=1e-12, atol=1e-12)
    assert np.isnan(rows_of[4, :DIRECTIONS]).all()
    assert np.array_equal(reference.rows(X[7:8]), rows_of[7:8]), "the same bits, whatever rows stand beside one another"


def test_rows_of_a_recording_differ_by_at_most_a_deviation_in_every_direction() -> None:
    data = _people(np.random.default_rng(1), 6)
    usual = usual_of(data.X, data.recording)
    assert (usual.projection[:, 8:] == 0).all() and usual.projection[:, :8].any(axis=0).all()
    projected = usual.rows(data.X)[:, :8]
    steps = np.diff(projected, axis=0)[np.diff(data.recording) == 0] / np.sqrt(2)
    covariance = np.cov(steps.T)
    np.testing.assert_allclose(covariance[:4, :4], np.eye(4), atol=0.2)
    assert np.diag(covariance).max() < 1.2, "what is drawn towards the diagonal has less, never more"
    between = np.array([projected[data.recording == one].mean(axis=0) for one in range(36)]).var(axis=0)
    assert (np.diff(between) < 0.2 * between[:-1]).all(), "those in which recordings differ most come first"
    np.testing.assert_allclose(usual_of(data.X, data.recording, 4.0).projection * 2.0, usual.projection)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (('false_alarms = "{number}"\n', ""), "reference = 'population' needs false_alarms, such as '6/h'. Add it."),
        (('watch = "columns"\n', ""), "reference = 'population' is about the columns; set watch = 'columns'."),
        (('[population]\nfile = "{file}"\n', ""), "reference = 'population' needs a [population] with a file"),
        (("[drift]\n", '[drift]\nrelearn_after = "7d"\n'), "relearn_after has no meaning with reference = 'population'"),
        (("[drift]\n", '[drift]\nreference_from = "start_from"\n'), "reference_from has no meaning with reference ="),
        (("[drift]\n", '[drift]\ndetector = "column_chart"\n'), "reference = 'population' needs the detector 'glr_chart'"),
        (("[drift]\n", '[drift]\ndetector = { name = "glr_chart", limit = 3.0 }\n'), "remove limit."),
        (("{number}", "often"), "false_alarms must be such as '1/day', '6/h' or '1 per 10000 rows'; got 'often'."),
    ],
)
def test_a_job_that_contradicts_itself_is_refused_with_one_sentence(change: tuple[str, str], sentence: str) -> None:
    text = (JOB + DRIFT).replace(*change).replace("{number}", "10/h").replace("{file}", "population.state")
    found = problems(tomllib.loads(text))
    assert any(sentence in problem for problem in found), found


def test_a_file_with_a_reference_that_cannot_be_is_refused(folder: Path, jobs: dict[str, Path]) -> None:
    good = decode((folder / "often.state").read_bytes())
    assert good.reference is not None
    for bad in (
        good.reference._replace(rows_between=0.0),
        good.reference._replace(spread=np.zeros_like(good.reference.spread)),
        good.reference._replace(mean=good.reference.mean[1:]),
        good.reference._replace(projection=np.full_like(good.reference.projection, np.nan)),
    ):
        with pytest.raises(SnapshotError):
            decode(encode(good._replace(reference=bad)))
    with pytest.raises(ConfigError):
        Job.from_composition(job_of(jobs["often"]).composition, population=(folder / "plain.state").read_bytes())


def test_drift_tune_judges_it_beside_the_others_and_leaves_out_a_loss_that_labels_come_too_late_for(
    folder: Path, jobs: dict[str, Path], capsys: pytest.CaptureFixture
) -> None:
    late = folder / "late.toml"
    late.write_text(jobs["often"].read_text() + '[labels]\ndelay = "20s"\n')
    for path, loss in ((jobs["often"], True), (late, False)):
        asked = "--key", "person", "--quiet-until", str(1_700_000_000.0 + 38)
        assert command("drift", "tune", path, "--input", folder / "new.jsonl", *asked, "--json") == 0
        ways = {one["watch"]: one for one in json.loads(capsys.readouterr().out)["ways"]}
        assert ("loss" in ways) == loss and "columns, population" not in ways
        own = ways["the job's own"]
        assert own["at_most"] == pytest.approx(37 / 120, abs=2 / 120) and own["found"] == 1 and own["false_alarms"] <= 1
