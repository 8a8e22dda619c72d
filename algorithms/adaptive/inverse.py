"""For filters that keep a symmetric matrix over their stored samples, as a lower triangle by rows."""

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array


@compiled
def identity(triangle: Array, count: int) -> None:
    """The lower triangle of the identity of size `count`, by rows, in place."""
    for i in range(count):
        at = i * (i + 1) // 2
        for j in range(i):
            triangle[at + j] = 0.0
        triangle[at + i] = 1.0


@compiled
def take_over(weights: Array, leaving: int, count: int, along: Array) -> None:
    """weights[j] += along[j] weights[leaving]: what the others take over from a sample before it is removed."""
    for j in range(count):
        if j != leaving:
            for t in range(weights.shape[1]):
                weights[j, t] += along[j] * weights[leaving, t]
