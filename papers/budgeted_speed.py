"""The budgeted learners beside plain C loops of the same methods (budgeted_loops.c): time of a row, as a ratio.

20,000 rows of 39 numbers, a budget of 100, labels that no learner gets right for long. Both run one after the other, and
the least processor time of several rounds counts. The scores of the first 1000 rows must agree: the same work is compared
(later ones of the Forgetron need not: 1e-15 grows to 1e-6 in 5000 rows). Without a C compiler (`cc`) nothing is measured.
"""

import ctypes
import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from algorithms import learner_from
from algorithms.budgeted.family import LEAVES
from algorithms.common.protocol import Array
from algorithms.common.randomness import uniform
from papers.common import line, options, verdict

ROWS, DIM, BUDGET, SIGMA, ROUNDS, MOST = 20_000, 39, 100, 6.0, 5, 3.0
ALIKE = 1000  # rows
FLAGS = ("-O3", "-march=native", "-fPIC", "-shared")
STEP, RIDGE, CAP = 0.2, 1e-3, 10.0
KEEP = 1 - STEP * RIDGE
MISTAKES, HINGE = 0, 1
CAUTION = 0.25 * math.sqrt((BUDGET + 1) / math.log(BUDGET + 1))
C_LOOPS: dict[str, tuple[str, tuple[float, ...]]] = {  # learner: C function, its numbers after sigma
    "perceptron": ("descent", (MISTAKES, 1.0, 1.0, 0, 0, 0.0)),
    "kogd": ("descent", (HINGE, STEP, 1.0, 0, 0, 0.0)),
    "norma": ("descent", (HINGE, STEP, KEEP, 0, 0, 0.0)),
    "rbp": ("descent", (MISTAKES, 1.0, 1.0, 1, 0, 0.0)),
    "bogd": ("descent", (HINGE, STEP, KEEP, 1, 1, CAP * STEP)),
    "forgetron": ("forgetron", ()),
    "projectron": ("projectron", (-1.0,)),
    "projectron_pp": ("projectron", (CAUTION,)),
    "bpas": ("bpas", (1.0,)),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "perceptron": {"max_terms": BUDGET},
    "kogd": {"max_terms": BUDGET, "step_size": STEP},
    "norma": {"max_terms": BUDGET, "step_size": STEP, "ridge": RIDGE},
    "bogd": {"budget": BUDGET, "step_size": STEP, "ridge": RIDGE, "coefficient_cap": CAP},
}


def stream(rows: int) -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    X = random.standard_normal((rows, DIM))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * random.standard_normal(rows)
    return X, np.where(signal >= 0, 1.0, -1.0)


def compiled(compiler: str, folder: Path) -> ctypes.CDLL:
    library = folder / "loops.so"
    source = Path(__file__).with_name("budgeted_loops.c")
    subprocess.run([compiler, *FLAGS, "-o", str(library), str(source), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def plain(library: ctypes.CDLL, name: str, X: Array, y: Array) -> Callable[[], Array]:
    """The C loop of a learner; gives its scores."""
    function, numbers = C_LOOPS[name]
    chance = np.array([uniform(0, LEAVES, n + 1) for n in range(len(X))])
    said = np.empty(len(X))
    arrays = (X, y, chance, said) if function == "descent" else (X, y, said)
    given: list[Any] = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for array in arrays]
    given += [ctypes.c_int(number) for number in (len(X), DIM, BUDGET)] + [ctypes.c_double(SIGMA)]
    given += [(ctypes.c_int if isinstance(number, int) else ctypes.c_double)(number) for number in numbers]

    def run() -> Array:
        library[function](*given)
        return said

    return run


def ours(name: str, X: Array, y: Array) -> Callable[[], Array]:
    learner = learner_from(
        name, {"kernel": {"name": "gaussian", "bandwidth": SIGMA}, **SETTINGS.get(name, {"budget": BUDGET})}
    )
    start = learner.init(dim=DIM, targets=1, seed=0)
    slots, out, Y = np.zeros(len(X), np.int64), learner.outputs(len(X), DIM, 1), y[:, None].copy()

    def run() -> Array:
        work = learner.workspace(start)
        learner.load(work, 0, start)
        learner.advance(work, slots, X, Y, out)
        return np.asarray(out.prediction[:, 0])

    return run


def measured(library: ctypes.CDLL, name: str, rows: int, rounds: int) -> tuple[float, float, float]:
    """Least microseconds a row of ours and of C, and how far apart their first scores are."""
    X, y = stream(rows)
    both = ours(name, X, y), plain(library, name, X, y)
    apart = float(np.abs(both[0]()[:ALIKE] - both[1]()[:ALIKE]).max())
    best = [np.inf, np.inf]
    for _ in range(rounds):
        for place, run in enumerate(both):
            begin = time.process_time()
            run()
            best[place] = min(best[place], time.process_time() - begin)
    return best[0] / rows * 1e6, best[1] / rows * 1e6, apart


def main(arguments: list[str] | None = None) -> int:
    given = options("budgeted_speed", __doc__, arguments, quick="2000 rows, two rounds")
    compiler = shutil.which("cc")
    if compiler is None:
        verdict("", "nothing is measured: there is no C compiler (cc)")
        return 0
    missed = []
    rows, rounds = (2000, 2) if given.quick else (ROWS, ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(compiler, Path(folder))
        for name in C_LOOPS:
            mine, c, apart = measured(library, name, rows, rounds)
            told = f"{mine:.2f} us, C {c:.2f}: {mine / c:.2f}"
            same = "" if apart <= 1e-6 else f"; scores {apart:.1e} apart"
            missed += line(name, told, f"target <= {MOST:g}{same}", mine <= MOST * c and not same)
    verdict("beyond the papers: times of this machine", missed)
    return 0
