"""States and outputs as bits: compared, copied, rebuilt from bytes."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from algorithms import Outputs
from algorithms.common.protocol import Array
from streamjobs.core.state.snapshot import Snapshot, decode, encode, flatten, state_fields, unflatten


def rebuilt(state: Any, change: Callable[[Any], Any]) -> Any:
    """The state with every array and number replaced."""
    return type(state)(*(rebuilt(value, change) if hasattr(value, "_fields") else change(value) for value in state))


def copied(state: Any) -> Any:
    return rebuilt(state, lambda value: np.array(value) if isinstance(value, np.ndarray) else value)


def nbytes(state: Any) -> int:
    return sum(np.asarray(value).nbytes for _, value in state_fields(state))


def through_bytes(state: Any, like: Any) -> Any:
    """The state after being stored and restored."""
    stored = encode(Snapshot(bytes(16), "", {}, [], flatten(state)))
    return unflatten(like, decode(stored).arrays)


def same_state(a: Any, b: Any, when: str) -> None:
    """Fail unless both states are equal bit for bit, types and shapes included."""
    one, two = list(state_fields(a)), list(state_fields(b))
    assert [path for path, _ in one] == [path for path, _ in two], f"{when}: the state has other fields"
    for (path, left), (_, right) in zip(one, two, strict=True):
        assert type(left) is type(right), f"{when}: {path} became a {type(right).__name__}"
        if isinstance(left, np.ndarray):
            same = left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
        elif isinstance(left, float):
            same = struct.pack("d", left) == struct.pack("d", right)
        else:
            same = left == right
        assert same, f"{when}: {path} differs: {left!r} and {right!r}"


def same_outputs(a: Outputs, b: Outputs, when: str, fields: tuple[str, ...] = Outputs._fields) -> None:
    """Fail unless the named outputs are equal bit for bit (one NaN is as good as another)."""
    for field in fields:
        left, right = getattr(a, field), getattr(b, field)
        assert left.shape == right.shape, f"{when}: {field} has shapes {left.shape} and {right.shape}"
        unequal = _bits(left) != _bits(right)
        if unequal.any():
            row = int(np.argwhere(unequal)[0][0])
            raise AssertionError(f"{when}: {field} of row {row} differs: {left[row]!r} and {right[row]!r}")


def same_run(a: tuple[Any, Outputs], b: tuple[Any, Outputs], when: str) -> None:
    """Fail unless both runs gave the same outputs and left the same state."""
    same_outputs(a[1], b[1], when)
    same_state(a[0], b[0], when)


def rows_of(out: Outputs, rows: Any) -> Outputs:
    return Outputs(*(array[rows] for array in out))


def joined(outs: list[Outputs]) -> Outputs:
    return Outputs(*(np.concatenate(arrays) for arrays in zip(*outs, strict=True)))


def _bits(array: Array) -> Array:
    if array.dtype != np.float64:
        return array
    return np.where(np.isnan(array), np.float64(np.nan), array).view(np.int64)
