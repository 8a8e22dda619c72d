"""The life of a stage's state, the same for every stage of a job: generic code asks here and knows no stage by name.

A stage says what a new key begins with (`begin`), what a stored state must be to be trusted (`demands`), what survives a
change of population (`survives`, `migrate`) and a warm start (`inherit`), how its loops are compiled before the first record
(`warm_up`) and how it stands in a snapshot's description (`description`). How a state enters and leaves a workspace is
`algorithms.common.protocol.Stage`'s. What rows pass through it is the stage's own `advance`, which `core.advance` calls.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from algorithms.common.demands import Demand
from algorithms.common.kernels import Kernel
from algorithms.common.protocol import Array, Stage, State
from streamjobs.errors import SnapshotError

UNDESCRIBED = {"undescribed": True}  # metadata of a setting that may change while stored states stay
CACHE_LINE = 64  # bytes
LARGEST = float(np.finfo(np.float64).max)  # finite number
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
    survives: ClassVar[bool] = False  # a change of population; first or last in a snapshot: see core.state.migration
    # What of the stage a snapshot's fingerprint stands for: the name alone, or nothing, where no setting changes what the
    # arrays mean.
    described: ClassVar[Literal["settings", "name", "nothing"]] = "settings"
    finite: ClassVar[bool] = False  # holds finite numbers alone
    samples: ClassVar[tuple[str, ...]] = ()  # state fields with samples, or others of finite numbers
    times: ClassVar[tuple[str, ...]] = ()  # state fields with event times, seconds since 1970
    label_codes: ClassVar[tuple[str, ...]] = ()  # state fields with labels: a class's column, NaN unknown
    class_columns: ClassVar[tuple[str, ...]] = ()  # state fields with integer columns of classes, -1 none
    ranges: ClassVar[tuple[tuple[str, float, float], ...]] = ()  # state fields, each with its least and largest number
    tallies: ClassVar[tuple[str, ...]] = ()  # state fields with counts in an array, from 0 to below MOST_COUNTED
    # The state has what drift detection treats as normal: 'drift relearn' lets it begin again, and no new key takes it over.
    knows_normal: ClassVar[bool] = False

    @property
    def shared_state(self) -> State | None:
        """The state of all keys together, of a stage that stands still; None: each key has its own."""
        return None

    @property
    def at_bound(self) -> Mapping[str, float]:
        """State fields with a bound that earlier releases did not have: larger stored numbers, also inf, mean the bound."""
        return {}

    @property
    def codec(self) -> Stage:
        """What moves the state into workspaces and out of them."""
        return self

    def begin(self, shape: Shape, seed: int) -> State:
        """The state of a new key."""
        raise NotImplementedError

    def holding(self, state: State) -> Any:
        """A workspace with this state in its only slot."""
        work = self.workspace(state)
        self.load(work, 0, state)
        return work

    def warm_up(self, state: State, shape: Shape) -> None:
        """Run every compiled loop once on a throwaway state, so that no record waits for the compiler."""
        raise NotImplementedError

    def description(self) -> str | None:
        """Part of what a snapshot's fingerprint stands for; None for nothing."""
        if self.described == "settings":
            return describe(self)
        return f"{self.persisted_name}()" if self.described == "name" else None

    def inherit(self, state: State) -> State | None:
        """What a new key takes over from an exported state; None: it begins fresh."""
        return None if self.signal or self.knows_normal else state

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

    def with_bounds(self, state: State) -> State:
        """A stored state with the bounds of today's release."""
        return state._replace(**{field: np.minimum(getattr(state, field), most) for field, most in self.at_bound.items()})

    def demands(self, work: Any, slots: Array, classes: Array | None = None) -> Iterable[Demand]:
        """What the stage's loops trust of its state, of many slots, beyond what its fields say (`core.state.valid`).

        classes (k,): how many each key knows, None where labels are numbers.
        """
        return ()


def refuse(what: str, expected: str, got: str) -> None:
    raise SnapshotError(f"snapshot field {what}: expected {expected}, got {got}; the stored state contradicts itself.")


def check_numbers(whose: str, named: Mapping[str, Array], *shapes: tuple[int, ...]) -> None:
    """Raises ValueError where learned arrays are not of finite numbers, in these shapes."""
    for (name, array), shape in zip(named.items(), shapes, strict=True):
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"expected finite numbers {shape} as {name} of {whose}, got {array.dtype} {array.shape}")


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
        if value != field.default and not UNDESCRIBED.items() <= field.metadata.items():
            shown.append(f"{field.name}={_shown(value)}")
    return f"{stage.persisted_name}({', '.join(shown)})"


def lined_up(array: Array) -> Array:
    """A C-contiguous copy that begins a cache line, which loops read a fifth faster where it is larger than their cache."""
    room = np.empty(array.nbytes + CACHE_LINE, np.uint8)
    begin = -room.ctypes.data % CACHE_LINE
    copy = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def halved(array: Array) -> Array:
    """The same numbers in float32, where these have all of them; else the array."""
    with np.errstate(over="ignore"):
        half = array.astype(np.float32)
    return half if np.array_equal(half, array) else array


def _shown(value: Any) -> str:
    if isinstance(value, Stage):
        return repr(describe(value))  # in quotes, as it was first stored
    if isinstance(value, Kernel):
        numbers = [f"{field.name}={getattr(value, field.name)!r}" for field in dataclasses.fields(value)]
        return f"{value.persisted_name}({', '.join(numbers)})"
    return repr(value)
