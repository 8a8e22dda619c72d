"""What the scripts on dictionary learning share: the paper's settings, and a run whose cost has the atoms' lengths in it."""

from typing import Any

import numpy as np

from algorithms import Learner, learner_from
from algorithms.common.protocol import Array
from papers import usps

L1, RIDGE = 0.01, 0.01
SHARED: dict[str, Any] = {"kernel": usps.KERNEL, "l1": L1, "ridge": RIDGE}
FORMS = {"okdl": SHARED, "okdl_discriminative": {**SHARED, "l2": 1e-3, "nu": 0.01, "step_freeze": -1}}


def made(name: str, **settings: Any) -> Learner:
    return learner_from(name, {**FORMS[name], **settings})


def costs(learner: Any, X: Array, Y: Array | None = None) -> tuple[Array, Array, Array, Any]:
    """Of each row: its loss before the step; mu / 2 |D|^2 after it; its LS error; and the last state."""
    targets = np.zeros((len(X), 0)) if Y is None else Y
    state = learner.init(dim=X.shape[1], targets=targets.shape[1], seed=0)
    work, out = learner.workspace(state, extra=len(X)), learner.outputs(len(X), X.shape[1], targets.shape[1])
    learner.load(work, 0, state)
    slot, lengths = np.zeros(1, np.int64), np.empty(len(X))
    for n in range(len(X)):
        rows = slice(n, n + 1)
        learner.advance(work, slot, X[rows], targets[rows], type(out)(*(array[rows] for array in out)))
        lengths[n] = 0.5 * learner.ridge * np.trace(work["H"][0])
    return out.loss, lengths, out.ls_error, learner.save(work, 0, state)


def smooth(values: Array, window: int = 100) -> Array:
    """Means of `window` values in a row, NaN left out."""
    whole = len(values) // window * window
    parts = values[:whole].reshape(-1, window)
    known = np.isfinite(parts).sum(axis=1)
    means: Array = np.where(known > 0, np.nansum(parts, axis=1) / np.maximum(known, 1), np.nan)
    return means
