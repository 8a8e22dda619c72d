"""States that decode well, with contents that no stage would write.

`mutate_arrays` knows arrays alone. `mutate_stages` knows the stages: a state of another moment, more or fewer rows up to
the stage's room and beyond, rows in another order, numbers of another size, counts that are one off. Its results have the
types and shapes that a decoder asks for, and so reach the checks behind it.
"""

from random import Random
from typing import Any

import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import HASH_BYTES, LeftOut, Snapshot, array_header, assemble, flatten
from tests.fuzz.bytes import EDGES, REALS
from tests.fuzz.grammar import TEXTS

DEEP = ("[" * 60_000, '{"a":' * 10_000, "[" * 500 + "]" * 500, "9" * 5000, "", "{}", "null", "\x00")
FACTORS = (-1.0, 0.0, 0.5, 1.001, 3.0, 1e3, 1e-9, 1e75, 1e150, 1e-160, 1e300)
MOST_ROWS = 4000  # of a field that grew

Opened = tuple[dict[str, Any], list[str], snapshot.Offsets]  # of decode_snapshot


def mutate_stages(job: Job, moments: list[Opened], rnd: Random) -> bytes:
    """A key's state with stages nearly as they were. moments: the key's states at different times, by the same job."""
    states, names, offsets = rnd.choice(moments)
    states = dict(states)
    for _ in range(rnd.choice((1, 1, 2, 3))):
        name = rnd.choice(list(states))
        if rnd.random() < 0.15:
            states[name] = rnd.choice(moments)[0][name]
        else:
            states[name] = _mutate_state(job.own[name].codec, states[name], rnd)
    pieces: list[bytes] = []
    for name in job.own:
        for array in flatten(states[name]):
            pieces += (array_header(array.dtype, array.shape), array.tobytes())
    return assemble(job.snapshot_heads()[0], offsets, names, pieces)


def _mutate_state(stage: Any, state: Any, rnd: Random) -> Any:
    """The state of a stage, or of a part of a composite, with something changed."""
    parts = [name for name, value in zip(state._fields, state, strict=True) if hasattr(value, "_fields")]
    if parts:
        part = rnd.choice(parts)
        return state._replace(**{part: _mutate_state(getattr(stage, part), getattr(state, part), rnd)})
    kind = rnd.randrange(10)
    if kind < 4 and stage.stored:
        return state._replace(**_rows(stage, state, rnd))
    field = rnd.choice(state._fields)
    value = getattr(state, field)
    if isinstance(value, int):
        others = [one for one in state if isinstance(one, int)]
        near = (value + 1, value - 1, 2 * value, 0, 1, -1, rnd.choice(others), rnd.choice(EDGES), 2**62 - 2**20)
        return state._replace(**{field: max(-(2**63), min(2**63 - 1, rnd.choice(near)))})
    if isinstance(value, float):
        return state._replace(
            **{field: rnd.choice((value * rnd.choice(FACTORS), value + rnd.gauss(0, 1), rnd.choice(REALS)))}
        )
    return state._replace(**{field: _numbers(value, rnd)})


def _rows(stage: Any, state: Any, rnd: Random) -> dict[str, Any]:
    """Stored fields of the same count, or one alone, with another number of rows, or their rows in another order."""
    field = rnd.choice(stage.stored)
    held = len(getattr(state, field))
    together = [one for one in stage.stored if len(getattr(state, one)) == held] if rnd.random() < 0.8 else [field]
    room = stage.room(field)
    limits = (room, room - 1, room + 1) if room is not None and 0 < room <= MOST_ROWS else (held + 2,)
    count = max(0, rnd.choice((held, held - 1, held + 1, 0, 1, 2 * held, *limits)))
    if held:
        rows = np.arange(count) % held
        if rnd.random() < 0.3:
            rows = np.array([rnd.randrange(held) for _ in range(count)], np.int64)
        return {one: getattr(state, one)[rows] for one in together}
    noise = np.random.default_rng(rnd.randrange(2**32))
    made: dict[str, Any] = {}
    for one in together:
        empty = getattr(state, one)
        shape = (count, *empty.shape[1:])
        made[one] = noise.normal(size=shape) if empty.dtype.kind == "f" else noise.integers(0, 4, shape).astype(empty.dtype)
    return made


def _numbers(array: Any, rnd: Random) -> Any:
    """The array with other numbers: all of them, or one."""
    if not array.size:
        return array
    changed = array.copy()
    at = slice(None) if rnd.random() < 0.4 else rnd.randrange(array.size)
    flat = changed.reshape(-1)
    with np.errstate(all="ignore"):
        if array.dtype.kind != "f":
            flat[at] += np.array(rnd.choice((1, -1, 2, 100)), array.dtype)
        elif rnd.random() < 0.7:
            with np.errstate(over="ignore"):  # of float32
                flat[at] *= rnd.choice(FACTORS)
        else:
            with np.errstate(over="ignore"):
                flat[at] = rnd.choice((rnd.gauss(0, 1), 0.0, flat[rnd.randrange(flat.size)], rnd.choice(REALS)))
    return changed


def mutate_arrays(held: Snapshot, rnd: Random, kinds: int = 12) -> bytes:
    """Arrays of other numbers, shapes and types, offsets, names, a description."""
    arrays, names, offsets = list(held.arrays), list(held.names), dict(held.offsets)
    description, fingerprint = held.description, held.fingerprint
    for _ in range(rnd.choice((1, 1, 1, 2, 3))):
        kind = rnd.randrange(kinds)
        if kind < 9 and arrays:
            at = rnd.randrange(len(arrays))
            if kind == 8:
                arrays[at : at + 1] = rnd.choice(([], [arrays[at]] * 2, [rnd.choice(arrays)]))
            else:
                arrays[at] = _other(arrays[at], rnd)
        elif kind == 9:
            names = rnd.choice((names[:-1], [*names, rnd.choice(TEXTS)], names * 2, [rnd.choice(TEXTS)] * 2000, []))
        elif kind == 10:
            offsets = rnd.choice(({}, {("imu", 0): -(2**63)}, {("imu", n): 2**63 - 1 for n in (-(2**31), 7)}, {("", 0): -1}))
        else:
            description, fingerprint = rnd.choice(DEEP), rnd.choice((fingerprint, bytes(16)))
    return snapshot.encode(Snapshot(fingerprint, description, offsets, names, arrays))


def _other(array: Any, rnd: Random) -> Any:
    if isinstance(array, LeftOut):
        return rnd.choice((LeftOut(rnd.randbytes(HASH_BYTES)), np.zeros(rnd.randrange(9)), array))
    kind = rnd.randrange(8)
    if kind < 5:
        changed = array.copy()
        flat = changed.reshape(-1)
        for _ in range(min(flat.size, rnd.choice((1, 1, 3, flat.size)))):
            flat[rnd.randrange(flat.size)] = _edge(array.dtype, rnd)
        return changed
    if kind == 5 and array.ndim:
        return np.ascontiguousarray(np.repeat(array, 2, axis=rnd.randrange(array.ndim)))
    if kind == 6 and array.ndim:
        return np.ascontiguousarray(array[: rnd.randrange(len(array) + 1)] if len(array) else _grown(array))
    if rnd.random() < 0.5:
        return array.reshape(-1) if rnd.random() < 0.5 else array.reshape(1, *array.shape)
    if rnd.random() < 0.2:
        return np.zeros((0, 2**20, 2**20))
    with np.errstate(invalid="ignore"):
        return array.astype("<i8" if array.dtype.kind == "f" else "<f8")


def _edge(dtype: Any, rnd: Random) -> Any:
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array([rnd.choice(REALS)]).astype(dtype)[0]
    return np.array([rnd.choice(EDGES) * rnd.choice((1, -1)) % 2**64], np.uint64).astype(dtype)[0]


def _grown(array: Any) -> Any:
    """A thousand rows of an empty array, where they are not too large."""
    return np.zeros((1000, *array.shape[1:]) if np.prod(array.shape[1:]) < 1000 else 5, array.dtype)
