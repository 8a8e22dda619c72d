"""A key's state that was learned on another population: what it keeps, and what begins anew.

Kept: offsets, the signal (order, idleness, windows), rows that wait for labels, and the number of its rows. Begun anew:
the head, which cannot be carried to another map, and all that followed it: gate, smoothing, drift, the last label, and
the count of classes labelled. The key is then as new to the new population, in the middle of its stream.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.state.snapshot import Snapshot, flatten, unflatten
from streamjobs.errors import SnapshotError
from streamjobs.stages.class_counts import BooksState

KEPT = ("order", "idle", "windows", "waiting")  # stages, which come first in a snapshot; the books come last
CODES = {"order": "held_L", "windows": "L", "waiting": "L"}  # their fields with label codes
ANEW = ("population", "labels", "classes", "scaling", "map", "learner", "smoothing", "fallback", "drift", "beside_")


def carries(written: Mapping[str, Any], now: Mapping[str, Any], replaced: Sequence[str]) -> bool:
    """Whether the job that wrote a snapshot stood on a population that this job's replaces, and had the same signal."""
    return written.get("population") in replaced and not any(
        written.get(name) != now.get(name) for name in {**written, **now} if not name.startswith(ANEW)
    )


def carried(held: Snapshot, begun: Mapping[str, Any], names: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The key's states and class names in this job. begun: states of a new key; names: the population's classes.

    Raises SnapshotError where the key's classes do not find room.
    """
    states, at = dict(begun), 0
    for name in KEPT:
        if name in begun:
            count = len(flatten(begun[name]))
            states[name] = unflatten(begun[name], held.arrays[at : at + count])
            at += count
    rows = held.arrays[-3]  # of the books: rows, seen, labelled
    if rows.dtype != np.int64 or rows.ndim:
        raise ValueError(f"its number of rows is {rows.dtype} of shape {rows.shape}")
    books = begun["books"]
    assert isinstance(books, BooksState)
    states["books"] = books._replace(rows=rows.item())
    codes = [getattr(states[name], field) for name, field in CODES.items() if name in states]
    used = {int(code) for array in codes for code in array[np.isfinite(array)].tolist()}
    known = [*names, *(held.names[code] for code in sorted(used) if held.names[code] not in names)]
    room = len(books.labelled)
    if len(known) > room:
        own = ", ".join(known[len(names) :])
        raise SnapshotError(
            f"the key has labels of {len(known)} classes waiting ({own} beyond the population's), "
            f"this job has room for {room}; raise [head] max_classes."
        )
    column = [known.index(name) if name in known else -1 for name in held.names]
    for name, field in CODES.items():
        if name in states:
            states[name] = states[name]._replace(**{field: _moved(getattr(states[name], field), column)})
    if "waiting" in states:
        said = np.array([column[one] if one >= 0 else -1 for one in states["waiting"].said.tolist()], np.int64)
        states["waiting"] = states["waiting"]._replace(said=said)
    return states, known


def _moved(codes: Array, column: Sequence[int]) -> Array:
    """Class columns (n, 1) in the new order."""
    moved = codes.copy()
    for n in np.flatnonzero(np.isfinite(codes[:, 0])):
        moved[n, 0] = column[int(codes[n, 0])]
    return moved
