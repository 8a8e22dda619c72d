"""siSPEED on a budget: the delay of the series changes from 30 to 17 after 2000 rows, 2000 more follow (ours, m = 30).

Budget 200, least recently used leaves. Targets: mean squared prediction error of the last 500 rows before the change <= 1.05
of unbounded; at the end <= 1.0 of unbounded and <= .85 of a map frozen at the change; never more than 200 samples.
"""

import numpy as np

from algorithms import Learner
from papers import mackey_glass
from papers.common import line, options, told, verdict
from papers.filters_common import NOVELTY, made, mse
from papers.pictures import canvas, finish, save

BUDGET, RANK, LAST = 200, 30, 500


def learners() -> dict[str, Learner]:
    follows = {"rank": RANK, "novelty": NOVELTY, "solver": "ritz"}
    return {
        "budget": made("sispeed", **follows, budget=BUDGET),
        "unbounded": made("sispeed", **follows, budget=0),
        "frozen": made("sparse_speed", rank=RANK, novelty=NOVELTY, map_size=mackey_glass.TRAINING),
    }


def run(learner: Learner, seed: int) -> tuple[np.ndarray, float, int]:
    """Squared errors of every row before it is learned, test MSE in the new regime, and the most samples ever stored."""
    trial = mackey_glass.switching(seed)
    state, losses, most = learner.init(dim=trial.X.shape[1], targets=1, seed=0), [], 0
    for begin in range(0, len(trial.X), 100):
        rows = slice(begin, begin + 100)
        state, out = learner.run(state, trial.X[rows], trial.Y[rows])
        losses.append(out.loss)
        most = max(most, len(state.dictionary))
    return np.concatenate(losses), mse(learner.predict(state, trial.testX), trial.testY), most


def main(arguments: list[str] | None = None) -> int:
    given = options("speed_switch", __doc__, arguments, trials=10)
    found = {name: [run(learner, seed) for seed in range(given.trials)] for name, learner in learners().items()}
    half = mackey_glass.TRAINING
    before = {name: np.array([losses[half - LAST : half].mean() for losses, _, _ in runs]) for name, runs in found.items()}
    after = {name: np.array([losses[-LAST:].mean() for losses, _, _ in runs]) for name, runs in found.items()}
    test = {name: np.array([one for _, one, _ in runs]) for name, runs in found.items()}
    sizes = {name: max(most for _, _, most in runs) for name, runs in found.items()}
    for name in found:
        line(
            f"{name}: last {LAST} before, after, test",
            f"{before[name].mean():.4f} {after[name].mean():.4f}",
            told(test[name]),
        )
    ratio = before["budget"].mean() / before["unbounded"].mean()
    missed = line("before the change, over unbounded", f"{ratio:.3f}", "target <= 1.05", ratio <= 1.05)
    for what, ends in (("rows", after), ("test", test)):
        over = {name: ends["budget"].mean() / ends[name].mean() for name in ("unbounded", "frozen")}
        missed += line(
            f"at the end ({what}), over unbounded", f"{over['unbounded']:.3f}", "target <= 1.0", over["unbounded"] <= 1.0
        )
        missed += line(f"at the end ({what}), over frozen", f"{over['frozen']:.3f}", "target <= .85", over["frozen"] <= 0.85)
    missed += line(
        "most samples", f"{sizes['budget']} (unbounded {sizes['unbounded']})", "target <= 200", sizes["budget"] <= BUDGET
    )
    figure, axes = canvas()
    for name, runs in found.items():
        mean = np.mean([losses for losses, _, _ in runs], axis=0)
        mean = mean[np.isfinite(mean)]  # from the first map on
        smooth = np.convolve(mean, np.ones(100) / 100, mode="valid")
        axes.plot(2 * half - len(smooth) + np.arange(len(smooth)), smooth, label=name, linewidth=1.2)
    axes.axvline(half, color="#999999", linewidth=0.8, linestyle=":")
    finish(axes, "siSPEED, tau 30 to 17 after 2000 rows", "rows", "squared error (mean of 100 rows)", log=True)
    save(figure, given.out, "002-switch")
    said = f"{sizes['budget']} of {sizes['unbounded']} samples are enough"
    verdict(f"beyond the paper: {said}, and what is forgotten makes room for the new regime", missed)
    return 0
