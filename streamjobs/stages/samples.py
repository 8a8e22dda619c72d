"""Samples of many keys as the compiled loops of the signal stages take them and give them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array, plain


class Samples(NamedTuple):
    """Columns of samples in arrival order. A loop takes as many of them as it needs, from the first."""

    slots: Array  # (n,) int64
    times: Array  # (n,) float64 event time, seconds
    X: Array  # (n, dim) float64
    L: Array  # (n, labels) float64
    owner: Array  # (n,) int64
    untimed: Array  # (n,) bool, the time is that of the record
    learn: Array  # (n,) int8


TYPES = Samples(*map(np.dtype, (np.int64, np.float64, np.float64, np.float64, np.int64, np.bool_, np.int8)))  # type: ignore[arg-type]


def plain_columns(*columns: Array) -> tuple[Array, ...]:
    """The first columns of `Samples`, writable and C-contiguous: numba would compile loops again for other arrays."""
    pairs = zip(columns, TYPES, strict=False)
    return tuple([one if one.dtype == kind and one.flags.carray else plain(one, kind) for one, kind in pairs])


def joined(parts: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Columns of a loop that paused, one after another."""
    return parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))
