"""Whether a state read from bytes is one that the stages could have left: a checksum tells damage, not nonsense.

Compiled loops trust their arrays: a class code beyond the classes would write outside an array, a window that ended long
before its last sample would be looked for for years. So what a loop takes for granted is checked here, once a state is
read; what a learner must check itself (`load`) stays there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.common.protocol import Array, Learner, Stage
from algorithms.heads.smoothing import Smoothing
from streamjobs.errors import SnapshotError
from streamjobs.stages.class_counts import BooksState
from streamjobs.stages.windows import Windows, WindowsState

END_OF_TIME = 253_402_300_800.0  # the year 10000, seconds since 1970, as in streamjobs.core.decoding.records
MOST = 1 << 62  # rows a key may have had: a count may not come near where it wraps around
IN_STEP = ("order", "windows", "waiting")  # stages whose stored rows belong together, one of each field
CODES = {"order": ("held_L",), "windows": ("L",), "waiting": ("L", "said")}  # their fields with label codes
TIMES = {"order": ("held_times", "newest"), "windows": ("times", "newest"), "waiting": ("times", "newest")}


def sound(stages: Mapping[str, Stage], begun: Mapping[str, Any], states: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raises SnapshotError that names the field. begun: states of a new key; names: the key's classes."""
    for name, state in states.items():
        fits(name, stages[name], begun[name], state)
    for name in IN_STEP:
        if name in states:
            _signal(name, stages[name], states[name])
    _classes(states, names)


def fits(name: str, stage: Any, begun: Any, state: Any) -> None:
    """A stage's state has the sizes it can have, and whoever learns holds numbers alone. Raises SnapshotError."""
    learns = isinstance(stage, (Learner, Smoothing))
    for field, first, value in zip(state._fields, begun, state, strict=True):
        what = f"{name}.{field}"
        if hasattr(value, "_fields"):  # a composite's parts carry the names of its state's fields
            fits(what, getattr(stage, field), first, value)
            continue
        array: Array = np.asarray(value)
        if field in stage.stored:
            room = stage.room(field)
            if room is not None and len(array) > room:
                _refuse(what, f"at most {room} rows", f"{len(array)}")
        elif array.shape != np.shape(first):
            _refuse(what, f"shape {np.shape(first)}", f"{array.shape}")
        elif isinstance(value, int):
            _count(what, field, int(first), value)
        if learns and array.dtype.kind == "f" and not np.isfinite(array).all():
            _refuse(what, "finite numbers", "others")


def _count(what: str, field: str, first: int, value: int) -> None:
    """Counts grow from where they begin; a dimension is part of the settings."""
    if not first <= value < MOST or (field == "dim" and value != first):
        _refuse(what, f"a count from {first}" if field != "dim" else f"{first}", f"{value}")


def _signal(name: str, stage: Stage, state: Any) -> None:
    rows = [getattr(state, field) for field in stage.stored]
    if len({len(array) for array in rows}) > 1:
        _refuse(name, "one of each field for every row", f"{[len(array) for array in rows]}")
    for field, array in zip(stage.stored, rows, strict=True):
        if field.endswith("X") and not np.isfinite(array).all():
            _refuse(f"{name}.{field}", "finite numbers", "others")
    for field in TIMES[name]:
        times = np.asarray(getattr(state, field))
        if not ((times < END_OF_TIME) & ((times >= 0) | np.isneginf(times) if field == "newest" else times >= 0)).all():
            _refuse(f"{name}.{field}", "times from 1970 to 9999", "others")
    if isinstance(stage, Windows):
        _unfinished(stage, state)


def _unfinished(stage: Windows, state: WindowsState) -> None:
    """The unfinished window ends behind the newest sample, and is the first that does."""
    if not 0 <= state.origin < END_OF_TIME or not 0 <= state.window <= END_OF_TIME / stage.hop:
        _refuse("windows.window", "a window after 1970", f"number {state.window} from {state.origin:g} s")
    start = state.origin + state.window * stage.hop
    if np.isfinite(state.newest) and not start + stage.length > state.newest:
        _refuse("windows.window", "an unfinished window", f"one that ended {state.newest - start - stage.length:g} s before")


def _classes(states: Mapping[str, Any], names: Sequence[str]) -> None:
    """Every code is the column of a known class."""
    books: BooksState = states["books"]
    if not ((books.labelled >= 0) & (books.labelled < MOST)).all():
        _refuse("books.labelled", "counts of labels", "others")
    columns = len(books.labelled)
    if not columns:
        if names:
            _refuse("names", "no classes in a regression", f"{len(names)}")
        return
    if len(names) > columns or len(set(names)) < len(names):
        _refuse("names", f"at most {columns} different classes", f"{len(names)}")
    if books.labelled[len(names) :].any():
        _refuse("books.labelled", f"labels of {len(names)} classes", "labels of more")
    if "fallback" in states:
        _code("fallback.latest", np.asarray(states["fallback"].latest), len(names))
    for name, fields in CODES.items():
        for field in fields if name in states else ():
            _code(f"{name}.{field}", getattr(states[name], field), len(names))


def _code(what: str, codes: Array, classes: int) -> None:
    """NaN, or in columns of integers -1, is no class."""
    if codes.dtype.kind == "f":
        known = codes[~np.isnan(codes)]
        good = (known >= 0) & (known < classes) & (known == np.floor(known))
    else:
        good = (codes >= -1) & (codes < classes)
    if not good.all():
        _refuse(what, f"columns of {classes} classes", "others")


def _refuse(what: str, expected: str, got: str) -> None:
    raise SnapshotError(f"snapshot field {what}: expected {expected}, got {got}; the stored state contradicts itself.")
