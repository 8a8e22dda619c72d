"""Speed of learners: microseconds an event, one key and 1000 keys in random order; seconds to load the compiled loop.

    python -m tests.bench learners [name ..]      all registered learners, or these

x has 39 numbers. Best of many short runs, in time of this process: other processes slow it down less than wall time.
"""

import sys
import time
from typing import Any

import numpy as np

from algorithms import LEARNERS, Learner, learner_from

DIM, ROWS, RUNS = 39, 4000, 25
LIMIT = 100  # stored samples of learners that have no limit of their own
OKFEB = {"rank": 10, "budget": 15}
EXTRA: dict[str, list[tuple[dict[str, Any], str]]] = {
    "okfeb": [
        ({**OKFEB, "role": "track"}, "all admitted, target 6 us"),
        ({**OKFEB, "role": "track", "censor": "moving_average"}, "moving average, target 3 us"),
        ({**OKFEB, "role": "head"}, "role head"),
        ({**OKFEB, "role": "track", "evict": "decayed_norm"}, "all admitted, decayed_norm"),
    ],
    "chain": [({"extractor": {"name": "okfeb", **OKFEB, "role": "head"}, "head": {"name": "rls"}}, "okfeb + rls")],
    "lms": [({}, "")],
}


def stream(learner: Learner, keys: int) -> tuple[Any, ...]:
    """Arguments of `advance` for ROWS rows of `keys` keys in random order, each key past its seed."""
    rng = np.random.default_rng(0)
    dim = 1 if learner.kind == "drift" else DIM
    X = rng.normal(size=(ROWS, dim))
    start = learner.init(dim=dim, targets=0 if learner.kind in ("drift", "features") else 1, seed=0)
    targets = learner.targets(start)
    Y = np.sign(X[:, :1]).repeat(targets, axis=1) if targets else np.zeros((ROWS, 0))
    started, _ = learner.run(start, X[:60], Y[:60])
    work = learner.workspace(started, slots=keys, extra=ROWS)
    for slot in range(keys):
        learner.load(work, slot, started)
    return work, rng.integers(0, keys, ROWS), X, Y, learner.outputs(ROWS, dim, targets)


def microseconds(learner: Learner, keys: int) -> tuple[float, float]:
    """Best time of an event, and the share of rows admitted."""
    work, slots, X, Y, out = stream(learner, keys)
    best = np.inf
    rng = np.random.default_rng(1)
    for _ in range(RUNS):
        out.admitted[:] = 0
        slots = rng.permutation(slots)  # a key must not meet the rows it stored in the run before
        started = time.process_time()
        learner.advance(work, slots, X, Y, out)
        best = min(best, time.process_time() - started)
    return best / ROWS * 1e6, float(out.admitted.mean())


def main(arguments: list[str] | None = None) -> int:
    print(f"{'learner':14}{'one key':>10}{'1000 keys':>11}{'admitted':>10}{'first run':>11}")
    for name in arguments or LEARNERS:
        for settings, said in EXTRA.get(name, [({}, "")]):
            learner = learner_from(name, settings)
            for limit in ("budget", "max_terms"):
                if not learner.bounded and hasattr(learner, limit):
                    learner, said = learner_from(name, {**settings, limit: LIMIT}), f"{limit} {LIMIT}"
            if not learner.bounded:
                print(f"{name:14} stores every row, so that no two runs are alike: not measured")
                continue
            started = time.perf_counter()
            stream(learner, 1)
            compiled = time.perf_counter() - started
            one, admitted = microseconds(learner, 1)
            many, _ = microseconds(learner, 1000)
            print(f"{name:14}{one:7.2f} us{many:8.2f} us{admitted:10.2f}{compiled:9.2f} s   {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
