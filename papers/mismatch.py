"""Kernel mismatch over moving windows, the features frozen at the window's end."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms import Learner
from algorithms.common.kernels import Kernel, gram
from papers.batch.subspace import mismatch

Array = NDArray[Any]


def tracked(learner: Learner, kernel: Kernel, X: Array, *, window: int = 100, every: int = 20, seed: int = 0) -> float:
    """Mean mismatch over windows that end at window, window + every, ..: what was learned up to a window's end."""
    state = learner.init(dim=X.shape[1], targets=0, seed=seed)
    state, _ = learner.run(state, X[:window])
    found = []
    for end in range(window, len(X) + 1, every):
        rows = X[end - window : end]
        found.append(mismatch(kernel, rows, learner.transform(state, rows)))
        state, _ = learner.run(state, X[end : end + every])
    return float(np.mean(found))


def of_features(kernel: Kernel, X: Array, U: Array, *, shift: float = 0.0, window: int = 100, every: int = 20) -> float:
    """The same for fixed features U of all rows; the matrix is stood for by U U' + shift I."""
    return linked(kernel, X, U, np.eye(U.shape[1]), shift=shift, window=window, every=every)


def linked(kernel: Kernel, X: Array, Q: Array, S: Array, *, shift: float = 0.0, window: int = 100, every: int = 20) -> float:
    """The same where Q S Q' + shift I stands for the matrix."""
    gaps = []
    for end in range(window, len(X) + 1, every):
        rows = slice(end - window, end)
        gaps.append(np.linalg.norm(gram(kernel, X[rows], X[rows]) - Q[rows] @ S @ Q[rows].T - shift * np.eye(window)))
    return float(np.mean(gaps) / window)
