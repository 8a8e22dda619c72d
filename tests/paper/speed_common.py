"""What the scripts speed_*.py share: trials of the Mackey-Glass series, options, the table beside the targets, a drawing."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from algorithms import learner_from
from algorithms.common.protocol import Array, Learner
from tests.paper.mackey_glass import Trial

KERNEL = {"name": "gaussian", "bandwidth": 1.0}
NOVELTY = 0.06  # squared distance


def options(name: str, told: str | None, arguments: list[str] | None, trials: int = 20) -> argparse.Namespace:
    """--trials and --out; `told` is the script's docstring."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.paper {name}", description=(told or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=trials, help="random stretches of the series")
    parser.add_argument("--out", type=Path, help="folder of the picture; default: a new temporary one")
    found = parser.parse_args(arguments)
    found.out = found.out or Path(tempfile.mkdtemp(prefix="streamjobs-speed-"))
    found.out.mkdir(parents=True, exist_ok=True)
    return found


def made(name: str, **settings: Any) -> Learner:
    return learner_from(name, {"kernel": KERNEL, **settings})


def trained(learner: Learner, trial: Trial, rows: int | None = None) -> Any:
    """The state after the trial's training pairs."""
    start = learner.init(dim=trial.X.shape[1], targets=1, seed=0)
    return learner.run(start, trial.X[:rows], trial.Y[:rows])[0]


def mse(prediction: Array, wanted: Array) -> float:
    return float(((prediction - wanted) ** 2).mean())


def final_mse(learner: Learner, trial: Trial) -> float:
    """Test MSE after training."""
    return mse(learner.predict(trained(learner, trial), trial.testX), trial.testY)


def line(what: str, ours: str, wanted: str, holds: bool | None = None) -> None:
    """One line of the table: ours beside the paper's or the target, and whether it holds."""
    print(f"{what:44} {ours:>26}   {wanted:28} {'' if holds is None else 'holds' if holds else 'MISSED'}", flush=True)


def told(values: Array, digits: int = 4) -> str:
    """Mean +- standard deviation over trials."""
    values = np.asarray(values, float)
    return f"{values.mean():.{digits}f} +- {values.std():.{digits}f}"


def save(figure: Any, axes: Any, out: Path, name: str, **labels: Any) -> None:
    """The axes labelled, the figure written."""
    axes.set(**labels)
    axes.legend(fontsize=8)
    path = out / f"{name}.png"
    figure.savefig(path, dpi=110, bbox_inches="tight")
    print("drawn:", path)


def canvas() -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(7, 4.5))
