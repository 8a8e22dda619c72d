"""Every learner through a million rows with bad data among them: outliers at 10, 30, 100 sd, sensors that stand still.

Each chunk of 10,000 rows has an outlier every 1000 rows and ends with 500 equal ones. After each chunk the state must be
finite and within its bound, and so must what comes of the rows that are neither. Learners without a bound, which a job
refuses, get a limit of 100; `okfe`, which has none, gets 2000 rows. Maps that take nearly every row of such a stream in
are small ones: it is the number of admissions that is tried.
"""

import time
from typing import Any

import numpy as np

from algorithms import LEARNERS, Learner, learner_from
from algorithms.common.protocol import Array
from algorithms.drift.report import watches_columns
from papers.common import line, options, verdict
from papers.okfeb_robust import DIM, stream
from streamjobs.core.state.snapshot import state_fields
from streamjobs.learner_checks.states import nbytes

ROWS, CHUNK, BUDGET, FEW = 1_000_000, 10_000, 100, 2000
OUTLIERS = (10.0, 30.0, 100.0)  # sd, in turn
EVERY, STILL = 1000, 500  # rows
SMALL = {"rank": 5, "seed_size": 30, "budget": 30}
CHAINS: dict[str, dict[str, Any]] = {
    "chain okfeb rls": {"extractor": {"name": "okfeb", "role": "head"}, "head": {"name": "rls"}},
    "chain okfeb lms": {"extractor": {"name": "okfeb", "role": "track"}, "head": {"name": "lms", "step_size": 0.1}},
    "chain sispeed rls": {"extractor": {"name": "sispeed", **SMALL}, "head": {"name": "rls"}},
    "chain rff lms": {"extractor": {"name": "rff", "features": 100}, "head": {"name": "lms", "step_size": 0.1}},
}
FIXED = {"rank": 20, "map_size": 500}
SETTINGS: dict[str, dict[str, Any]] = {
    **{"speed": FIXED, "sparse_speed": FIXED, "ispeed": SMALL, "sispeed": SMALL},
    "auto_bandwidth": {"learner": {"name": "krls", "budget": 50}},
    "one_vs_rest": {"learner": {"name": "logistic"}},
}


def learners() -> dict[str, Learner]:
    """All there are by name, of chains some."""
    found = {told: learner_from("chain", parts) for told, parts in CHAINS.items()}
    for name in LEARNERS.keys() - {"chain"}:
        settings = SETTINGS.get(name, {})
        learner = learner_from(name, settings)
        for limit in ("budget", "max_terms"):
            if not learner.bounded and hasattr(learner, limit):
                learner = learner_from(name, {**settings, limit: BUDGET})
        found[name] = learner
    return dict(sorted(found.items()))


def chunk(learner: Learner, rng: np.random.Generator, rows: int) -> tuple[Array, Array, Array]:
    """X, Y, and which rows are ordinary ones."""
    X = stream(rng, rows)
    signal = np.sin(X[:, :1]) + 0.5 * X[:, 1:2] * X[:, 2:3] + 0.05 * rng.normal(size=(rows, 1))
    Y = np.where(signal >= 0, 1.0, -1.0) if learner.kind == "classification" else signal
    ordinary = np.ones(rows, bool)
    for place, at in enumerate(range(0, rows, EVERY)):
        X[at] *= OUTLIERS[place % len(OUTLIERS)]
        ordinary[at] = False
    still = min(STILL, rows // 4)
    X[-still:] = X[-1]
    ordinary[-still:] = False
    if learner.kind == "drift" and not watches_columns(learner):
        X = np.abs(X[:, :1])
    return X, Y if learner.kind in ("regression", "classification") else np.zeros((rows, 0)), ordinary


def endured(learner: Learner, rows: int) -> tuple[list[str], float, int, float]:
    """What went wrong; error of the last tenth over that of the first, NaN where there is none; bytes; us a row."""
    dim, targets = (1, 0) if learner.kind == "drift" and not watches_columns(learner) else (DIM, 1)
    state, rng = learner.init(dim=dim, targets=targets, seed=0), np.random.default_rng(0)
    wrong: set[str] = set()
    errors, used = [], 0.0
    for begin in range(0, rows, min(CHUNK, rows)):
        X, Y, ordinary = chunk(learner, rng, min(CHUNK, rows))
        started = time.process_time()
        state, out = learner.run(state, X, Y)
        used += time.process_time() - started
        wrong |= {f"{path} is not finite" for path, value in state_fields(state) if not np.isfinite(value).all()}
        if learner.bounded and nbytes(state) > learner.state_bytes(dim, targets):
            wrong.add("the state is larger than its bound")
        if begin and learner.kind != "drift":  # maps are made of the first rows
            given = {"features": out.features, "prediction": out.prediction}
            wrong |= {f"{field} is not finite" for field, array in given.items() if not np.isfinite(array[ordinary]).all()}
        error = out.loss if targets and learner.targets(state) else out.ls_error
        if np.isfinite(error[ordinary]).any():
            errors.append(np.nanmedian(error[ordinary]))
    tenth = max(1, len(errors) // 10)
    first = float(np.mean(errors[:tenth])) if errors else 0.0
    ratio = float(np.mean(errors[-tenth:])) / first if first else np.nan  # a loss may be 0 from the beginning
    return sorted(wrong), ratio, nbytes(state), used / rows * 1e6


def main(arguments: list[str] | None = None) -> int:
    given = options("learners_robust", __doc__, arguments, quick="20,000 rows instead of a million")
    missed = []
    print(f"{'':44} {'us a row, bytes, error':>26}   last tenth of the errors over the first")
    for name, learner in learners().items():
        rows = FEW if not learner.bounded else 20_000 if given.quick else ROWS
        wrong, ratio, size, each = endured(learner, rows)
        what = name if rows != FEW else f"{name}, {FEW} rows"
        ours = f"{each:.1f} us, {size:,} bytes, " + ("-" if np.isnan(ratio) else f"{ratio:.2f}")
        missed += line(what, ours, ", ".join(wrong) or "finite, within its bound", not wrong)
    verdict("beyond the papers: nothing non-finite in a state or in what comes of ordinary rows, and no state grows", missed)
    return 0
