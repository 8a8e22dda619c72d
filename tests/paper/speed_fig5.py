"""SPEED, Figs. 4-7: test MSE of LMS and RLS on eigenfunctions, by their number and by the rows the map is made from.

2000 training rows, LMS step .1. Targets: SPEED(30) .0044, sparse(30) .0044, SPEED(50) .0043; SPEED(50)-RLS .0021 +- .0002
(lambda 1, delta 100) and .0025 +- .0003 (lambda .99); the dictionary of the 2000 rows holds 369 +- 15 (the paper's 398).
The heads are the linear filters on the leading features of one map per trial, which is what `speed` does with its own head.
"""

import sys

import numpy as np

from algorithms import learner_from
from tests.paper import mackey_glass
from tests.paper.speed_common import NOVELTY, canvas, final_mse, line, made, mse, options, save, told

RANKS = (5, 10, 20, 30, 50, 80, 100)
SIZES = (100, 200, 500, 1000)
HEADS = {"lms": {"step_size": 0.1}, "rls": {"delta": 100.0}, "rls .99": {"delta": 100.0, "forgetting": 0.99}}


def features(name: str, seed: int, ranks: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, int]:
    """Features of the training and of the test rows by the map of all training rows, and the size of its dictionary."""
    trial = mackey_glass.trial(seed)
    novelty = NOVELTY if name == "sparse_speed" else 0.0
    learner = made(name, rank=max(ranks), map_size=len(trial.X), novelty=novelty, head="none")
    state, _ = learner.run(learner.init(dim=trial.X.shape[1], targets=0, seed=0), trial.X)
    return learner.transform(state, trial.X), learner.transform(state, trial.testX), len(state.dictionary)


def on_features(head: str, seed: int, Z: np.ndarray, testZ: np.ndarray) -> float:
    """Test MSE of a head after it has learned the training rows' features in order."""
    trial = mackey_glass.trial(seed)
    learner = learner_from(head.partition(" ")[0], HEADS[head])
    state, _ = learner.run(learner.init(dim=Z.shape[1], targets=1, seed=0), Z, trial.Y)
    return mse(learner.predict(state, testZ), trial.testY)


def near(found: np.ndarray, goal: float) -> bool:
    """The mean is the target, up to two standard errors and the target's rounding."""
    return bool(abs(found.mean() - goal) <= 2 * found.std() / len(found) ** 0.5 + 5e-5)


def main(arguments: list[str] | None = None) -> int:
    given = options("speed_fig5", __doc__, arguments)
    by_rank: dict[str, list[list[float]]] = {"speed": [], "sparse_speed": []}
    rls: dict[str, list[float]] = {"rls": [], "rls .99": []}
    sizes = []
    for seed in range(given.trials):
        for name, rows in by_rank.items():
            Z, testZ, size = features(name, seed, RANKS)
            rows.append([on_features("lms", seed, *(np.ascontiguousarray(a[:, :m]) for a in (Z, testZ))) for m in RANKS])
            if name == "speed":
                for head, found in rls.items():
                    found.append(on_features(head, seed, *(np.ascontiguousarray(a[:, :50]) for a in (Z, testZ))))
            else:
                sizes.append(size)
    full, sparse = (np.array(by_rank[name]) for name in ("speed", "sparse_speed"))
    at = {m: column for column, m in enumerate(RANKS)}
    line("novelty dictionary of 2000", told(sizes, 0), "target 369 +- 15, paper 398", abs(np.mean(sizes) - 369) <= 15)
    for what, found, goal in (
        ("SPEED(30)", full[:, at[30]], 0.0044),
        ("sparse SPEED(30)", sparse[:, at[30]], 0.0044),
        ("SPEED(50)", full[:, at[50]], 0.0043),
    ):
        line(f"{what}, LMS", told(found), f"target {goal}", near(found, goal))
    for head, goal, slack in (("rls", 0.0021, 0.0002), ("rls .99", 0.0025, 0.0003)):
        ours = np.array(rls[head])
        line(f"SPEED(50), {head}", told(ours), f"target {goal} +- {slack}", abs(ours.mean() - goal) <= slack)
    batches = []
    for n in SIZES:
        learner = made("speed", rank=50, map_size=n)
        batches.append([final_mse(learner, mackey_glass.trial(seed)) for seed in range(given.trials)])
        line(f"SPEED(50), map of the first {n}", told(batches[-1]), "")
    early = np.mean(batches[SIZES.index(500)]) / full[:, at[50]].mean()
    fifty = full[:, at[50]].mean() / full[:, at[100]].mean()
    print(f"The map of the first 500 rows has {early:.2f} times the test MSE of all; 50 features {fifty:.2f} times 100.")
    figure, axes = canvas()
    axes.semilogy(RANKS, full.mean(axis=0), "o-", label="SPEED, LMS")
    axes.semilogy(RANKS, sparse.mean(axis=0), "s-", label="sparse SPEED, LMS")
    for head, ours in rls.items():
        axes.semilogy([50], [np.mean(ours)], "*", label=f"SPEED(50), {head}")
    axes.semilogy(np.array(SIZES) / 20, np.mean(batches, axis=1), "x:", label="SPEED(50), map of the first 20 x rows")
    save(figure, axes, given.out, "speed_fig5", xlabel="eigenfunctions", ylabel="test MSE", title="Figs. 5, 6 and 7")
    return 0


if __name__ == "__main__":
    sys.exit(main())
