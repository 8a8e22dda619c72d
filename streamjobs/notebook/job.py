"""A job in Python: the worker's own core over a table, and tables out of it."""

import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjobs import job_files
from streamjobs.core.live.stored import load_snapshot
from streamjobs.core.messages import Output, Stored
from streamjobs.errors import ConfigError
from streamjobs.notebook.plots import Plot
from streamjobs.notebook.prototypes import Prototypes, prototypes
from streamjobs.notebook.tables import rows_of_lines, rows_of_table, to_dataframe, uncollected, with_index, with_times
from streamjobs.own_learners import load_own_learners
from streamjobs.recordings.files import records_of, records_of_rows
from streamjobs.recordings.tables import How
from streamjobs.replay.engine import Replay
from streamjobs.replay.first_rows import learner_rows
from streamjobs.replay.lines import line_of
from streamjobs.replay.scoring import Scored
from streamjobs.replay.summary import Figures
from streamjobs.replay.warm_up import cannot_alarm_yet
from streamjobs.settings.composition import Composition, composition_of
from streamjobs.settings.load import composition_from
from streamjobs.settings.sections import SINKS, Settings
from streamjobs.settings.times import zone_of
from streamjobs.settings.types import many, toml

if TYPE_CHECKING:
    import pandas

_States = Callable[[str, bytes], list[Prototypes]]


class ReplayWarning(UserWarning):
    """The result of a replay should not be trusted; the text says why."""


class Replayed:
    """The results of a replay. Each table is made when it is read.

    Features, predictions and drift have a row for each row of the learner (a window, or a sample without windows). `row`
    is the position, from 0, of the input row that caused the output.
    """

    def __init__(
        self,
        settings: Settings,
        lines: Mapping[str, list[bytes]],
        summary: dict[str, Any],
        snapshots: Any,
        states: "_States",
    ) -> None:
        self._topic = settings.source.topic
        self._lines, self._snapshots, self._states = lines, snapshots, states
        self.summary = summary  # as `streamjobs replay --json` prints it

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(lines):,} {sink}" for sink, lines in self._lines.items())
        return f"<Replayed: {many(self.summary['records'], 'record')} of {many(self.summary['keys'], 'key')}; {counts}>"

    def lines(self, sink: str) -> list[bytes]:
        """Outputs as `streamjobs replay --output-dir` writes them, a JSON line each.

        sink: a name of [sinks], such as predictions. Raises ConfigError for an output that the job does not have.
        """
        if sink not in self._lines:
            raise ConfigError(f"this job has no {sink!r} to show; it has {', '.join(self._lines)}.")
        return list(self._lines[sink])

    def rows(self, sink: str) -> list[dict[str, Any]]:
        """Outputs as dicts; raises as `lines` does."""
        with uncollected():
            return list(rows_of_lines(sink, self.lines(sink), self._topic))

    def _table(self, sink: str) -> "pandas.DataFrame":
        return to_dataframe(sink, rows_of_lines(sink, self.lines(sink), self._topic))

    @property
    def features(self) -> "pandas.DataFrame":
        """Features z_0, z_1, .. (before x is learned) and ls_error of every row; needs pandas."""
        return self._table("features")

    @property
    def predictions(self) -> "pandas.DataFrame":
        """Prediction (before the label is learned), its score and the label of every row; needs pandas.

        They are predicted_class and true_class, predicted_value and true_value, or predicted_values and true_values.
        """
        return self._table("predictions")

    @property
    def drift(self) -> "pandas.DataFrame":
        """The detector's report on every row; needs pandas."""
        return self._table("drift")

    @property
    def alarms(self) -> "pandas.DataFrame":
        """With [drift] false_alarms or [alarms]: a row when an alarm is raised, and a row when it ends; needs pandas."""
        return self._table("alarms")

    @property
    def bouts(self) -> "pandas.DataFrame":
        """With [bouts]: each row is an activity of a key from its start to its end; needs pandas."""
        return self._table("bouts")

    @property
    def forecasts(self) -> "pandas.DataFrame":
        """With [forecast]: each row is the forecast of a column, `ahead` rows ahead; needs pandas.

        value: the forecast for the row at due_ts. naive: the column's value in this row. ratio: mean error over that of
        naive. due: the forecast for this row, made `ahead` rows ago. low_80, high_80: for each [forecast] coverage.
        """
        return self._table("forecasts")

    @property
    def dead_letters(self) -> "pandas.DataFrame":
        """Rows that could not be used: key, row, timestamp, reason, message, and the record's value; needs pandas."""
        return self._table("dlq")

    @property
    def plot(self) -> Plot:
        """Pictures: `plot.features()`, `ls_error()`, `drift()`, `confusion()`, `forecast()` and `prototypes(key)`; needs
        matplotlib."""
        return Plot(self.rows, self.prototypes)

    def prototypes(self, key: str) -> list[Prototypes]:
        """The samples that a key's learner keeps, one set for each part of the learner that stores some.

        The key's rows are replayed again. Raises ConfigError for a key without rows, or a learner that stores no samples.
        """
        data = self._snapshots.get(key.encode())
        if data is None:
            raise ConfigError(f"prototypes: expected a key of the replay; got {key!r}.")
        return self._states(key, data)

    def snapshots(self) -> dict[bytes, bytes]:
        """The final state of every key, as a worker's changelog would have it."""
        return dict(self._snapshots)


class Job:
    """A job file, or its sections as a dict, to replay tables through.

    job: path of a TOML file, or its sections as a mapping or as `Settings`. Settings of a file may come from the
    environment, as for the worker. A mapping needs no [source] topic.
    Raises ConfigError with every mistake, one sentence each.

    >>> job = Job({"source": {"fields": ["x"]}, "learner": {"name": "rls", "task": "regression"}})
    >>> job
    Job(rls on ['x'])
    """

    def __init__(self, job: "Path | str | Mapping[str, Any] | Settings") -> None:
        load_own_learners()
        self._sections = copy.deepcopy(job) if isinstance(job, Mapping) else None
        if isinstance(job, Mapping):
            self.origin, composition = "job", composition_from(_with_topic(job), origin="job")
        elif isinstance(job, Settings):
            self.origin, composition = "settings", composition_of(job)
        else:
            self.origin, composition = str(job), job_files.read_job(job)
        self._last: Replayed | None = None
        self._job = job_files.job_from(_with_all_tables(composition), self.origin)

    def __repr__(self) -> str:
        source = self._job.settings.source
        return f"Job({self._job.model} on {source.fields or source.x!r})"

    def replay(self, data: Any, key: str | None = None, *, key_is: str | None = None, time: str | None = None) -> Replayed:
        """Run the rows of a table through the job, in their order. Each key starts over.

        The results equal those of a worker and of `streamjobs replay` bit for bit, because each row is encoded in the
        job's format and decoded as a record.

        data: a DataFrame, a mapping of columns to arrays (n,), rows as dicts, or the path of a recording.
        key: column with the key of each row; by default [source] key. key_is: one key for all rows, instead.
        time: column with the records' timestamps; by default [source] time, or the times in the index of a DataFrame.
        Without any, rows come at [window] rate.
        Raises ConfigError if a column is missing. Warns if nothing, or little, was learned.
        """
        source = self._job.settings.source
        for name, column in (("key", key), ("key_is", key_is), ("time", time)):
            if column is not None and not isinstance(column, str):
                raise ConfigError(f"replay: expected a text as {name}; got {type(column).__name__}.")
        if key is None and key_is is None and source.key is None and not isinstance(data, (str, Path)):
            raise ConfigError(
                "replay needs key, the name of the column with the key (a person, a device), or key_is, the only key."
            )
        if key is not None and key_is is not None:
            raise ConfigError("replay takes key or key_is, not both.")
        data, times = with_index(data, source.time or "time")
        time = times if time is None and source.time is None else time
        lines: dict[str, list[bytes]] = {sink: [] for sink in SINKS if sink in self._job.sinks}
        self._job.compile()
        run = Replay(self._job)
        figures, late = Figures(run), Scored(run)

        def take(output: Output) -> None:
            lines[output.sink].append(line_of(output))
            figures.take(output)
            if late.is_late:
                late.take(output)

        run.run(self._records(data, key, key_is, time), take, lambda tally: None)
        summary = figures.summary() | late.figures()
        for sentence in _to_warn(figures, summary):
            warnings.warn(sentence, ReplayWarning, stacklevel=2)
        snapshots = {place[2]: snapshot for place, snapshot in run.snapshots()}

        def states(one: str, snapshot: bytes) -> list[Prototypes]:
            records = (record for record in self._records(data, key, key_is, time) if record.key == one.encode())
            return prototypes(self._job, load_snapshot(self._job, snapshot)[0], learner_rows(self._job, records))

        self._last = Replayed(self._job.settings, lines, summary, snapshots, states)
        return self._last

    def toml(self) -> str:
        """The sections as the text of a job file, for 'streamjobs check', 'replay' and 'run'.

        Raises ConfigError for a job without [source] topic, and for a job that was not made from sections.
        """
        if self._sections is None:
            raise ConfigError(f"{self.origin}: toml() needs a job that was made from a dict with its sections.")
        if "topic" not in self._sections["source"]:
            raise ConfigError("job [source]: a job file needs topic, the Kafka topic that the worker reads.")
        return toml(self._sections) + "\n"

    @property
    def plot(self) -> Plot:
        """Pictures of the last replay. Raises ConfigError before the first one."""
        if self._last is None:
            raise ConfigError("nothing to draw yet; call replay first.")
        return self._last.plot

    def _records(self, data: Any, key: str | None, key_is: str | None, time: str | None) -> Iterator[Stored]:
        settings = self._job.settings
        how = How(key_is=key_is, rate=None if settings.window is None else settings.window.rate)
        if isinstance(data, (str, Path)):
            return records_of(Path(data), settings.source, key, time, settings.side, how=how)
        rows, source = rows_of_table(data), settings.source
        if source.time is not None and source.time_format is not None:
            zone = None if source.time_zone is None else zone_of(source.time_zone)
            rows = with_times(rows, source.time, zone, source.time_format)
        return records_of_rows(rows, source, key, time, settings.side, dataclasses.replace(how, tell=_warn))


def _warn(where: str, text: str) -> None:
    warnings.warn(f"{where}: {text}", ReplayWarning, stacklevel=6)


def _to_warn(figures: Figures, summary: dict[str, Any]) -> Iterator[str]:
    if not summary["records"]:
        yield "nothing was learned: the table has no rows."
    elif nothing := figures.nothing_learned():
        yield nothing
    else:
        yield from figures.cautions(summary)
        if figures.errors and not figures.tally.mostly_dead:
            dead = figures.tally.dead_lettered.total()
            yield f"{dead:,} of {summary['records']:,} records became dead letters. The first: {figures.errors[0]}"
        if "alarms" in summary and summary["alarms"]["keys_warming_up"]:
            yield f"{cannot_alarm_yet(summary)}."


def _with_all_tables(composition: Composition) -> Composition:
    """The job with every topic on that it can fill: in Python nothing is sent, and what is not asked for costs little."""
    gives_features = composition.learner.kind == "features" or composition.settings.head is not None
    possible = {"features": gives_features, "predictions": composition.predicts, "drift": bool(composition.watches)}
    topics = {sink: f"{composition.settings.source.topic}.{sink}" for sink, on in possible.items() if on}
    return composition._replace(sinks=topics | composition.sinks)


def _with_topic(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """A replay reads no topic, but its ids and outputs contain the name of one."""
    source = job.get("source")
    return {**job, "source": {"topic": "job", **source}} if isinstance(source, Mapping) else job
