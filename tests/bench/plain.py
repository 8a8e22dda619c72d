"""Scaling, okfeb and rls compared with plain C of the same method (plain_loop.c): python -m tests.bench plain.

40 numbers, rank 10, a budget of 15, one target; 1 and 200 keys in turn. Both continue from the same states, after a key's
first 120 rows. Least processor time of many short runs in turn, and how far the predictions are apart: the same work is
compared. Needs a C compiler (`cc`).
"""

import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from algorithms import learner_from
from algorithms.common.protocol import Array
from algorithms.subspace.projection import fill_gram, refresh
from tests.bench.goals import goal

DIM, RANK, BUDGET, ROOM, WINDOW = 40, 10, 15, 16, 100  # as plain_loop.c has them
STARTED, ROWS, RUNS = 120, 4000, 25
RIDGE, DELTA = 1e-3, 100.0
FLAGS = ("-O3", "-march=native", "-fPIC", "-shared")
SCALING = learner_from("scaling", {})
CHAIN = learner_from(
    "chain",
    {
        "extractor": {"name": "okfeb", "rank": RANK, "budget": BUDGET, "ridge": RIDGE},
        "head": {"name": "rls", "delta": DELTA},
    },
)


def started(X: Array, Y: Array) -> tuple[Any, Any]:
    """States of a key after these rows."""
    scale, out = SCALING.run(SCALING.init(dim=DIM, targets=0, seed=0), X)
    chain, _ = CHAIN.run(CHAIN.init(dim=DIM, targets=1, seed=0), out.features, Y)
    return scale, chain


def ours(states: tuple[Any, Any], keys: int, slots: Array, X: Array, Y: Array) -> Callable[[], tuple[Array, float]]:
    """A run from these states; gives predictions and seconds."""
    scale, chain = states
    scaled, out = SCALING.outputs(len(X), DIM, 0), CHAIN.outputs(len(X), DIM, 1)

    def run() -> tuple[Array, float]:
        works = SCALING.workspace(scale, slots=keys), CHAIN.workspace(chain, slots=keys)
        for slot in range(keys):
            SCALING.load(works[0], slot, scale)
            CHAIN.load(works[1], slot, chain)
        begun = time.process_time()
        SCALING.advance(works[0], slots, X, np.zeros((len(X), 0)), scaled)
        CHAIN.advance(works[1], slots, scaled.features, Y, out)
        return out.prediction[:, 0], time.process_time() - begun

    return run


def plain(
    loops: ctypes.CDLL, states: tuple[Any, Any], keys: int, slots: Array, X: Array, Y: Array
) -> Callable[[], tuple[Array, float]]:
    one, said, y = key_of(*states), np.empty(len(X)), Y[:, 0].copy()

    def run() -> tuple[Array, float]:
        all_keys = np.tile(one, (keys, 1))
        places = [ctypes.c_void_p(array.ctypes.data) for array in (all_keys, slots, X, y)]
        rest = ctypes.c_long(len(X)), ctypes.c_double(RIDGE), ctypes.c_double(DELTA), ctypes.c_void_p(said.ctypes.data)
        begun = time.process_time()
        loops.rows(*places, *rest)
        return said, time.process_time() - begun

    return run


def key_of(scale: Any, chain: Any) -> Array:
    """The C loop's Key of these states."""
    work = CHAIN.workspace(chain)
    CHAIN.load(work, 0, chain)
    caches, full, okfeb = work.extractor, np.zeros((2, RANK, RANK)), CHAIN.extractor
    gram, image, held = np.empty((ROOM, ROOM)), np.empty((ROOM, RANK)), len(chain.extractor.support)
    support, factor, *derived = (caches[name][0] for name in ("support", "factor", "inner", "solver", "rotation"))
    fill_gram(okfeb.kernel.code, support, held, gram)
    refresh(gram, factor, held, okfeb.ridge, image, *derived)  # else the loop does it with the key's first row
    for square, name in zip(full, ("solver", "rotation"), strict=True):
        square[np.tril_indices(RANK)] = caches[name][0]
    feb, P = chain.extractor, work.head.arrays[2][0]
    head = chain.head

    def padded(array: Array, rows: int) -> Array:
        return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]))])

    parts = [padded(feb.support, ROOM), padded(feb.factor, ROOM), padded(feb.recent, WINDOW), *full, caches["inner"][0]]
    parts += [head.weights[:, 0], P, scale.mean, scale.squares, padded(feb.age, ROOM)]
    return np.concatenate([*(np.ravel(part) for part in parts), [len(feb.support), len(feb.recent), scale.seen]])


def measured(loops: ctypes.CDLL, keys: int, runs: int = RUNS) -> tuple[float, float, float]:
    """Microseconds a row of ours and of C, and how far apart their predictions are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(STARTED + ROWS, DIM))
    Y = np.sign(X[:, :1] + 0.5 * X[:, 1:2])
    slots = np.arange(ROWS) % keys
    rest = started(X[:STARTED], Y[:STARTED]), keys, slots, X[STARTED:].copy(), Y[STARTED:].copy()
    both = ours(*rest), plain(loops, *rest)
    apart, best = 0.0, [np.inf, np.inf]
    for _ in range(runs):
        (mine, took), (its, its_took) = both[0](), both[1]()
        apart = max(apart, float(np.abs(mine - its).max()))
        best = [min(best[0], took), min(best[1], its_took)]
    return best[0] / ROWS * 1e6, best[1] / ROWS * 1e6, apart


def library(folder: str) -> ctypes.CDLL:
    file = Path(folder) / "plain_loop.so"
    subprocess.run(["cc", *FLAGS, "-o", str(file), str(Path(__file__).with_name("plain_loop.c")), "-lm"], check=True)
    return ctypes.CDLL(str(file))


def main(arguments: list[str] | None = None) -> int:
    with tempfile.TemporaryDirectory() as folder:
        loops = library(folder)
        for keys in (1, 200):
            mine, its, apart = measured(loops, keys)
            print(f"{keys} keys in turn: {mine:.2f} us a row, plain C {its:.2f}; predictions {apart:.1e} apart")
            goal(f"scaling, okfeb and rls over plain C, {keys} keys in turn", mine / its, 2.2, "")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
