"""Pictures of outputs: from a replay in Python, and by `streamjobs plot` from a folder; the same rows give the same file."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from streamjobs import Job
from streamjobs.errors import ConfigError
from streamjobs.notebook.pictures import save
from streamjobs.notebook.plots import KINDS, Plot
from streamjobs.notebook.tables import of_folder, of_topics
from streamjobs.settings.broker import BrokerSection
from tests.commands.jobs import JOB, command, job_file, jsonl, rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plots")
    recording = jsonl(made / "rows.jsonl", rows(1500))
    options = ("--key", "person", "--output-dir", made / "out")
    assert command("replay", job_file(made, JOB + '[forecast]\nahead = [1, "2s"]\n'), "--input", recording, *options) == 0
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_draws_what_python_draws(folder: Path, kind: str) -> None:
    job = Job(folder / "job.toml")
    job.replay(folder / "rows.jsonl", key="person")
    figure = getattr(job.plot, kind)()
    save(figure, folder / "python.svg", "path")
    words = ("--from", folder / "out", "--output", folder / "command.svg")
    if kind == "features" and not (folder / "out" / "features.jsonl").is_file():
        pytest.skip("the job sends no features")
    assert command("plot", kind, folder / "job.toml", *words) == 0
    assert (folder / "command.svg").read_bytes() == (folder / "python.svg").read_bytes()
    assert isinstance(figure, Figure) and figure.axes


def test_pictures_say_what_they_show(folder: Path) -> None:
    job = Job(folder / "job.toml")
    replayed = job.replay(folder / "rows.jsonl", key="person")
    (axes,) = replayed.plot.confusion().axes
    said = [
        row for row in replayed.rows("predictions") if row["true_class"] is not None and row["predicted_class"] is not None
    ]
    right = 1 - replayed.summary["wrong"] / len(said)
    assert axes.get_title(loc="left") == f"{right:.1%} right\n{len(said):,} labelled rows with a prediction"
    assert [one.get_title(loc="left") for one in replayed.plot.ls_error().axes] == ["p0", "p1", "p2"]
    (axes,) = replayed.plot.features().axes
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"sit", "run"}


def test_of_a_watch_of_many_numbers_the_statistic_is_drawn() -> None:
    numbers = np.random.default_rng(3).normal(size=(700, 2))
    job = Job(
        {
            "source": {"topic": "n", "fields": ["a", "b"], "time": "t"},
            "learner": {"name": "scaling"},
            "drift": {"watch": ["columns", "rows"], "false_alarms": "1 per 1000 rows"},
        }
    )
    made = job.replay({"t": 1.7e9 + np.arange(700), "a": numbers[:, 0], "b": numbers[:, 1]}, key_is="m")
    (axes,) = made.plot.drift().axes
    assert axes.get_title(loc="left").startswith("m, ")
    assert axes.get_lines()[0].get_ydata()[-1] == made.rows("drift")[-1]["statistic"]


def test_a_forecast_is_drawn_at_the_time_that_it_is_of(folder: Path) -> None:
    job = Job(folder / "job.toml")
    replayed = job.replay(folder / "rows.jsonl", key="person")
    figure = job.plot.forecast("p1", "ay_mean")
    save(figure, folder / "python.svg", "path")
    words = ("--from", folder / "out", "--output", folder / "command.svg", "--key", "p1", "--column", "ay_mean")
    assert command("plot", "forecast", folder / "job.toml", *words) == 0
    assert (folder / "command.svg").read_bytes() == (folder / "python.svg").read_bytes()
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "p1, ay_mean"
    lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
    rows = [row for row in replayed.rows("forecasts") if row["key"] == "p1"]
    near, far = [one for one in rows[-1]["forecasts"] if one["column"] == "ay_mean"]
    assert lines["value"].tolist()[-1] == [0.0, near["naive"]]
    assert lines["1 row ahead"].tolist()[-1] == [0.5, near["value"]]
    assert lines["of the last row"].tolist() == [[0.0, near["naive"]], [0.5, near["value"]], [2.0, far["value"]]]
    made = next(one for one in rows[-2]["forecasts"] if one["column"] == "ay_mean")
    assert lines["1 row ahead"].tolist()[-2] == [0.0, made["value"]]
    with pytest.raises(ConfigError, match="expected forecasts of key p9, column any; got none"):
        job.plot.forecast("p9")


def test_rows_of_days_are_drawn_over_days() -> None:
    source = {"topic": "n", "fields": ["a"], "time": "t"}
    job = Job({"source": source, "learner": {"name": "okfeb", "rank": 2, "budget": 4}, "forecast": {"ahead": [1]}})
    job.replay({"t": 1.7e9 + 3600.0 * np.arange(120), "a": np.random.default_rng(3).normal(size=120)}, key_is="m")
    (axes,) = job.plot.ls_error().axes
    assert axes.get_xlabel() == "days since the first row" and axes.get_lines()[0].get_xdata()[[0, -1]].tolist() == [
        0,
        119 / 24,
    ]
    (axes,) = job.plot.forecast().axes
    ends = {line.get_label(): line.get_xdata()[-1] for line in axes.get_lines()}
    assert axes.get_xlabel() == "days from the last row"
    assert ends["value"] == 0 and ends["1 row ahead"] == ends["of the last row"] == pytest.approx(1 / 24)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("portrait", "--from", "out"), "expected one of features, ls_error, drift, confusion, forecast; got 'portrait'."),
        (("drift", "--from", "nowhere"), "nowhere/drift.jsonl: no such file"),
        (("drift", "--from", "out", "--output", "x.gif"), "--output x.gif: expected a name that ends in .svg or .png."),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(
    folder: Path, words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("plot", words[0], folder / "job.toml", *words[1:]) == 2
    assert sentence in capsys.readouterr().err


def test_outputs_that_a_job_does_not_send_say_how_it_would(folder: Path) -> None:
    sinks = {"predictions": "imu.predictions", "dlq": "imu.dlq"}
    for rows_of in (of_folder(folder / "out2", sinks), of_topics(BrokerSection(url="kafka://localhost:1"), sinks)):
        with pytest.raises(ConfigError) as told:
            rows_of("drift")
        assert str(told.value) == (
            "plot: this job sends no drift; it has predictions, dlq. To plot what it could send, name a topic in [sinks] "
            "drift, or in the environment: STREAMJOBS_SINKS__DRIFT=NAME."
        )
        with pytest.raises(ConfigError, match=r"A job with \[forecast\] sends them, unless \[sinks\] forecasts is ''\."):
            rows_of("forecasts")


def test_nothing_is_drawn_before_a_replay(folder: Path) -> None:
    with pytest.raises(ConfigError, match="call replay first"):
        _ = Job(folder / "job.toml").plot


def test_pictures_take_names_as_they_are_and_any_number_of_activities(tmp_path: Path) -> None:
    names = ["<b>&", "$x$", *(f"activity number {n}" for n in range(29))]
    made = [{"key": "a & b", "ts": float(n), "predicted_class": name, "true_class": name} for n, name in enumerate(names)]
    drawn = []
    for name in ("confusion.svg", "again.svg"):
        save(Plot(lambda sink: made).confusion(), tmp_path / name, "path")
        drawn.append((tmp_path / name).read_text())
    assert "<b>" not in drawn[0]
    assert all(text in drawn[0] for text in ("&lt;b&gt;&amp;", ">$x$<", "activity number 28"))
    assert drawn[0] == drawn[1]
