"""OK-FE, Fig. 1: LS fit of the batch solver and of the unbudgeted online updates on two noisy spheres.

Rank 7, gamma 100, ridge 1e-3, 5000 rows, five data sets. The LS fit is the mean of |phi(x) - L q(x)|^2 over the rows.
The batch solver reaches the floor of kernel PCA. Alg. 2 is `okfe` with mu = c/n: seeded with 5 r random rows it reaches
the targets; seeded with only r rows (the setting's default) directions that the seed lacks are still missing at the end.
Alg. 3 moves only with a constant of about 1e4 (mu = c/n^2); 2000 rows, because it costs O(n^2) a row.
`--quick`: one data set, 1500 rows. The picture shows the fit to the rows so far.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms import learner_from
from algorithms.common.kernels import Kernel, gram
from papers.batch.subspace import bkfe, kpca, ls_fit
from papers.common import line, options, verdict
from papers.pictures import curves
from papers.spheroids import two_spheres

RANK, RIDGE = 7, 1e-3
KERNEL = Kernel(bandwidth=50**0.5)
TARGETS = {10.0: 1.15, 100.0: 1.08}


def batch(X: NDArray[Any]) -> float:
    """Alg. 1's LS fit after the paper's 50 iterations."""
    return ls_fit(gram(KERNEL, X, X), bkfe(KERNEL, X, RANK, ridge=RIDGE, iterations=50).factor, RIDGE)


def floor(X: NDArray[Any]) -> float:
    """What kernel PCA leaves of the rows."""
    U = kpca(KERNEL, X, RANK).features(KERNEL, X)
    return float(1 - (U**2).sum() / len(X))


def okfe(X: NDArray[Any], constant: float, seed: int, seed_size: int, update: str = "parametric") -> NDArray[Any]:
    """The last factor, (rows, RANK); rows are stored in order."""
    settings = {"rank": RANK, "ridge": RIDGE, "kernel": KERNEL, "recede": update == "parametric", "update": update}
    settings |= {"step_rule": "over_n" if update == "parametric" else "over_n2", "step_size": constant}
    settings |= {"seed_size": seed_size, "seed_factor": "random"}
    learner = learner_from("okfe", settings)
    return learner.run(learner.init(dim=3, targets=0, seed=seed), X)[0].factor


def ratios(data_sets: int, rows: int, seed_size: int) -> dict[float, float]:
    """Constant -> mean over data sets of Alg. 2's LS fit over Alg. 1's."""
    found: dict[float, list[float]] = {constant: [] for constant in TARGETS}
    for seed in range(data_sets):
        X = two_spheres(seed, rows)
        K, best = gram(KERNEL, X, X), batch(X)
        for constant, fits in found.items():
            fits.append(ls_fit(K, okfe(X, constant, seed, seed_size), RIDGE) / best)
    return {constant: float(np.mean(fits)) for constant, fits in found.items()}


def main(arguments: list[str] | None = None) -> int:
    given = options("okfeb_fig1", __doc__, arguments, trials=5, quick="one data set of 1500 rows")
    data_sets, rows = (1, 1500) if given.quick else (given.trials, 5000)
    X = two_spheres(0, rows)
    best = batch(X)
    line("Alg. 1", f"{best:.3e}", "target 5.95e-4", abs(best / 5.95e-4 - 1) <= 0.05)
    line("kernel PCA (first 2000 rows)", f"{floor(X[:2000]):.3e}", "target 5.95e-4")
    missed = []
    for seed_size in (5 * RANK, RANK):
        for constant, ratio in ratios(data_sets, rows, seed_size).items():
            holds, goal = ratio <= TARGETS[constant], f"target <= {TARGETS[constant]}x"
            missed += line(f"Alg. 2, {constant:g}/n, seed of {seed_size} rows", f"{ratio:.3f}x Alg. 1", goal, holds)
    few = X[:600] if given.quick else X[:2000]
    K, best, still = gram(KERNEL, few, few), batch(few), np.nan
    for constant in (1.0, 100.0, 1e4):
        ratio = ls_fit(K, okfe(few, constant, 0, 5 * RANK, "nonparametric"), RIDGE) / best
        still = ratio if constant == 1.0 else still
        line(f"Alg. 3, {constant:g}/n^2, {len(few)} rows", f"{ratio:.3f}x Alg. 1", "moves with about 1e4 only")
    ends = [n for n in (50, 100, 200, 400, 800, 1500, 3000) if n <= rows]
    grams = {n: gram(KERNEL, X[:n], X[:n]) for n in ends}
    lines = {"Alg. 1": [batch(X[:n]) for n in ends]}
    for constant in TARGETS:
        factors = {n: okfe(X[:n], constant, 0, 5 * RANK) for n in ends}
        lines[f"Alg. 2, {constant:g}/n"] = [ls_fit(grams[n], factors[n], RIDGE) for n in ends]
    factors = {n: okfe(X[:n], 1e4, 0, 5 * RANK, "nonparametric") for n in ends if n <= 800}
    lines["Alg. 3, 1e4/n^2"] = [ls_fit(grams[n], factor, RIDGE) for n, factor in factors.items()]
    title, label = "OK-FE, Fig. 1: LS fit, two spheres, rank 7", "LS fit to the rows so far"
    curves(given.out, "000-fig1", title, "rows", label, ends, lines, log=True)
    verdict("Alg. 2 comes to the batch solver", [*missed, f"Alg. 3 with a constant of 1 ({still:.1f}x)"])
    return 0
