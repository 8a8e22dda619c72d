"""What a row costs in streamjobs.sklearn, one call a row, beside the learner alone.

    python -m tests.bench estimators

Microseconds of the processor, the best of several runs, of arrays with 6 columns.
"""

import time
from collections.abc import Callable

import numpy as np

from algorithms import learner_from
from algorithms.online import Online
from streamjobs.sklearn import OKFEB, RLS, RLSClassifier

ROWS, RUNS, DIM = 1000, 5, 6


def main(arguments: list[str] | None = None) -> int:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, DIM))
    y = X @ rng.normal(size=DIM)
    classes, Y, lists = (y > 0).astype(int), y.reshape(-1, 1), X.tolist()
    rls = learner_from("rls", {})
    state = rls.init(dim=DIM, targets=1, seed=0)
    online = Online(rls, state)
    regressor, classifier, extractor = RLS().fit(X, y), RLSClassifier().fit(X, classes), OKFEB().fit(X)
    for what, call in {
        "Online(rls).run": lambda n: online.run(X[n : n + 1], Y[n : n + 1]),
        "rls.run": lambda n: rls.run(state, X[n : n + 1], Y[n : n + 1]),
        "RLS.partial_fit": lambda n: regressor.partial_fit(X[n : n + 1], y[n : n + 1]),
        "RLS.partial_fit of lists": lambda n: regressor.partial_fit(lists[n : n + 1], y[n : n + 1]),
        "RLS.predict": lambda n: regressor.predict(X[n : n + 1]),
        "RLSClassifier.partial_fit": lambda n: classifier.partial_fit(X[n : n + 1], classes[n : n + 1]),
        "OKFEB.partial_fit": lambda n: extractor.partial_fit(X[n : n + 1]),
    }.items():
        print(f"{what:28}{_microseconds(call):8.1f} us a row", flush=True)
    return 0


def _microseconds(call: Callable[[int], object]) -> float:
    taken = []
    for _ in range(RUNS):
        begin = time.process_time()
        for n in range(ROWS):
            call(n)
        taken.append(time.process_time() - begin)
    return 1e6 * min(taken) / ROWS
