"""The samples that a key's learner keeps, in the units of the records: what they are, when each entered, its share of rows.

A state holds less than one would like to know. What it lacks is derived where the key's records are at hand: the row that a
sample was, found by its bits, and the rows that are nearer to it than to any other, by the learner's own kernel. What cannot
be derived is None, and `notes` say why.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.kernels import Kernel, gram
from algorithms.common.protocol import Array, State
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.summary import decode_entry
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.names import LEARNER, MAP, SCALING

FIELDS = ("prototypes", "samples", "landmarks", "support", "dictionary")  # of states, the first that is there
AT_ONCE = 2000  # rows whose kernel values are computed together


class Prototype(NamedTuple):
    """One stored sample."""

    x: list[float]  # in the units of the records, or scaled, see `Prototypes.original`
    scaled: list[float]  # as the learner has it
    entered: int | None  # number of the row that it was, from 1
    later: int | None  # rows that were stored after it
    share: float | None  # of the rows, those it stands for


class Prototypes(NamedTuple):
    """The stored samples of a learner, those of the largest share first, else in the order of the state."""

    part: str  # stage, and part of its learner, such as "learner.extractor"
    name: str  # of the learner
    field: str  # of its state
    columns: list[str]
    original: bool  # the numbers are in the units of the records
    rows: int | None  # that the learner has seen
    samples: list[Prototype]
    notes: list[str]


Rows = tuple[Array, Array]  # a key's rows (n, width) scaled, and in the units of the records


class _Held(NamedTuple):
    part: str
    learner: Any
    state: Any
    field: str
    width: float  # what is stored is divided by it


def prototypes(job: Job, entry: Entry, rows: Rows | None = None) -> list[Prototypes]:
    """One set for each part of the learner that stores samples; `rows`: the key's, if at hand.

    Raises SnapshotError for a snapshot that cannot be used, ConfigError for a learner that stores no samples.
    """
    states, _, _ = decode_entry(job, entry)
    held = list(_held(LEARNER, job.learner, states[LEARNER], 1.0))
    if not held and MAP in job.stages:
        shared = job.stage(MAP, LearnerStage)
        held = list(_held(MAP, shared.learner, job.shared.get(MAP) or states[MAP], 1.0))
    if not held:
        raise ConfigError(
            f"{type(job.learner).name} stores no samples (yet), so there are no prototypes to show; 'state show' without "
            "--prototypes lists what is stored."
        )
    return [_shown(job, states, one, rows) for one in held]


def _held(part: str, learner: Any, state: Any, width: float) -> Iterator[_Held]:
    """The stored samples in a state and in the states within it."""
    chosen = getattr(getattr(state, "choice", None), "bandwidth", None)
    if chosen is not None:  # a learner whose width is chosen from the first rows
        if chosen:
            yield from _held(f"{part}.learner", learner.learner, state.learner, float(chosen))
        return
    for field in FIELDS:
        if hasattr(state, field) and hasattr(learner, "kernel"):
            if len(getattr(state, field)):
                yield _Held(part, learner, state, field, width)
            return
    for name, inner in zip(state._fields, state, strict=True):
        if hasattr(inner, "_fields"):
            own = getattr(learner, name, None) or getattr(learner, "learner", None)
            yield from _held(f"{part}.{name}", own, inner, width)


def _shown(job: Job, states: dict[str, State], held: _Held, rows: Rows | None) -> Prototypes:
    scaled = np.asarray(getattr(held.state, held.field), float) * held.width
    columns = list(job.composition.columns[: scaled.shape[1]])
    notes: list[str] = []
    X = _unscaled(job, states, scaled, notes)
    if X is not None and _scale_moves(job, states):
        notes.append(
            "units by the key's scale of now, which was another one when a sample entered; --input has the rows themselves"
            if rows is None
            else "numbers of samples that are rows of --input are those of the record; others are by the key's scale of now"
        )
    found = None if rows is None else _found(held, rows[0], notes)
    entered, later = _entered(held, found, notes)
    if found is not None and rows is not None and X is not None:
        for at, number in enumerate(found):
            if number is not None:  # as it was, whatever the scale is now
                X[at] = rows[1][number - 1]
    share = _share(held, scaled, None if rows is None else rows[0], notes)
    samples = [
        Prototype(X[i].tolist() if X is not None else scaled[i].tolist(), scaled[i].tolist(), entered[i], later[i], share[i])
        for i in range(len(scaled))
    ]
    if rows is not None:
        samples.sort(key=lambda one: -(one.share or 0.0))
    seen = getattr(held.state, "seen", None)
    name = type(held.learner).name
    return Prototypes(held.part, name, held.field, columns, X is not None, seen, samples, notes)


def _unscaled(job: Job, states: dict[str, State], scaled: Array, notes: list[str]) -> Array | None:
    """The rows in the units of the records; None where the scale cannot be undone."""
    if SCALING not in job.stages:
        return scaled.copy()
    scaling: Any = job.stage(SCALING, LearnerStage).learner
    if scaling.unit_norm:
        notes.append("each row was brought to length 1, so its own length is lost; numbers are scaled ones")
        return None
    state: Any = job.shared.get(SCALING) or states[SCALING]
    if scaling.clip and (np.abs(scaled) >= scaling.clip).any():
        notes.append(f"numbers {scaling.clip:g} standard deviations from the mean were cut there: they were at least as far")
    if scaling.method == "none":
        return scaled.copy()
    deviation = np.sqrt(state.squares / max(int(state.seen), 1))
    X: Array = state.mean + scaled * deviation
    return X


def _scale_moves(job: Job, states: dict[str, State]) -> bool:
    if SCALING not in job.stages or SCALING in job.shared:
        return False
    scaling: Any = job.stage(SCALING, LearnerStage).learner
    state: Any = states[SCALING]
    return bool(scaling.method == "standard" and (scaling.freeze_after == 0 or state.seen < scaling.freeze_after))


def _found(held: _Held, rows: Array, notes: list[str]) -> list[int | None]:
    """The number of the row that each sample is to the bit, the last of equals; None where there is none."""
    place = {row.tobytes(): number for number, row in enumerate(np.ascontiguousarray(rows / held.width), 1)}
    stored = np.ascontiguousarray(getattr(held.state, held.field), float)
    found = [place.get(row.tobytes()) for row in stored]
    missing = sum(number is None for number in found)
    if missing:
        notes.append(f"{missing} of {len(found)} samples are none of the rows of --input, to the bit")
    return found


def _entered(
    held: _Held, found: list[int | None] | None, notes: list[str]
) -> tuple[Sequence[int | None], Sequence[int | None]]:
    """The row that each sample was, and how many were stored after it."""
    m = len(getattr(held.state, held.field))
    arrival, age = getattr(held.state, "arrival", None), getattr(held.state, "age", None)
    if arrival is not None:
        numbers = [int(number) for number in arrival]
        order = sorted(numbers)
        return numbers, [m - 1 - order.index(number) for number in numbers]
    later: Sequence[int | None] = [None] * m if held.field == "landmarks" else range(m - 1, -1, -1)  # oldest first
    if age is not None:
        later = [int(value) for value in age]
    if found is None:
        notes.append(
            f"{type(held.learner).name} does not keep which row a sample was; --input with the key's records finds it"
        )
    return found or [None] * m, later


def _share(held: _Held, scaled: Array, rows: Array | None, notes: list[str]) -> Sequence[float | None]:
    m = len(scaled)
    if rows is not None:
        counts = np.zeros(m)
        for begin in range(0, len(rows), AT_ONCE):
            counts += np.bincount(nearest(held.learner.kernel, rows[begin : begin + AT_ONCE], scaled), minlength=m)
        notes.append(f"share: of the {len(rows):,} rows of --input, those to which this sample is the most similar one")
        return list(counts / max(len(rows), 1))
    if type(held.learner).name == "random_prototypes":
        notes.append("share: a uniform sample of all rows, so that each stands for as many")
        return [1.0 / m] * m
    notes.append(
        f"{type(held.learner).name} does not count the rows that a sample stands for; --input with the key's records does"
    )
    return [None] * m


def nearest(kernel: Kernel, X: Array, S: Array) -> Array:
    """The row of S (m, dim) that each row of X is most similar to: nearest, or of the largest |cosine| in feature space."""
    if kernel.name in ("gaussian", "laplacian"):  # by distance: far out all kernel values are 0
        apart: Array = np.stack([np.square(X - x).sum(axis=1) for x in S], axis=1).argmin(axis=1)
        return apart
    own = np.sqrt([max(float(gram(kernel, x[None], x[None])[0, 0]), 1e-300) for x in S])
    alike: Array = np.argmax(np.abs(gram(kernel, X, S)) / own, axis=1)
    return alike
