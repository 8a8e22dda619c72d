"""What all linear heads share: scores, the loss, and weights carried over a change of basis."""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array, Basis


@compiled
def score(weights: Array, x: Array, prediction: Array) -> None:
    """prediction = weights' x."""
    for t in range(prediction.size):
        prediction[t] = 0.0
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
def carry(basis: Basis, n: int, weights: Array) -> None:
    """weights = transfer[n] @ weights, when row n turned the basis."""
    if basis.moved.size == 0 or basis.moved[n] == 0:
        return
    transfer = basis.transfer[n]
    turned = np.empty(weights.shape)
    for i in range(weights.shape[0]):
        for t in range(weights.shape[1]):
            total = 0.0
            for j in range(weights.shape[0]):
                total += transfer[i, j] * weights[j, t]
            turned[i, t] = total
    for i in range(weights.shape[0]):
        for t in range(weights.shape[1]):
            weights[i, t] = turned[i, t]
