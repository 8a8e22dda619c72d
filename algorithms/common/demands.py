"""What a stage demands of a stored state beyond its fields' types and sizes, of many slots at once.

Readers of states and the check before a write ask the same `demands(work, slots)` of a stage.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from algorithms.common.workspace import Slot


class Demand(NamedTuple):
    field: str
    expected: str
    good: Array  # (k,) bool


def demands_of(stage: Any, work: Any, slots: Array) -> Iterable[Demand]:
    """The demands of a stage, none where it states none."""
    return stage.demands(work, slots) if hasattr(stage, "demands") else ()


def insist(stage: Any, own: Slot) -> None:
    """Raise ValueError for a slot that does not meet a demand of its stage."""
    for field, expected, good in demands_of(stage, own.work, np.array([own.number])):
        if not good[0]:
            got = shown(own.work, field, own.number)
            raise ValueError(f"{type(stage).__name__}: {field}: expected {expected}, got {got}.")


def met(stage: Any, work: Any, slots: Array) -> Array:
    """(k,) bool: slots that meet all demands of their stage."""
    return np.logical_and.reduce([np.ones(len(slots), np.bool_), *(one.good for one in demands_of(stage, work, slots))])


def at_most(work: Any, slots: Array, **rows: int) -> Iterator[Demand]:
    """Stored fields with so many rows between two rows of the stream; `room` may be one more."""
    for field, most in rows.items():
        yield Demand(field, f"at most {most} rows", work["counts"][slots, work.stored.index(field)] <= most)


def every(good: Array) -> Array:
    """(k,) bool of (k, ...)."""
    return np.logical_and.reduce(good, axis=tuple(range(1, good.ndim)))  # type: ignore[no-any-return]


def shown(work: Any, field: str, slot: int) -> str:
    """A field's value in a slot, for a sentence: of a stored field its rows."""
    if field in work.stored:
        return f"{work['counts'][slot, work.stored.index(field)]} rows"
    return f"{work[field][slot].tolist()!r:.100}"
