"""The life of a stage's state, the same for every stage of a job: generic code asks here and knows no stage by name.

A stage says what a new key begins with (`begin`), what a stored state must be to be trusted (`validate`), what survives a
change of population (`survives`, `migrate`) and a warm start (`inherit`), how its loops are compiled before the first record
(`warm_up`) and how it stands in a snapshot's description (`description`). How a state enters and leaves a workspace is
`algorithms.common.protocol.Stage`'s. What rows pass through it is the stage's own `advance`, which `core.advance` calls.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.kernels import Kernel
from algorithms.common.protocol import Array, Stage, State
from streamjobs.errors import SnapshotError
from streamjobs.stages.event_time import END_OF_TIME

MOST_COUNTED = 1 << 62  # rows a key may have had: a count may not come near where it wraps around


class Shape(NamedTuple):
    """What a job's samples, rows and labels look like; stages size their states by it."""

    dim: int  # numbers of a sample
    width: int  # numbers of a row: dim, or the statistics of a window
    label_width: int  # numbers of a label's code
    targets: int  # columns of a prediction
    taught: int = 0  # rows that taught the population a new key begins from


class JobStage(Stage, abstract=True):
    """A stage of a job. Subclasses are frozen dataclasses of settings with `begin`, `warm_up` and `advance`."""

    __slots__ = ()
    signal: ClassVar[bool] = False  # keeps a key's place in its signal: no part of a model that is exported
    survives: ClassVar[bool] = False  # a change of population; such stages come first or last in a snapshot
    finite: ClassVar[bool] = False  # holds finite numbers alone
    samples: ClassVar[tuple[str, ...]] = ()  # state fields with samples: finite numbers
    times: ClassVar[tuple[str, ...]] = ()  # state fields with event times, seconds since 1970
    label_codes: ClassVar[tuple[str, ...]] = ()  # state fields with labels: a class's column, NaN unknown
    class_columns: ClassVar[tuple[str, ...]] = ()  # state fields with integer columns of classes, -1 none

    @property
    def shared_state(self) -> State | None:
        """The state of all keys together, of a stage that stands still; None: each key has its own."""
        return None

    @property
    def knows_normal(self) -> bool:
        """It holds what drift detection takes for normal: 'drift relearn' lets it begin again."""
        return False

    @property
    def codec(self) -> Stage:
        """What moves the state into workspaces and out of them."""
        return self

    def begin(self, shape: Shape, seed: int) -> State:
        """The state of a new key."""
        raise NotImplementedError

    def warm_up(self, state: State, shape: Shape) -> None:
        """Run every compiled loop once on a throwaway state, so that no record waits for the compiler."""
        raise NotImplementedError

    def description(self) -> str | None:
        """Part of what a snapshot's fingerprint stands for; None where no setting changes what the arrays mean."""
        return describe(self)

    def inherit(self, state: State) -> State | None:
        """What a new key takes over from an exported state; None: it begins fresh."""
        return None if self.signal else state

    def migrate(self, state: State, fresh: State, column: Sequence[int]) -> State:
        """The state under another population; column: the new column of each class, -1 for one that is not kept."""
        moved: dict[str, Array] = {}
        for field in self.label_codes:
            codes = getattr(state, field).copy()
            for at in np.flatnonzero(np.isfinite(codes[:, 0])):
                codes[at, 0] = column[int(codes[at, 0])]
            moved[field] = codes
        for field in self.class_columns:
            moved[field] = np.array([column[c] if c >= 0 else -1 for c in getattr(state, field).tolist()], np.int64)
        return state._replace(**moved)

    def validate(self, name: str, state: State, fresh: State, names: Sequence[str] | None) -> None:
        """Raise SnapshotError that names the field unless the loops can trust the state.

        A checksum tells damage, not nonsense: a class code beyond the classes would write outside an array. What a learner
        must check itself it checks as it is loaded. names: the key's classes, None where labels are numbers.
        """
        check_fields(name, self.codec, fresh, state, finite=self.finite)
        for group in self.aligned:
            rows = [len(getattr(state, field)) for field in group]
            if len(set(rows)) > 1:
                refuse(name, "one of each field for every row", f"{rows}")
        for field in self.samples:
            if not np.isfinite(getattr(state, field)).all():
                refuse(f"{name}.{field}", "finite numbers", "others")
        for field in self.times:
            _check_times(f"{name}.{field}", getattr(state, field))
        if names is not None:
            for field in (*self.label_codes, *self.class_columns):
                _check_columns(f"{name}.{field}", np.asarray(getattr(state, field)), len(names))

    def trusted(self, work: Any, slots: Array, classes: Array | None) -> Array:
        """(k,) bool: what an own `validate` asks beyond the stage's fields, of many slots that hold stored states.

        False where in doubt: then `validate` decides. A stage with a `validate` of its own has one of these too, or its
        jobs read every state alone. classes (k,): how many each key knows, None where labels are numbers.
        """
        return np.ones(len(slots), np.bool_)


def check_fields(name: str, codec: Any, fresh: State, state: State, *, finite: bool) -> None:
    """A state has the sizes it can have, and finite numbers alone where asked for. Raises SnapshotError."""
    for field, first, value in zip(state._fields, fresh, state, strict=True):
        what = f"{name}.{field}"
        if hasattr(value, "_fields"):  # a composite's parts carry the names of its state's fields
            check_fields(what, getattr(codec, field), first, value, finite=finite)
            continue
        array: Array = np.asarray(value)
        if field in codec.stored:
            room = codec.room(field)
            if room is not None and len(array) > room:
                refuse(what, f"at most {room} rows", f"{len(array)}")
        elif array.shape != np.shape(first):
            refuse(what, f"shape {np.shape(first)}", f"{array.shape}")
        elif isinstance(value, int):
            _check_count(what, field, int(first), value)
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            refuse(what, "finite numbers", "others")


def refuse(what: str, expected: str, got: str) -> None:
    raise SnapshotError(f"snapshot field {what}: expected {expected}, got {got}; the stored state contradicts itself.")


def _check_count(what: str, field: str, first: int, value: int) -> None:
    """Counts grow from where they begin; a dimension is part of the settings."""
    if not first <= value < MOST_COUNTED or (field == "dim" and value != first):
        refuse(what, f"a count from {first}" if field != "dim" else f"{first}", f"{value}")


def _check_times(what: str, value: Any) -> None:
    times = np.asarray(value)
    from_1970 = times >= 0 if times.ndim else (times >= 0) | np.isneginf(times)  # a newest time may be: none yet
    if not ((times < END_OF_TIME) & from_1970).all():
        refuse(what, "times from 1970 to 9999", "others")


def _check_columns(what: str, codes: Array, classes: int) -> None:
    if codes.dtype.kind == "f":
        known = codes[~np.isnan(codes)]
        good = (known >= 0) & (known < classes) & (known == np.floor(known))
    else:
        good = (codes >= -1) & (codes < classes)
    if not good.all():
        refuse(what, f"columns of {classes} classes", "others")


def describe(stage: Stage) -> str:
    """A stage as people write it: its name and the settings that are not their defaults.

    >>> from algorithms import learner_from
    >>> describe(learner_from("lms", {"step_size": 0.5}))
    'Lms(step_size=0.5)'

    The text is part of the fingerprint of every stored state, so it is made of persisted names, not of Python's.
    """
    assert dataclasses.is_dataclass(stage)
    shown = []
    for field in dataclasses.fields(stage):
        value = getattr(stage, field.name)
        if value != field.default:
            shown.append(f"{field.name}={_shown(value)}")
    return f"{stage.persisted_name}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, Stage):
        return repr(describe(value))  # in quotes, as it was first stored
    if isinstance(value, Kernel):
        numbers = [f"{field.name}={getattr(value, field.name)!r}" for field in dataclasses.fields(value)]
        return f"{value.persisted_name}({', '.join(numbers)})"
    return repr(value)
