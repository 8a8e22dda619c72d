"""A job's rows over recordings, each predicted before its label is learned, with their errors and those of controls."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from streamjobs.core.job import Job
from streamjobs.core.messages import LateLabel, Output, Stored
from streamjobs.core.unlearned import Known
from streamjobs.errors import ConfigError
from streamjobs.replay.engine import Replay, Tally
from streamjobs.settings.composition import Composition


class Row(NamedTuple):
    key: str
    time: float
    said: Any
    label: Any  # None: the row has none
    known: tuple[float, int] | None = None  # of a label in a record of its own: event time of the newest row then, number


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
    """Every row of the recordings, and the replay with the final states. Raises NothingLearned where there are none."""
    replay = Replay(job)
    scored = Scored(replay)
    replay.run(records, scored.take, progress)
    replay.check_learned()
    return scored.finish(), replay


class Scored:
    """Collects the rows of a replay."""

    def __init__(self, run: Replay) -> None:
        job = run.job
        labels, there = job.settings.labels, job.composition.predicts and "predictions" in job.sinks
        # Whether labels are known after their rows: numbers before the first label are predicted as 0.
        self.is_late = bool(labels.wait or labels.delay) and there
        self.run, self.job, self.rows = run, job, list[Row]()
        self.answer = "class" if job.task == "classification" else "value" if job.composition.targets == 1 else "values"

    def take(self, output: Output) -> None:
        if output.sink == "predictions" and output.value is not None:
            row = msgspec.json.decode(output.value)
            self.rows.append(Row(row["key"], row["ts"], row[f"predicted_{self.answer}"], row[f"true_{self.answer}"]))

    def finish(self) -> list[Row]:
        return with_late(self.rows, self.run.late) if self.run.late else self.rows

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
            found |= {"rmse": error(task, own), "measured": len(own), "unpredicted": None}
            return found | ({"controls": {"judged": len(own), "rmse_last_label": error(task, last)}} if judged else {})
        there = [row for row in labelled if row.said is not None]
        found |= {"wrong": wrong(there), "unpredicted": len(labelled) - len(there)}
        without = {"judged": len(own), "wrong_last_label": wrong(last), "wrong_majority": wrong(most)}
        return found | ({"controls": without} if judged else {})


def with_late(rows: Sequence[Row], late: Iterable[LateLabel]) -> list[Row]:
    """The rows with the labels that came later."""
    labels = defaultdict[tuple[str, float], deque[tuple[int, LateLabel]]](deque)
    for number, one in enumerate(late):
        labels[one.key, one.time].append((number, one))
    found = []
    for row in rows:
        waiting = labels.get((row.key, row.time)) if row.label is None else None
        if waiting:
            number, one = waiting.popleft()
            row = row._replace(label=one.label, known=(one.known, number))
        found.append(row)
    return found


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
            came, number = row.known or (row.time, -1)
            key.add(came, row.label, number)
        key.learn(row.time - delay)
    return found


def parts(rows: Sequence[Row], share: float) -> tuple[list[Row], list[Row]]:
    """The first rows of each key, and the rest."""
    count, at = Counter(row.key for row in rows), Counter[str]()
    first: list[Row] = []
    rest: list[Row] = []
    for row in rows:
        at[row.key] += 1
        (first if at[row.key] <= share * count[row.key] else rest).append(row)
    return first, rest


def error(task: str, rows: Sequence[Row]) -> float | None:
    """A row without a prediction is wrong."""
    if not rows:
        return None
    if task == "classification":
        return wrong(rows) / len(rows)
    apart = list[float]()
    for row in rows:
        label = _numbers(row.label)
        said = [0.0] * len(label) if row.said is None else _numbers(row.said)
        apart += [one - other for one, other in zip(said, label, strict=True)]
    try:
        return math.sqrt(math.fsum([one**2 for one in apart]) / len(rows))
    except OverflowError:  # squares of numbers beyond 1e154
        return math.hypot(*[one / math.sqrt(len(rows)) for one in apart])


def _numbers(value: Any) -> list[float]:
    return [0.0 if number is None else number for number in (value if isinstance(value, list) else [value])]
