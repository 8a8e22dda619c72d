"""What all linear heads share: scores, losses, the guarded step, the optional constant input, a change of basis.

`intercept` appends a constant 1 to the features, and the algorithm treats it as one more input.
Its weights are the state's `bias (targets,)`, so that `weights` stays (dim, targets); without intercept it stays as given.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import LARGEST_STEP, largest, norm2
from algorithms.common.protocol import Array, Basis


@compiled
def score(weights: Array, bias: Array, x: Array, prediction: Array) -> None:
    """prediction = weights' x + bias."""
    for t in range(prediction.size):
        prediction[t] = bias[t]
    for i in range(x.size):
        for t in range(prediction.size):
            prediction[t] += x[i] * weights[i, t]


@compiled
def squared_loss(prediction: Array, y: Array) -> float:
    total = 0.0
    for t in range(y.size):
        gap = y[t] - prediction[t]
        total += gap * gap
    return total


@compiled
def length2(x: Array, intercept: bool) -> float:
    """|x|^2, the constant input included."""
    return norm2(x) + 1.0 if intercept else norm2(x)


@compiled
def step(weights: Array, bias: Array, x: Array, keep: float, along: Array, intercept: bool) -> bool:
    """weights = keep weights + x along', and the same for the bias; False and nothing done where that is out of range."""
    if not largest(along) * max(largest(x), 1.0) < LARGEST_STEP:
        return False
    for i in range(x.size):
        for t in range(along.size):
            weights[i, t] = keep * weights[i, t] + x[i] * along[t]
    if intercept:
        for t in range(along.size):
            bias[t] = keep * bias[t] + along[t]
    return True


@compiled
def carry(basis: Basis, n: int, weights: Array) -> None:
    """weights = transfer[n] @ weights, when row n turned the basis."""
    if basis.moved.size == 0 or basis.moved[n] == 0:
        return
    transfer = basis.transfer[n]
    turned = np.zeros(weights.shape)
    for i in range(weights.shape[0]):
        for j in range(weights.shape[0]):
            factor = transfer[i, j]
            for t in range(weights.shape[1]):
                turned[i, t] += factor * weights[j, t]
    for i in range(weights.shape[0]):
        for t in range(weights.shape[1]):
            weights[i, t] = turned[i, t]
