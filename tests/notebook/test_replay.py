"""`Job.replay` of tables gives the bits of a worker's core and of `streamjobs replay`, in every format and policy."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas
import pyarrow
import pytest

from streamjobs import Job
from streamjobs.errors import ConfigError
from streamjobs.job_files import core_from, read_job
from streamjobs.notebook.job import Replayed, ReplayWarning
from streamjobs.notebook.tables import rows_of_table
from streamjobs.recordings.files import records_of
from streamjobs.replay.lines import line_of
from tests.commands.jobs import JOB, as_csv, as_parquet, command, job_file, jsonl, rows

FORMATS = ("json", "raw")
GAPS = {7: "ax", 8: "ay", 30: "az", 31: "az", 200: "ax", 201: "ay"}  # row -> the column that is missing there


def text_of(*, format: str = "json", missing: str = "dlq") -> str:
    """A raw record has no time and no label of its own, and no place for a number that is missing."""
    text = JOB.replace("[window]", f'format = "{format}"\nmissing = "{missing}"\n[window]')
    if format == "raw":
        text = text.replace('time = "ts"\nlabel = "activity"\n', "").replace('[head]\nname = "rls"\n', "")
    return text


def table(*, gaps: bool = False, n: int = 600) -> list[dict[str, Any]]:
    made = list(rows(n))
    for row, column in GAPS.items() if gaps else ():
        made[row][column] = None
    return made


def of_the_command(job: Path, recording: Path, folder: Path, *options: str) -> dict[str, list[bytes]]:
    done = command("replay", job, "--input", recording, "--key", "person", "--output-dir", folder, *options)
    assert done == 0
    return {path.stem: path.read_bytes().splitlines() for path in folder.glob("*.jsonl")}


def same(replayed: Replayed, expected: dict[str, list[bytes]]) -> None:
    assert sum(map(len, expected.values())) > 100
    for sink, lines in expected.items():
        assert replayed.lines(sink) == lines, sink


@pytest.mark.parametrize(("format", "missing"), [("json", "hold"), ("msgpack", "dlq"), ("raw", "mean")])
def test_a_dataframe_gives_the_bits_of_the_replay_command(tmp_path: Path, format: str, missing: str) -> None:
    """All formats and policies: `test_formats`."""
    job = job_file(tmp_path, text_of(format=format, missing=missing))
    made = table(gaps=True)
    expected = of_the_command(job, as_parquet(tmp_path / "rows.parquet", made), tmp_path / "out", *_time(format))
    replayed = Job(job).replay(pandas.DataFrame(made), key="person", time=next(iter(_time(format)[1:]), None))
    same(replayed, expected)
    if missing == "dlq":
        assert len(replayed.lines("dlq")) == len(GAPS)
    elif missing != "skip":
        assert replayed.summary["numbers_filled"] > 0


def _time(format: str) -> tuple[str, ...]:
    return ("--time", "ts") if format == "raw" else ()


@pytest.mark.parametrize("format", FORMATS)
def test_a_dataframe_gives_the_bits_of_the_workers_core_in_batches_of_any_size(tmp_path: Path, format: str) -> None:
    job = job_file(tmp_path, text_of(format=format))
    composition, made = read_job(job), table()
    core = core_from(composition)
    live = core.make_live(core.job, lambda keys: [None] * len(keys), 1 << 26)
    recording = jsonl(tmp_path / "rows.jsonl", made)
    records = list(records_of(recording, composition.settings.source, "person", next(iter(_time(format)[1:]), None)))
    lines: dict[str, list[bytes]] = {sink: [] for sink in core.job.sinks}
    random = np.random.default_rng(3)
    while records:
        size = int(random.integers(1, 40))
        outputs, _ = core.advance(core.job, live, records[:size])
        del records[:size]
        for output in outputs:
            lines[output.sink].append(line_of(output))
    frame = pandas.DataFrame(made)
    replayed = Job(job).replay(frame, key="person", time=next(iter(_time(format)[1:]), None))
    same_by_key(replayed, lines)


def same_by_key(replayed: Replayed, lines: dict[str, list[bytes]]) -> None:
    """Rows of a batch leave sink by sink, and keys may be interleaved differently."""
    for sink, expected in lines.items():
        assert _by_key(replayed.lines(sink)) == _by_key(expected), sink
    assert replayed.lines("features")


ALARMS = """
[source]
topic = "in"
fields = ["temp"]

[learner]
name = "okfeb"

[drift]
watch = ["columns", "rows"]
false_alarms = "1 per 10000 rows"
"""


def _by_key(lines: list[bytes]) -> dict[str, list[bytes]]:
    keys: dict[str, list[bytes]] = {}
    for line in lines:
        keys.setdefault(msgspec.json.decode(line)["key"], []).append(line)
    return keys


def _columns(made: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.array([row[name] for row in made]) for name in made[0]}


KINDS: dict[str, Callable[[list[Any]], Any]] = {
    "columns": _columns,
    "rows": list,
    "iterator": iter,
    "arrow": pyarrow.Table.from_pylist,
    "structured": lambda made: pandas.DataFrame(made).to_records(index=False),
    "csv": lambda made: pandas.read_csv(as_csv(Path(made.pop()), made)),  # the last one is the path
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_bits(tmp_path: Path, kind: str) -> None:
    job, made = Job(job_file(tmp_path)), table(n=300)
    expected = job.replay(pandas.DataFrame(made), key="person")
    given = KINDS[kind]([*made, tmp_path / "rows.csv"] if kind == "csv" else made)
    same(job.replay(given, key="person"), {sink: expected.lines(sink) for sink in ("features", "predictions", "drift")})


def test_dates_missing_values_and_small_floats_are_taken_as_they_are(tmp_path: Path) -> None:
    made = table(n=300)
    frame = pandas.DataFrame(made)
    frame["ts"] = pandas.to_datetime(frame["ts"], unit="s", utc=True)
    frame["activity"] = frame["activity"].astype("category")
    frame.loc[10, "activity"] = None
    frame.loc[20, "ay"] = np.nan
    frame["az"] = frame["az"].astype(np.float32)
    replayed = Job(job_file(tmp_path)).replay(frame, key="person")
    for n, row in enumerate(made):
        row["az"] = float(np.float32(row["az"]))
        row["activity"] = None if n == 10 else row["activity"]
        row["ay"] = None if n == 20 else row["ay"]
    expected = Job(job_file(tmp_path)).replay(made, key="person")
    assert list(replayed.dead_letters["row"]) == [20]
    same(replayed, {sink: expected.lines(sink) for sink in ("features", "predictions", "drift")})


def test_tables_have_numbers_times_and_the_rows_they_came_from(tmp_path: Path) -> None:
    made = table(n=300)
    replayed = Job(job_file(tmp_path)).replay(pandas.DataFrame(made), key="person")
    features, predictions = replayed.features, replayed.predictions
    assert [name for name in features if name.startswith("z_")] == ["z_0", "z_1", "z_2"]
    assert features.filter(regex="z_|ls_error").dtypes.eq(float).all()
    assert (predictions["time"].dt.tz.utcoffset(None).total_seconds(), predictions["score"].dtype) == (0.0, float)
    assert [made[row]["person"] for row in features["row"]] == features["key"].tolist()
    assert replayed.summary["samples"] == len(made)
    assert repr(replayed).startswith(f"<Replayed: {len(made):,} records of ")
    assert features["z_0"].tolist()[-1] == json.loads(replayed.lines("features")[-1])["value"]["z"][0]
    assert list(replayed.dead_letters.columns) == ["key", "row", "timestamp", "reason", "message", "value"]
    assert len(replayed.dead_letters) == 0 and sorted(replayed.snapshots()) == [b"p0", b"p1", b"p2"]


def test_a_table_that_is_off_for_the_worker_is_on_in_python(tmp_path: Path) -> None:
    job = Job(job_file(tmp_path, JOB.replace('"imu.features"', '""')))
    assert len(job.replay(table(), key="person").lines("features")) > 100


@pytest.mark.parametrize(
    ("data", "key", "sentence"),
    [
        (table(n=3), None, "replay needs key, the name of the column with the key (a person, a device), or key_is"),
        (table(n=3), "who", "the table: no column 'who' for the key; the table has 'person', 'ts', 'ax', 'ay', 'az', "),
        (42, "person", "expected a DataFrame, a mapping of column names to arrays, or rows as dicts; got int."),
        (
            np.zeros((3, 2)),
            "person",
            "expected a DataFrame, a mapping of column names to arrays, or rows as dicts; got ndarray",
        ),
        ([1, 2], "person", "row 0: expected a DataFrame, a mapping of column names to arrays, or rows as dicts; got int."),
        ({"person": "a", "ts": 1.0}, "person", "column 'person': expected an array with a cell for each row; got str."),
        ({"person": ["a"], "ts": [1.0, 2.0]}, "person", "expected columns of one length; got 'person' 1, 'ts' 2."),
    ],
)
def test_what_is_no_table_is_one_sentence(tmp_path: Path, data: Any, key: str | None, sentence: str) -> None:
    with pytest.raises(ConfigError) as told:
        Job(job_file(tmp_path)).replay(data, key=key)
    assert str(told.value).startswith(sentence)


def test_a_column_in_place_of_its_name_is_one_sentence(tmp_path: Path) -> None:
    made = pandas.DataFrame(table(n=3))
    with pytest.raises(ConfigError, match="replay: expected a text as key; got Series"):
        Job(job_file(tmp_path)).replay(made, made["person"])  # type: ignore[arg-type]


def test_sections_become_a_job_file_for_a_worker(tmp_path: Path) -> None:
    sections = tomllib.loads(JOB)
    written = Job(job_file(tmp_path, Job(sections).toml()))
    assert written.replay(table(), key="person").snapshots() == Job(sections).replay(table(), key="person").snapshots()
    del sections["source"]["topic"]
    with pytest.raises(ConfigError, match="needs topic"):
        Job(sections).toml()
    with pytest.raises(ConfigError, match="made from a dict"):
        written.toml()


def test_a_job_file_has_the_sections_as_they_were_with_numbers_of_numpy() -> None:
    learner = {"name": "okfeb", "rank": 5, "budget": 20, "step_size": np.float64(0.5)}
    sections = {"source": {"topic": "t", "fields": ["a"], "label": "a\x7fb"}, "learner": learner}
    job = Job(sections)
    learner["rank"] = 6  # for the next job of a loop
    read = tomllib.loads(job.toml())
    assert read == {**sections, "learner": {"name": "okfeb", "rank": 5, "budget": 20, "step_size": 0.5}}


def test_nothing_learned_is_a_warning_that_names_the_reason(tmp_path: Path) -> None:
    made = [row | {"ts": "yesterday"} for row in table(n=30)]
    with pytest.warns(ReplayWarning, match="nothing was learned"):
        replayed = Job(job_file(tmp_path)).replay(made, key="person")
    assert set(replayed.dead_letters["reason"]) == {"bad_time"}


def test_a_few_dead_letters_are_a_warning_with_their_number(tmp_path: Path) -> None:
    made = table(n=60)
    made[7] |= {"person": None}
    with pytest.warns(ReplayWarning, match="1 of 60 records became dead letters. The first: .* expected a key, got none"):
        Job(job_file(tmp_path)).replay(made, key="person")


def test_a_table_without_labels_is_a_warning_for_a_job_that_predicts(tmp_path: Path) -> None:
    made = [{name: value for name, value in row.items() if name != "activity"} for row in table()]
    with pytest.warns(ReplayWarning, match=r"no record has a label in 'activity', so no key learned to predict; check"):
        Job(job_file(tmp_path)).replay(made, key="person")
    raw = JOB.replace('time = "ts"\nlabel = "activity"\n', 'format = "raw"\n')
    with pytest.warns(ReplayWarning, match="no record has a label in 'streamjobs-label', so .* check this header"):
        Job(job_file(tmp_path, raw)).replay(made, key="person", time="ts")


def test_a_table_without_rows_is_a_warning(tmp_path: Path) -> None:
    with pytest.warns(ReplayWarning, match="the table has no rows"):
        Job(job_file(tmp_path)).replay(pandas.DataFrame(table(n=3)).iloc[:0], key="person")


def test_alarms_have_the_figures_of_the_command_and_a_warning_while_no_key_can_alarm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.toml"
    path.write_text(ALARMS, encoding="utf-8")
    temperatures = pandas.Series(np.random.default_rng(0).normal(20, 1, 60), name="temp")
    with pytest.warns(ReplayWarning, match="1 of 1 key cannot alarm yet: .* from at least [0-9,]+ rows; a key has 60 rows"):
        summary = Job(path).replay(temperatures, key_is="p").summary
    assert summary["alarms"]["keys_warming_up"] == 1
    temperatures.to_csv(tmp_path / "rows.csv", index=False)
    command("replay", str(path), "--input", str(tmp_path / "rows.csv"), "--key-is", "p", "--json")
    timed = {"seconds", "samples_per_second"}
    printed = json.loads(capsys.readouterr().out)
    assert {name: printed[name] for name in printed.keys() - timed} == {
        name: summary[name] for name in summary.keys() - timed
    }


def test_importing_the_package_loads_nothing(tmp_path: Path) -> None:
    program = "import sys, streamjobs; print(sorted({'numpy', 'numba', 'pandas', 'streamjobs.core'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[]"


def test_columns_of_several_levels_are_named_by_all(tmp_path: Path) -> None:
    job = Job({"source": {"topic": "in", "fields": ["oven 1 top", "door"]}, "forecast": {}})
    rows, at = np.random.default_rng(0).normal(size=(60, 2)), pandas.date_range("2026-01-01", periods=60, freq="s", tz="UTC")
    expected = job.replay(pandas.DataFrame(rows, at, columns=["oven 1 top", "door"]), key_is="p").lines("forecasts")
    for names in ([("oven 1", "top"), ("door", "")], [("oven 1", "top"), ("door", None)], [("oven 1 top",), ("door",)]):
        levels = pandas.MultiIndex.from_tuples(names)
        assert job.replay(pandas.DataFrame(rows, at, columns=levels), key_is="p").lines("forecasts") == expected != []
    for clash in (pandas.DataFrame([[0.0, 0.5]], columns=[1, "1"]), {1: [0.0], "1": [0.5]}):
        with pytest.raises(ConfigError, match="column '1' appears twice"):
            list(rows_of_table(clash))


@pytest.mark.parametrize("form", ["%d.%m.%Y %H:%M:%S.%f", "excel"])
def test_dates_of_a_table_are_read_by_a_job_whose_records_write_them_otherwise(tmp_path: Path, form: str) -> None:
    one = pandas.DataFrame([row for row in table() if row["person"] == "p1"])
    expected = len(Job(job_file(tmp_path, JOB)).replay(one, key="person").lines("predictions"))
    other = JOB.replace('time = "ts"', f'time = "ts"\ntime_format = "{form}"\ntime_zone = "Europe/Berlin"')
    dated = one.assign(ts=pandas.to_datetime(one["ts"], unit="s", utc=True))
    assert len(Job(job_file(tmp_path, other)).replay(dated, key="person").lines("predictions")) == expected > 20


def test_a_table_of_one_key_needs_no_column_and_its_index_may_have_the_times(tmp_path: Path) -> None:
    one = pandas.DataFrame([row for row in table() if row["person"] == "p1"])
    job = Job(job_file(tmp_path, JOB))
    expected = job.replay(one, key="person").lines("predictions")
    assert len(expected) > 20
    without = one.drop(columns="person")
    assert job.replay(without, key_is="p1").lines("predictions") == expected
    times = pandas.DatetimeIndex(pandas.to_datetime(one["ts"], unit="s", utc=True))
    indexed = without.drop(columns="ts").set_index(times.rename(None))
    found = [json.loads(line)["value"] for line in job.replay(indexed, key_is="p1").lines("predictions")]
    assert [row["ts"] for row in found] == pytest.approx([json.loads(line)["value"]["ts"] for line in expected], abs=1e-5)
    levels = one.drop(columns=["ts", "person"]).set_index([pandas.Index(one["person"]), times.rename("ts")])
    assert len(job.replay(levels, key="person").lines("predictions")) == len(expected)
    with pytest.raises(ConfigError, match="key or key_is, not both"):
        job.replay(one, key="person", key_is="p1")


@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA])
def test_a_missing_key_is_no_key(tmp_path: Path, missing: object) -> None:
    """Rows of people without a name would else teach one model called `nan`."""
    data = pandas.DataFrame(table())
    data["person"] = data["person"].astype(object).where(data.index % 7 > 0, missing)
    replayed = Job(job_file(tmp_path, text_of())).replay(data, key="person")
    assert replayed.dead_letters["reason"].tolist() == ["no_key"] * len(data[data.index % 7 == 0])


def test_windows_of_rows_without_times_come_at_the_rate_of_the_window(tmp_path: Path) -> None:
    one = [row | {"ts": n / 10} for n, row in enumerate(row for row in table() if row["person"] == "p1")]
    job = Job(job_file(tmp_path, JOB.replace('time = "ts"\n', "")))
    without = pandas.DataFrame(one).drop(columns="ts")
    found = [json.loads(line)["value"]["ts"] for line in job.replay(without, key="person").lines("predictions")]
    timed = [json.loads(line)["value"]["ts"] for line in job.replay(one, key="person", time="ts").lines("predictions")]
    assert len(found) > 20 and found == pytest.approx(timed, abs=0.0011), "a first record at 0 has 1 ms, as in a topic"


@pytest.mark.parametrize("name", [None, "ts"])
def test_periods_are_read_as_their_starts_and_durations_are_refused_with_what_to_do(
    tmp_path: Path, name: str | None
) -> None:
    one = pandas.DataFrame([row for row in table() if row["person"] == "p1"]).drop(columns=["person", "ts"])
    sections = tomllib.loads(JOB)
    sections["source"] |= {"time_zone": "UTC"}
    job = Job(sections)
    days = pandas.period_range("2026-01-01", periods=len(one), freq="20ms", name=name)
    expected = job.replay(one.set_index(days.to_timestamp()), key_is="p1").lines("predictions")
    assert len(expected) > 5
    assert job.replay(one.set_index(days), key_is="p1").lines("predictions") == expected
    assert job.replay(one.assign(ts=days), key_is="p1").lines("predictions") == expected
    lasting = days.to_timestamp() - days.to_timestamp()[0]
    wrong = [one.set_index(lasting), one.assign(ts=lasting), pyarrow.Table.from_pandas(one.assign(ts=lasting))]
    for durations in wrong:
        with pytest.raises(ConfigError, match=r"column '(ts|time)' has durations; add the time of their start"):
            job.replay(durations, key_is="p1")


def test_a_lazy_frame_is_refused_with_what_to_do(tmp_path: Path) -> None:
    class LazyFrame:
        columns = ("person", "ts")

        def collect(self) -> None: ...
        def __getitem__(self, name: str) -> None:
            raise TypeError

    with pytest.raises(ConfigError, match=r"got LazyFrame, which has no rows yet: call its collect\(\)"):
        Job(job_file(tmp_path)).replay(LazyFrame(), key="person")


def test_keys_that_are_whole_numbers_as_floats_are_named(tmp_path: Path) -> None:
    """pandas has integers so next to a missing one. The keys stay as they are, because states have them."""
    made = pandas.DataFrame(table()).assign(person=7)
    made.loc[300, "person"] = np.nan
    with pytest.warns(ReplayWarning, match="the table: 'person' has whole numbers as floats, so keys are such as 7.0"):
        found = Job(job_file(tmp_path)).replay(made, key="person")
    assert {row["key"] for row in found.rows("predictions")} == {"7.0"}
