"""What the scripts of the BlockGreedy paper share: its data sets, and what a set of prototypes is worth."""

from typing import Any

import numpy as np

from algorithms import Learner, learner_from
from algorithms.common.kernels import gram, kernel_from
from algorithms.common.protocol import Array
from papers.batch.full_greedy import full_greedy
from tests.data import dataset

RIDGE = 1.0  # lambda of the criterion, as in the paper
RELATIVE = {"gain_rule": "relative", "min_gain": 0.001}
SPAN_RIDGE = 1e-6
OVERLAP = {"name": "overlap"}


def z_scored(X: Array, by: Array | None = None) -> Array:
    by = X if by is None else by
    return (X - by.mean(axis=0)) / np.maximum(by.std(axis=0), 1e-12)


def telemonitoring() -> tuple[Array, Array]:
    """The 16 voice measures, z-scored, and total UPDRS."""
    data = dataset("parkinsons")
    return z_scored(data["X"][:, 3:]), data["y"].astype(float)


def gaussian(bandwidth: float) -> dict[str, Any]:
    return {"name": "gaussian", "bandwidth": bandwidth}


def sets() -> dict[str, tuple[Array, dict[str, Any]]]:
    """Rows and kernel of each data set of Section 6; Adult as codes stands for Census 1990."""
    santa_fe = dataset("santafe_a")["X"][:1000] / 255.0
    return {
        "Telemonitoring": (telemonitoring()[0], gaussian(4.0)),
        "Boston": (z_scored(dataset("boston")["X"].astype(float)), gaussian(1.0)),
        "Santa Fe A": (santa_fe.astype(float), gaussian(0.9)),
        "Adult, codes": (dataset("adult_cat")["X"][:5000].astype(float), OVERLAP),
    }


def shuffled(X: Array, seed: int) -> Array:
    return np.ascontiguousarray(X[np.random.default_rng(seed).permutation(len(X))])


def log_det(S: Array, kernel: dict[str, Any]) -> float:
    """g(S), from nothing."""
    return float(np.linalg.slogdet(gram(kernel_from(kernel), S, S) + RIDGE * np.eye(len(S)))[1])


def ls_error(S: Array, X: Array, kernel: dict[str, Any]) -> float:
    """Mean squared distance of phi(x) to the span of S."""
    made = kernel_from(kernel)
    K, k = gram(made, S, S) + SPAN_RIDGE * np.eye(len(S)), gram(made, X, S)
    own = np.array([gram(made, x[None], x[None])[0, 0] for x in X]) if kernel["name"] == "polynomial" else np.ones(len(X))
    return float((own - (k * np.linalg.solve(K, k.T).T).sum(axis=1)).mean())


def run(learner: Learner, X: Array, seed: int = 0) -> Any:
    """The state after all rows."""
    return learner.run(learner.init(dim=X.shape[1], targets=0, seed=seed), X)[0]


def rule(name: str, kernel: dict[str, Any], budget: int, **settings: Any) -> Learner:
    return learner_from(name, {"kernel": kernel, "budget": budget, **settings})


def offline(X: Array, kernel: dict[str, Any], budget: int) -> tuple[Array, float]:
    """FullGreedy's prototypes and their g."""
    chosen, total = full_greedy(X, kernel=kernel_from(kernel), budget=budget, ridge=RIDGE)
    return X[chosen], total
