"""The linear heads as their papers print them, in plain NumPy, a constant column where an intercept is asked for.

Each takes the rows of one stream, Y without gaps, and gives the predictions (n, targets) made before each row is learned,
and the weights at the end (the constant's last).
"""

from typing import Any

import numpy as np

from algorithms.common.protocol import Array


def head(name: str, X: Array, Y: Array, *, intercept: bool, **settings: Any) -> tuple[Array, Array]:
    """The head `name` over all rows."""
    Z = np.column_stack([X, np.ones(len(X))]) if intercept else X
    return HEADS[name](Z, Y, **settings)


def lms(Z: Array, Y: Array, *, step_size: float, ridge: float) -> tuple[Array, Array]:
    W = np.zeros((Z.shape[1], Y.shape[1]))
    predictions = []
    for z, y in zip(Z, Y, strict=True):
        predictions.append(W.T @ z)
        W = W + step_size * (np.outer(z, y - W.T @ z) - ridge * W)
    return np.array(predictions), W


def nlms(Z: Array, Y: Array, *, step_size: float, ridge: float) -> tuple[Array, Array]:
    W = np.zeros((Z.shape[1], Y.shape[1]))
    predictions = []
    for z, y in zip(Z, Y, strict=True):
        predictions.append(W.T @ z)
        W = W + step_size * np.outer(z, y - W.T @ z) / (ridge + z @ z)
    return np.array(predictions), W


def rls(Z: Array, Y: Array, *, forgetting: float, delta: float) -> tuple[Array, Array]:
    W, P = np.zeros((Z.shape[1], Y.shape[1])), delta * np.eye(Z.shape[1])
    predictions = []
    for z, y in zip(Z, Y, strict=True):
        predictions.append(W.T @ z)
        gain = P @ z / (forgetting + z @ P @ z)
        W = W + np.outer(gain, y - W.T @ z)
        P = (P - np.outer(gain, z @ P)) / forgetting
    return np.array(predictions), W


def pegasos(Z: Array, Y: Array, *, ridge: float) -> tuple[Array, Array]:
    W = np.zeros((Z.shape[1], Y.shape[1]))
    predictions = []
    for t, (z, y) in enumerate(zip(Z, np.where(Y > 0, 1, -1), strict=True), start=1):
        predictions.append(W.T @ z)
        W = (1 - 1 / t) * W
        for k in range(len(y)):
            if y[k] * (W[:, k] @ z) < 1:
                W[:, k] += y[k] * z / (ridge * t)
    return np.array(predictions), W


def pa(Z: Array, Y: Array, *, aggressiveness: float) -> tuple[Array, Array]:
    W = np.zeros((Z.shape[1], Y.shape[1]))
    predictions = []
    for z, y in zip(Z, np.where(Y > 0, 1, -1), strict=True):
        predictions.append(W.T @ z)
        for k in range(len(y)):
            hinge = max(0.0, 1 - y[k] * (W[:, k] @ z))
            W[:, k] += y[k] * min(aggressiveness, hinge / (z @ z)) * z
    return np.array(predictions), W


def logistic(Z: Array, Y: Array, *, step_size: float, ridge: float) -> tuple[Array, Array]:
    W = np.zeros((Z.shape[1], Y.shape[1]))
    predictions = []
    for z, y in zip(Z, Y, strict=True):
        scores = W.T @ z
        predictions.append(scores)
        if len(y) == 1:
            wrong = (y > 0) - 1 / (1 + np.exp(-scores))
        else:
            wrong = np.eye(len(y))[np.argmax(y)] - np.exp(scores) / np.exp(scores).sum()
        W = W + step_size * (np.outer(z, wrong) - ridge * W)
    return np.array(predictions), W


HEADS = {"lms": lms, "nlms": nlms, "rls": rls, "pegasos": pegasos, "pa": pa, "logistic": logistic}


def loss(name: str, prediction: Array, y: Array) -> float:
    """The loss of one row's prediction."""
    if name in ("lms", "nlms", "rls"):
        return float(np.square(y - prediction).sum())
    if name in ("pegasos", "pa"):
        return float(np.maximum(0, 1 - np.where(y > 0, 1, -1) * prediction).sum())
    if len(y) == 1:
        return float(np.log(1 + np.exp(-np.where(y[0] > 0, 1, -1) * prediction[0])))
    return float(-np.log(np.exp(prediction[np.argmax(y)]) / np.exp(prediction).sum()))
