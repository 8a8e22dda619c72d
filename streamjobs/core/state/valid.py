"""What a stored state must be: one definition for readers and writers of snapshots, of many slots at once.

The loops of the stages trust a state. A checksum finds damage, but not values that no stage could have left: a class code
beyond the classes would write outside an array.
"""

import dataclasses
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numba import carray, types
from numba.core.cgutils import voidptr_t
from numba.extending import intrinsic

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand, demands_of, every, shown
from algorithms.common.head_rows import HeadRows
from algorithms.common.protocol import Array, Stage
from algorithms.common.workspace import Workspace
from streamjobs.core.state.snapshot import flatten
from streamjobs.stages.event_time import END_OF_TIME
from streamjobs.stages.stage import LARGEST, MOST_COUNTED, JobStage, refuse

NOTHING, FINITE, FINITE_4, TIMES, COUNT, SAME, LABELS, COLUMNS = range(8)  # what numbers of a field must be
EXPECTED: tuple[str, ...] = ("", "finite numbers", "finite numbers", "times from 1970 to 9999", "a count from {}", "{}")
EXPECTED += ("columns of its classes", "columns of its classes")
EXPONENT = 0x7FF0000000000000  # all its bits are set in numbers that are not finite
EXPONENT_4 = 0x7F800000


class Leaf(NamedTuple):
    """One stage with arrays of its own: of a chain there are two."""

    path: str  # in sentences
    stage: Stage
    work: Any
    like: Any
    owner: JobStage
    alone: bool  # it is the owner's whole state, so what the owner says of fields is said of its fields
    heads: HeadRows | None = None  # the work is their rows

    def at(self, slots: Array) -> Array:
        """Where these keys are in the work."""
        return slots if self.heads is None else self.heads.row_of[slots]


def leaves_of(path: str, owner: JobStage, stage: Stage, work: Any, like: Any, alone: bool = True) -> Iterator[Leaf]:
    if all(hasattr(value, "_fields") for value in like):  # a composite: its parts carry the names of its state's fields
        for field, value in zip(like._fields, like, strict=True):
            yield from leaves_of(f"{path}.{field}", owner, getattr(stage, field), getattr(work, field), value, False)
    elif isinstance(work, HeadRows):
        yield Leaf(path, stage, work.rows, like, owner, alone, work)
    else:
        yield Leaf(path, stage, work, like, owner, alone)


class Field:
    """One field of a leaf, and what its numbers must be."""

    __slots__ = ("at", "field", "first", "leaf", "limit", "path", "room", "row", "rules", "square", "stored")

    def __init__(self, leaf: Leaf, at: int) -> None:
        field, one = leaf.like._fields[at], np.asarray(leaf.like[at])
        self.leaf, self.at, self.field, self.path = leaf, at, field, f"{leaf.path}.{field}"
        self.square, self.stored, self.room = field in leaf.stage.squares(leaf.like), None, 0
        if field in leaf.stage.stored:
            held, room = leaf.work.arrays[at].shape[1], leaf.stage.room(field)
            self.stored, self.room = leaf.stage.stored.index(field), held if room is None else min(held, room)
        self.limit = one.shape if self.stored is None else leaf.stage.room(field)  # of a stored field the most rows
        self.row = math.prod(one.shape[1:] if self.stored is not None else one.shape)  # numbers of a stored row, or of all
        self.rules, self.first = _rules(leaf, field, one), 0.0
        assert one.itemsize == 8 or not {COUNT, LABELS, COLUMNS}.intersection(self.rules), self.path
        if isinstance(leaf.like[at], int):  # counts grow from where they begin; a dimension is part of the settings
            self.first = int(one)
        elif TIMES in self.rules and not one.ndim:
            self.first = -np.inf  # a newest time may be: none yet


def _rules(leaf: Leaf, field: str, one: Array) -> list[int]:
    says, own, rules = leaf.owner, leaf.alone, []
    if one.dtype.kind == "f" and (says.finite or (own and field in says.samples)):
        rules.append(FINITE if one.itemsize == 8 else FINITE_4)
    if own and field in says.times:
        rules.append(TIMES)
    if isinstance(getattr(leaf.like, field), int):
        rules.append(SAME if field == "dim" else COUNT)
    if own and field in says.tallies:
        rules.append(COUNT)
    if own and field in (*says.label_codes, *says.class_columns):
        rules.append(LABELS if one.dtype.kind == "f" else COLUMNS)
    return rules


def _in_range(leaf: Leaf, rows: Array) -> Iterator[Demand]:
    for field, least, most in leaf.owner.ranges:
        numbers = leaf.work[field][rows]
        yield Demand(field, _range(least, most), every((numbers >= least) & (numbers <= most)))


@cache
def _range(least: float, most: float) -> str:
    return f"numbers from {least:.0f}" + (f" to {most:.0f}" if most < LARGEST else "")


class Valid:
    """What the stages of a job demand of the states in their workspaces."""

    def __init__(self, leaves: Sequence[Leaf], fields: Sequence[Field]) -> None:
        self.leaves, self.fields = leaves, fields
        self.stored = [(at, field) for at, field in enumerate(fields) if field.stored is not None]
        self.rooms = np.array([[field.room] for _, field in self.stored], np.int64).reshape(-1, 1)
        self.related = list(_related(leaves, {(field.leaf.path, field.field): at for at, field in enumerate(fields)}))
        rules = [(at, rule) for at, field in enumerate(fields) for rule in field.rules]
        self.heads = next((leaf.heads for leaf in leaves if leaf.heads is not None), None)
        self.ruled = np.array([at for at, _ in rules], np.int64)
        self.rules = np.array([(rule, fields[at].leaf.heads is not None) for at, rule in rules], np.int64).reshape(-1, 2)
        self.firsts = np.array([fields[at].first for at, _ in rules])
        self.expected = [(fields[at].path, EXPECTED[rule].format(int(max(fields[at].first, -1)))) for at, rule in rules]
        self._looked: list[Any] = []  # the arrays that the addresses are of

    def look(self) -> None:
        """Take the addresses of the workspaces' arrays as they are now: a workspace makes new ones when it grows."""
        now = [leaf.work.arrays for leaf in self.leaves]
        if len(now) == len(self._looked) and all(map(operator.is_, now, self._looked)):
            return
        self._looked = now
        arrays = [self.fields[at].leaf.work.arrays[self.fields[at].at] for at in self.ruled.tolist()]
        self.addresses = np.array([array.ctypes.data for array in arrays], np.int64)
        self.strides = np.array([array.strides[0] for array in arrays], np.int64)
        sizes = [math.prod(array.shape[1:]) for array in arrays]
        of_row = [self.fields[at].row for at in self.ruled.tolist()]
        is_stored = np.array([self.fields[at].stored is not None for at in self.ruled.tolist()], np.bool_)
        self.numbers = np.where(is_stored, of_row, sizes).reshape(-1, 1)

    def counts(self, slots: Array) -> Array:
        """Stored rows (fields, k), 1 of a field that is not stored."""
        counts = np.ones((len(self.fields), len(slots)), np.int64)
        for at, field in self.stored:
            counts[at] = field.leaf.work.arrays[len(field.leaf.like)][slots, field.stored]
        return counts

    def demands(self, slots: Array, counts: Array, classes: Array | None) -> Iterator[Demand]:
        """Every demand on these slots; their stored rows have room."""
        for at, over, triangle, may_be_empty in self.related:
            expected = counts[over] * (counts[over] + 1) // 2 if triangle else counts[over]
            good = counts[at] == expected
            what = "the lower triangle over the rows" if triangle else "as many rows as there are"
            empty = " (or none)" if may_be_empty else ""
            if may_be_empty:
                good = good | (counts[at] == 0)
            yield Demand(self.fields[at].path, f"{what} of {self.fields[over].field}{empty}", good)
        self.look()
        met = np.ones((len(self.rules), len(slots)), np.bool_)
        known = np.full(len(slots), -1, np.int64) if classes is None else classes
        numbers = counts[self.ruled] * self.numbers
        places = slots[None] if self.heads is None else np.stack([slots, self.heads.row_of[slots]])
        _require(self.addresses, self.strides, self.rules, self.firsts, numbers, places, known, met)
        if not met.all():
            for (path, expected), good in zip(self.expected, met, strict=True):
                yield Demand(path, expected, good)
        for leaf in self.leaves:
            rows = slots if leaf.heads is None else leaf.at(slots)
            own = (*_in_range(leaf, rows), *leaf.owner.demands(leaf.work, rows, classes)) if leaf.alone else ()
            of_learner = demands_of(leaf.stage, leaf.work, rows) if leaf.stage is not leaf.owner else ()
            for name, expected, good in (*own, *of_learner):
                yield Demand(f"{leaf.path}.{name}", expected, good)

    def shown(self, path: str) -> str:
        """The value of a field in the first slot."""
        for field in self.fields:
            if field.path == path:
                return shown(field.leaf.work, field.field, 0)
        return "others"

    def met(self, slots: Array, counts: Array, classes: Array | None) -> Array:
        """(k,) bool: slots that meet all demands."""
        good = np.ones(len(slots), np.bool_)
        for demand in self.demands(slots, counts, classes):
            good &= demand.good
        return good

    def writable(self, slots: Array, classes: Array | None) -> Array:
        """(k,) bool: slots that meet all demands, also that their rows have room."""
        counts = self.counts(slots)
        rows = counts[[at for at, _ in self.stored]]
        good: Array = np.logical_and.reduce((rows >= 0) & (rows <= self.rooms), axis=0)
        if good.all():
            return self.met(slots, counts, classes)
        within = np.flatnonzero(good)
        known = None if classes is None else classes[within]
        good[within] = self.met(slots[within], np.ascontiguousarray(counts[:, within]), known)
        return good


@dataclasses.dataclass(frozen=True)
class StateCheck:
    """Checks states for these stages, one key's at a time. What does not depend on the state is made at the first use."""

    stages: Mapping[str, JobStage]
    fresh: Mapping[str, Any]  # states of a new key
    _spare: dict[str, Valid] = dataclasses.field(default_factory=dict)  # at most one, which no thread uses at the moment

    @cached_property
    def bounded(self) -> list[str]:
        """Stages with a bound that earlier releases did not have."""
        return [name for name, stage in self.stages.items() if stage.at_bound]

    def _new(self) -> Valid:
        """Of one slot without caches; a matrix that is stored as a triangle stays one."""
        leaves: list[Leaf] = []
        for name, stage in self.stages.items():
            for leaf in leaves_of(name, stage, stage.codec, stage.codec, self.fresh[name]):
                work = Workspace(_arrays(leaf, leaf.like), (*leaf.like._fields, "counts"), leaf.stage.stored)
                leaves.append(leaf._replace(work=work))
        return Valid(leaves, [Field(leaf, at) for leaf in leaves for at in range(len(leaf.like))])

    def __call__(self, states: Mapping[str, Any], classes: int | None) -> None:
        """Raise SnapshotError that names the field, unless the loops of the stages can trust the states."""
        values = [value for name in self.stages for value in flatten(states[name])]
        valid, rest = self._spare.pop("", None) or self._new(), iter(values)
        for one, value in zip(valid.fields, values, strict=True):
            if isinstance(one.limit, int) and len(value) > one.limit:
                refuse(one.path, f"at most {one.limit} rows", f"{len(value)}")
            if isinstance(one.limit, tuple) and value.shape != one.limit:
                refuse(one.path, f"shape {one.limit}", f"{value.shape}")
        for leaf in valid.leaves:
            leaf.work.arrays = _arrays(leaf, list(islice(rest, len(leaf.like))))
        slots, known = np.zeros(1, np.int64), None if classes is None else np.array([classes])
        for path, expected, good in valid.demands(slots, valid.counts(slots), known):
            if not good[0]:
                refuse(path, expected, valid.shown(path))
        self._spare[""] = valid


def _arrays(leaf: Leaf, values: Sequence[Any]) -> tuple[Array, ...]:
    rows = [len(values[leaf.like._fields.index(field)]) for field in leaf.stage.stored]
    return (*(np.array(value)[None] for value in values), np.array([rows], np.int64))


def _related(leaves: Sequence[Leaf], places: dict[tuple[str, str], int]) -> Iterator[tuple[int, int, bool, bool]]:
    """(field, the field it goes with, whether it is a triangle over it, whether it may be empty), as places of fields."""
    for leaf in leaves:
        stage = leaf.stage
        pairs = [(field, group[0], False) for group in stage.aligned for field in group[1:]]
        pairs += [(field, over, True) for field, over in stage.triangles.items()]
        for field, over, triangle in pairs:
            yield places[leaf.path, field], places[leaf.path, over], triangle, field in stage.may_be_empty


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(typing: Any, address: Any) -> Any:
    """An address as a pointer."""
    return types.voidptr(types.int64), lambda context, builder, signature, given: builder.inttoptr(given[0], voidptr_t)


@compiled
def _require(addresses, strides, rules, firsts, numbers, places, classes, met):
    """The first numbers[a, n] numbers of each slot are what rules[a, 0] says; a row for each rule, a column for each slot.

    places (1 or 2, k): slots, and in a job with `HeadRows` their rows, which rules[a, 1] is 1 for.
    Arrays by their addresses, so that one call goes through all fields of a job, whatever their types.
    """
    for a in range(len(rules)):
        rule, first = rules[a, 0], firsts[a]
        for n in range(places.shape[1]):
            place, size, wrong = _pointer(addresses[a] + places[rules[a, 1], n] * strides[a]), numbers[a, n], 0
            if rule == FINITE:
                bits = carray(place, size, np.int64)
                for i in range(size):
                    wrong |= (bits[i] & EXPONENT) == EXPONENT
            elif rule == FINITE_4:
                bits4 = carray(place, size, np.int32)
                for i in range(size):
                    wrong |= (bits4[i] & EXPONENT_4) == EXPONENT_4
            elif rule in (TIMES, LABELS):
                reals = carray(place, size, np.float64)
                for i in range(size):
                    x = reals[i]
                    if rule == TIMES:
                        wrong |= not (0.0 <= x < END_OF_TIME or (first < 0.0 and x == first))
                    elif classes[n] >= 0:
                        wrong |= not (np.isnan(x) or (0 <= x < classes[n] and x == np.floor(x)))
            else:
                whole = carray(place, size, np.int64)
                for i in range(size):
                    k = whole[i]
                    if rule == COUNT:
                        wrong |= not first <= k < MOST_COUNTED
                    elif rule == SAME:
                        wrong |= k != first
                    elif classes[n] >= 0:
                        wrong |= not -1 <= k < classes[n]
            met[a, n] = wrong == 0
