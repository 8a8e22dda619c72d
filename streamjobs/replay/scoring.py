"""A job's rows over recordings, each predicted before its label is learned, with their errors and those of controls."""

import bisect
import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from streamjobs.core.decoding.labels import class_name, number_code
from streamjobs.core.decoding.time_units import job_decoder
from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Stored
from streamjobs.errors import ConfigError, RecordError
from streamjobs.replay.controls import Known
from streamjobs.replay.engine import Replay, Tally
from streamjobs.settings.composition import Composition
from streamjobs.stages.event_time import CLOSE

AT_ONCE = 2000  # records that are decoded together for late labels


class Row(NamedTuple):
    key: str
    time: float
    said: Any
    label: Any  # None: the row has none
    known: float | None = None  # time at which a label in a record of its own came; None: it came with the row


def wrong(rows: Sequence[Row]) -> int:
    return sum(bool(row.said != row.label) for row in rows)


class Errors(NamedTuple):
    """Share of wrong classes, or root mean square error, over the rows with a label; None without any."""

    first: float | None
    rest: float | None


def require_labels(job: Composition, command: str) -> None:
    """Raises ConfigError for a job without labels to score its predictions by."""
    if not job.predicts or job.settings.source.label is None:
        raise ConfigError(
            f"{command} needs labels to score by; set [source] label, and a [head] or a learner that predicts."
        )


def predicted(
    job: Job, records: Sequence[Stored], progress: Callable[[Tally], None] = lambda tally: None
) -> tuple[list[Row], Replay]:
    """Every row of the recordings, and the replay with the final states."""
    replay, scored = Replay(job), Scored(job)
    replay.run(scored.passing(records), scored.take, progress)
    return scored.finish(), replay


class Scored:
    """Collects the rows of a replay, and labels in records of their own."""

    def __init__(self, job: Job) -> None:
        labels, there = job.settings.labels, job.composition.predicts and "predictions" in job.sinks
        # Whether labels are known after their rows: numbers before the first label are predicted as 0.
        self.is_late = bool(labels.wait or labels.delay) and there
        self.job, self.rows = job, list[Row]()
        self.late = _LateLabels(job) if labels.wait and there else None
        self.answer = "class" if job.task == "classification" else "value" if job.composition.targets == 1 else "values"

    def passing(self, records: Iterable[Stored]) -> Iterator[Stored]:
        for record in records:
            if self.late is not None:
                self.late.add(record)
            yield record

    def take(self, output: Output) -> None:
        if output.sink == "predictions" and output.value is not None:
            row = msgspec.json.decode(output.value)
            self.rows.append(Row(row["key"], row["ts"], row[f"predicted_{self.answer}"], row[f"true_{self.answer}"]))

    def finish(self) -> list[Row]:
        return self.rows if self.late is None else self.late.put_into(self.rows)

    def figures(self) -> dict[str, Any]:
        """Errors and controls for the summary of a replay, empty where labels come in time: both over the same labels."""
        if not self.is_late:
            return {}
        rows, task, delay = self.finish(), self.job.task, self.job.settings.labels.delay
        labelled = [row for row in rows if row.label is not None]
        last, most = ([one for one in said if one.label is not None] for said in controls(task, rows, delay).values())
        judged = [(own, *others) for own, *others in zip(labelled, last, most, strict=True) if others[0].said is not None]
        found: dict[str, Any] = {"labels": len(labelled), "controls": {"judged": len(judged)} if judged else None}
        own, last, most = map(list, zip(*judged, strict=True)) if judged else ([], [], [])
        if task == "regression":
            found |= {"rmse": error(task, own), "measured": len(own)}
            return found | ({"controls": {"judged": len(own), "rmse_last_label": error(task, last)}} if judged else {})
        there = [row for row in labelled if row.said is not None]
        found |= {"wrong": wrong(there), "unpredicted": len(labelled) - len(there)}
        without = {"judged": len(own), "wrong_last_label": wrong(last), "wrong_majority": wrong(most)}
        return found | ({"controls": without} if judged else {})


class _Late(NamedTuple):
    """A label in a record of its own."""

    key: str
    time: float
    label: Any
    known: float  # newest time of the key when it came


class _LateLabels:
    """Collects the labels in records of their own from all records, which are not kept."""

    def __init__(self, job: Job) -> None:
        self.job, self.found, self._records, self._newest = job, list[_Late](), list[Stored](), dict[bytes, float]()
        self._decode = job_decoder(job.composition, job.settings.source)

    def add(self, record: Stored) -> None:
        self._records.append(record)
        if len(self._records) == AT_ONCE:
            self._decoded()

    def _decoded(self) -> None:
        decoded, newest = self._decode(self._records), self._newest
        alone = decoded.alone if decoded.alone is not None else [False] * len(decoded.labels)
        for owner, time, label, is_late in zip(decoded.owner, decoded.times.tolist(), decoded.labels, alone, strict=True):
            key = self._records[owner].key or b""
            if not is_late:
                newest[key] = max(newest.get(key, time), time)
                continue
            with contextlib.suppress(RecordError):  # a dead letter
                label = self._label(label)
                self.found.append(_Late(key.decode("utf-8", "backslashreplace"), time, label, newest.get(key, time)))
        self._records.clear()

    def _label(self, label: Any) -> Any:
        if self.job.task == "classification":
            return class_name(label)
        number_code(label, self.job.label_width)
        return label

    def put_into(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with these labels: each is that of the nearest row in time."""
        if self._records:
            self._decoded()
        assert self.job.steps.waiting is not None
        within, wait, of_key = (
            self.job.steps.waiting.within,
            self.job.settings.labels.wait,
            defaultdict[str, list[int]](list),
        )
        for number, row in enumerate(rows):
            of_key[row.key].append(number)
        labelled = list(rows)
        for key, time, label, now in self.found:
            own = of_key[key]
            at = bisect.bisect_left(own, time - within, key=lambda number: rows[number].time)
            near = [number for number in own[at : at + 2] if abs(rows[number].time - time) <= within + CLOSE]
            if near and now - time <= wait:
                nearest = min(near, key=lambda number: abs(rows[number].time - time))
                labelled[nearest] = labelled[nearest]._replace(label=label, known=now)
        return labelled


def errors_of(task: str, rows: Sequence[Row], share: float, delay: float) -> Errors:
    """share: of each key's labelled rows the first part; delay: seconds until a label is known."""
    first, rest = parts(judged(task, rows, delay), share)
    return Errors(error(task, first), error(task, rest))


def judged(task: str, rows: Sequence[Row], delay: float) -> list[Row]:
    """The rows with a label; a number that is not predicted is the mean of the key's known labels, or 0."""
    if task == "regression" and any(row.said is None for row in rows):
        rows = [row if row.said is not None else row._replace(said=mean) for row, (_, mean) in known(rows, delay)]
    return [row for row in rows if row.label is not None]


def baselines(task: str, rows: Sequence[Row], share: float, delay: float) -> dict[str, Errors]:
    """Errors of predictions without a model on the same rows."""
    return {name: errors_of(task, said, share, delay) for name, said in controls(task, rows, delay).items()}


def controls(task: str, rows: Sequence[Row], delay: float) -> dict[str, list[Row]]:
    """The rows with what the simplest rules say of them."""
    pairs = list(known(rows, delay))
    most = "mean of the labels so far" if task == "regression" else "most frequent label so far"
    return {
        "last label": [row._replace(said=last) for row, (last, _) in pairs],
        most: [row._replace(said=mean) for row, (_, mean) in pairs],
    }


def known(rows: Sequence[Row], delay: float) -> list[tuple[Row, tuple[Any, Any]]]:
    """Each row with the last label, and the most frequent one (of numbers the mean), that was known before it."""
    keys: dict[str, Known] = defaultdict(Known)
    found = []
    for row in rows:
        key = keys[row.key]
        found.append((row, (key.last, key.most)))
        if row.label is not None:
            bisect.insort(key.waiting, (row.known or row.time, row.label), key=lambda one: one[0])
        key.learn(row.time - delay)
    return found


def parts(rows: Sequence[Row], share: float) -> tuple[list[Row], list[Row]]:
    """The first rows of each key, and the rest."""
    count: dict[str, int] = {}
    for row in rows:
        count[row.key] = count.get(row.key, 0) + 1
    at: dict[str, int] = {}
    first: list[Row] = []
    rest: list[Row] = []
    for row in rows:
        number = at[row.key] = at.get(row.key, 0) + 1
        (first if number <= share * count[row.key] else rest).append(row)
    return first, rest


def error(task: str, rows: Sequence[Row]) -> float | None:
    """A row without a prediction is wrong."""
    if not rows:
        return None
    if task == "classification":
        return wrong(rows) / len(rows)
    squares = []
    for row in rows:
        label = _numbers(row.label)
        said = [0.0] * len(label) if row.said is None else _numbers(row.said)
        squares += [(one - other) ** 2 for one, other in zip(said, label, strict=True)]
    return math.sqrt(math.fsum(squares) / len(rows))


def _numbers(value: Any) -> list[float]:
    return [0.0 if number is None else number for number in (value if isinstance(value, list) else [value])]
