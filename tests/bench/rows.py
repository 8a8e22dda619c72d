"""`rows`: what a row costs that comes alone, through `run`, `Online` and the estimators, beside one of a batch."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from algorithms import learner_from
from algorithms.online import Online
from streamjobs import river, sklearn

LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> class, settings
    "okfeb": ("OKFEB", {"rank": 10, "budget": 15}),
    "rls": ("RLS", {}),
    "krls": ("KRLS", {"budget": 60}),
}
ROWS, ALONE, DIM = 2000, 300, 6


def _cost(call: Callable[[int], object], times: int) -> float:
    """Microseconds of processor a call."""
    begun = time.process_time()
    for n in range(times):
        call(n)
    return (time.process_time() - begun) / times * 1e6


def main(arguments: list[str]) -> int:
    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, DIM))
    y = X @ random.normal(size=DIM)
    named = [dict(zip("abcdef", row.tolist(), strict=True)) for row in X]
    print("microseconds of processor a row (row by row: rows that come alone)\n")
    print(f"{'learner':>10}{'a batch':>10}{'run':>10}{'Online':>10}{'partial_fit':>13}{'learn_one':>11}")
    for name, (title, settings) in LEARNERS.items():
        learner = learner_from(name, settings)
        state = learner.init(dim=DIM, targets=1, seed=0)
        Y = y.reshape(-1, 1) if learner.kind != "features" else np.zeros((ROWS, 0))
        whole, _ = learner.run(state, X, Y)
        estimator = sklearn.ESTIMATORS[title](**settings).partial_fit(X, y)
        model = river.MODELS[title](**settings)
        online = Online(learner, whole)
        given = (lambda n: (named[n],)) if learner.kind == "features" else (lambda n: (named[n], y[n]))
        for n in range(ALONE):
            model.learn_one(*given(n))
        costs = (
            _cost(lambda n: learner.run(state, X, Y), 3) / ROWS,  # noqa: B023
            _cost(lambda n: learner.run(whole, X[n : n + 1], Y[n : n + 1]), ALONE),  # noqa: B023
            _cost(lambda n: online.run(X[n : n + 1], Y[n : n + 1]), ALONE),  # noqa: B023
            _cost(lambda n: estimator.partial_fit(X[n : n + 1], y[n : n + 1]), ALONE),  # noqa: B023
            _cost(lambda n: model.learn_one(*given(n)), ALONE),  # noqa: B023
        )
        widths = (10, 10, 10, 13, 11)
        print(f"{name:>10}" + "".join(f"{cost:{width}.1f}" for cost, width in zip(costs, widths, strict=True)))
    return 0
