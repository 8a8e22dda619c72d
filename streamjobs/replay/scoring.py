"""A job's rows over recordings, each predicted before its label is learned, with their errors and those of controls."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Stored
from streamjobs.errors import ConfigError
from streamjobs.replay.controls import Known
from streamjobs.replay.engine import Replay, Tally
from streamjobs.settings.composition import Composition


class Row(NamedTuple):
    key: str
    time: float
    said: Any
    label: Any  # None: the row has none


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
    if job.settings.labels.wait:
        raise ConfigError(
            f"{command} scores only labels that arrive with their samples; set [labels] wait to 0, and "
            "delay (or --delay) to how late they are."
        )


def predicted(
    job: Job, records: Sequence[Stored], progress: Callable[[Tally], None] = lambda tally: None
) -> tuple[list[Row], Replay]:
    """Every row of the recordings, and the replay with the final states."""
    rows: list[Row] = []
    answer = "class" if job.task == "classification" else "value" if job.composition.targets == 1 else "values"

    def take(output: Output) -> None:
        if output.sink == "predictions" and output.value is not None:
            row = msgspec.json.decode(output.value)
            rows.append(Row(row["key"], row["ts"], row[f"predicted_{answer}"], row[f"true_{answer}"]))

    replay = Replay(job)
    replay.run(records, take, progress)
    return rows, replay


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
            key.waiting.append((row.time, row.label))
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
        return sum(bool(row.said != row.label) for row in rows) / len(rows)
    squares = []
    for row in rows:
        label = _numbers(row.label)
        said = [0.0] * len(label) if row.said is None else _numbers(row.said)
        squares += [(one - other) ** 2 for one, other in zip(said, label, strict=True)]
    return math.sqrt(math.fsum(squares) / len(rows))


def _numbers(value: Any) -> list[float]:
    return [0.0 if number is None else number for number in (value if isinstance(value, list) else [value])]
