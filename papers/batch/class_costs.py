"""Classification by dictionaries of one class each: the class is the one with the least costly dictionary."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from algorithms.common.protocol import PREDICT_ONLY, Array
from algorithms.dictionary.family import DictionaryLearner, DictionaryState


def class_costs(learner: DictionaryLearner, states: Sequence[DictionaryState], X: ArrayLike) -> Array:
    """f of (2) for each row of X (n, dim) under each state, (n, classes); the class is its argmin.

    Each state is learned from rows of one class alone, and stays as it is. A column is NaN until that state has its atoms.
    Raises ValueError for X of another width than the states'. Source: Kim, "Online kernel dictionary learning", Section IV.

    >>> from algorithms.dictionary.okdl import Okdl
    >>> learner = Okdl(atoms=2, budget=5)
    >>> low, high = (learner.run(learner.init(dim=1, targets=0, seed=0), X)[0] for X in ([[0.0], [0.5]], [[4.0], [5.0]]))
    >>> class_costs(learner, [low, high], [[0.2], [4.4], [1.0]]).argmin(axis=1)
    array([0, 1, 0])
    """
    rows = np.require(np.atleast_2d(np.asarray(X, np.float64)), requirements=["C", "W"])
    dims = {learner.dim(state) for state in states}
    if dims != {rows.shape[1]}:
        raise ValueError(f"class_costs: expected X of shape (n, {', '.join(map(str, sorted(dims)))}), got {rows.shape}.")
    costs = np.empty((len(rows), len(states)))
    for column, state in enumerate(states):
        work, out = learner.workspace(state), learner.outputs(len(rows), rows.shape[1], 0)
        learner.load(work, 0, state)
        learn = np.full(len(rows), PREDICT_ONLY, np.int8)
        learner.advance(work, np.zeros(len(rows), np.int64), rows, np.zeros((len(rows), 0)), out, learn)
        costs[:, column] = out.loss
    return costs
