"""What a snapshot says: a line of figures for lists, and every stage's fields for one key."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streamjobs.core.job import DETECTOR, EXTRACTOR, LEARNER, Job
from streamjobs.core.state.snapshot import Offsets
from streamjobs.errors import SnapshotError
from streamjobs.maintenance.copies import Entry, shown

FEW = 8  # numbers of an array that are shown as they are


class Summary(NamedTuple):
    """A key in a line; where its snapshot is of no use, `problem` says why and the figures are unknown."""

    key: str
    partition: int
    rows: int | None = None  # of this key
    seen: int | None = None  # rows its learner has seen, a warm start's or population's included
    labels: int | None = None
    offset: int | None = None  # last applied one of the input
    event_time: float | None = None  # of its newest sample, seconds since 1970
    bytes: int = 0
    written: int = 0  # milliseconds since 1970
    ls_error: float | None = None  # mean of the latest rows, where the state holds it
    problem: str | None = None


class Field(NamedTuple):
    """An array of a stage's state."""

    stage: str
    name: str
    shape: tuple[int, ...]
    bytes: int
    norm: float | None  # Euclidean, of what is finite
    value: Any  # a number, or a short list; None where it is long


def opened(job: Job, entry: Entry) -> tuple[dict[str, Any], list[str], Offsets]:
    """States by stage, class names, offsets. Raises SnapshotError that names the key."""
    try:
        return job.opened(entry.data)
    except SnapshotError as error:
        raise SnapshotError(f"key {shown(entry.key)!r} in partition {entry.partition}: {error}") from None


def summary(job: Job, entry: Entry) -> Summary:
    line = Summary(shown(entry.key), entry.partition, bytes=len(entry.data), written=entry.timestamp)
    try:
        states, _, offsets = opened(job, entry)
    except SnapshotError as error:
        return line._replace(problem=str(error))
    books = states["books"]
    newest = float(states["order"].newest)
    mean = ls_error(job, states)
    return line._replace(
        rows=books.rows,
        seen=books.seen + books.rows,
        labels=int(books.labelled.sum()) if len(books.labelled) else None,
        offset=offsets.get((job.settings.source.topic, entry.partition)),
        event_time=newest if math.isfinite(newest) else None,
        ls_error=mean[0] if mean is not None else None,
    )


def details(job: Job, entry: Entry) -> dict[str, Any]:
    """Everything about one key. Raises SnapshotError."""
    states, names, offsets = opened(job, entry)
    line = summary(job, entry)._asdict()
    del line["problem"]
    mean = ls_error(job, states)
    labelled = states["books"].labelled
    return {
        **line,
        "offsets": {f"{topic}[{partition}]": offset for (topic, partition), offset in offsets.items()},
        "ls_error_over": mean[1] if mean is not None else None,
        "classes": {name: int(labelled[c]) for c, name in enumerate(names) if c < len(labelled)},
        "drift": {name: _plain(states[name]) for name in (EXTRACTOR, DETECTOR) if name in states},
        "stages": {name: job.described.get(name, "") for name in states},
        "fields": [field._asdict() for field in fields(states)],
    }


def fields(states: dict[str, Any]) -> list[Field]:
    return [_field(stage, name, value) for stage, state in states.items() for name, value in leaves(state)]


def leaves(state: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """(name, value) of a state's fields, those of a composite as part.field."""
    for name, value in zip(state._fields, state, strict=True):
        if hasattr(value, "_fields"):
            yield from leaves(value, f"{before}{name}.")
        else:
            yield before + name, value


def _field(stage: str, name: str, value: Any) -> Field:
    array = np.asarray(value)
    finite = array[np.isfinite(array)].astype(float)
    with np.errstate(over="ignore"):
        norm = float(np.sqrt((finite * finite).sum())) if array.ndim and finite.size else None
    return Field(stage, name, array.shape, array.nbytes, number(norm), number(array.tolist()) if array.size <= FEW else None)


def _plain(state: Any) -> dict[str, Any]:
    return {name: number(value) for name, value in leaves(state) if np.asarray(value).ndim == 0}


def number(value: Any) -> Any:
    """JSON knows no NaN and no infinity: they are null."""
    if isinstance(value, list):
        return [number(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def ls_error(job: Job, states: dict[str, Any]) -> tuple[float, str] | None:
    """The mean LS error a key's state holds, and of which rows; None where it holds none."""
    remembered = job.learner.recent_error(states[LEARNER])
    drift = job.settings.drift
    if remembered is not None or drift is None or drift.watch != "ls_error" or drift.extractor is not None:
        return remembered
    return job.watches[0].detector.recent_error(states[DETECTOR])
