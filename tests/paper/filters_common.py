"""What the scripts filters_*.py share: options, learning curves over trials of the series, the table, the picture."""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from algorithms import learner_from
from algorithms.common.protocol import Array
from tests.paper.mackey_glass import Trial, trial

KERNEL = {"name": "gaussian", "bandwidth": 1.0}
Settings = dict[str, Any]


def options(name: str, told: str | None, arguments: list[str] | None, trials: int) -> argparse.Namespace:
    """--trials and --out; `told` is the script's docstring."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.paper {name}", description=(told or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=trials, help="random stretches of the series")
    parser.add_argument("--out", type=Path, help="folder of the picture; default: a new temporary one")
    found = parser.parse_args(arguments)
    found.out = found.out or Path(tempfile.mkdtemp(prefix="streamjobs-filters-"))
    found.out.mkdir(parents=True, exist_ok=True)
    return found


def on_map(name: str, head: Settings, **settings: Any) -> Settings:
    """A chain of a fixed map and a head."""
    extractor = {"name": name, **({} if name == "scaling" else {"kernel": KERNEL}), **settings}
    return {"name": "chain", "extractor": extractor, "head": head}


def curve(settings: Settings, one: Trial, steps: Array) -> tuple[Array, int]:
    """Test MSE after `steps` training pairs each, and how many samples are stored at the end."""
    table = {setting: value for setting, value in settings.items() if setting != "name"}
    learner = learner_from(settings["name"], table)
    state = learner.init(dim=one.X.shape[1], targets=1, seed=0)
    errors, begin = [], 0
    for end in steps:
        state, _ = learner.run(state, one.X[begin:end], one.Y[begin:end])
        errors.append(float(((learner.predict(state, one.testX) - one.testY) ** 2).mean()))
        begin = end
    return np.array(errors), len(getattr(state, "dictionary", ()))


def curves(filters: Mapping[str, Any], trials: int, steps: Array) -> dict[str, tuple[Array, Array]]:
    """name -> (test MSE (trials, steps), stored samples (trials,)); a filter is its settings, or those of a trial."""
    found = {}
    for name, settings in filters.items():
        runs = [curve(settings(seed) if callable(settings) else settings, trial(seed), steps) for seed in range(trials)]
        found[name] = np.array([errors for errors, _ in runs]), np.array([stored for _, stored in runs])
    return found


def draw(path: Path, title: str, steps: Array, found: Mapping[str, tuple[Array, Array]]) -> None:
    """Mean test MSE over training pairs, a line per filter."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for place, (name, (errors, _)) in enumerate(found.items()):
        axes.semilogy(
            steps, errors.mean(axis=0), ("-", "--", ":")[place // 5 % 3], label=f"{name} {errors[:, -1].mean():.4f}"
        )
    axes.set(xlabel="training pairs", ylabel="test MSE", title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)
    print("drawn:", path)
