"""How the basis of a subspace learner changes from one row to the next."""

import numpy as np

from algorithms import Basis
from algorithms.common.kernels import gram
from algorithms.common.protocol import LEARN_EXTRACTOR


def with_basis(learner, state, row):
    work = learner.workspace(state)
    learner.load(work, 0, state)
    basis = Basis(np.zeros(1, np.int8), np.zeros((1, 3, 3)))
    one = np.full(1, LEARN_EXTRACTOR, np.int8)
    out = learner.outputs(1, 3, 0)
    learner.advance(work, np.zeros(1, np.int64), row[None], np.zeros((1, 0)), out, one, basis)
    return learner.save(work, 0, state), basis


def way(learner, old, new):
    """R'^-T L'^T L R^-1 from the two states."""

    def upper(state):
        return np.linalg.cholesky(state.factor.T @ gram(learner.kernel, state.support, state.support) @ state.factor).T

    shared = new.factor.T @ gram(learner.kernel, new.support, old.support) @ old.factor
    return np.linalg.solve(upper(new).T, shared) @ np.linalg.inv(upper(old))
