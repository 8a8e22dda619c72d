"""What the scripts filters_*.py and speed_*.py share: filters on trials of the Mackey-Glass series."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from algorithms import learner_from
from algorithms.common.protocol import Array, Learner
from papers import mackey_glass
from papers.common import line, told
from papers.mackey_glass import Trial

KERNEL = {"name": "gaussian", "bandwidth": 1.0}
NOVELTY = 0.06  # squared distance
Settings = dict[str, Any]
Filter = Settings | Callable[[int], Settings]  # the same for every trial, or by the trial's seed


def made(name: str, **settings: Any) -> Learner:
    return learner_from(name, {"kernel": KERNEL, **settings})


def on_map(name: str, head: Settings, **settings: Any) -> Settings:
    """A chain of a fixed map and a head."""
    extractor = {"name": name, **({} if name == "scaling" else {"kernel": KERNEL}), **settings}
    return {"name": "chain", "extractor": extractor, "head": head}


def mapped(name: str, seed: int, rank: int) -> tuple[Trial, int]:
    """A trial with features in place of rows, by `speed` or `sparse_speed` of all training rows; the dictionary's size."""
    one = mackey_glass.trial(seed)
    novelty = NOVELTY if name == "sparse_speed" else 0.0
    learner = made(name, rank=rank, map_size=len(one.X), novelty=novelty, head="none")
    state, _ = learner.run(learner.init(dim=one.X.shape[1], targets=0, seed=0), one.X)
    found = one._replace(X=learner.transform(state, one.X), testX=learner.transform(state, one.testX))
    return found, len(state.dictionary)


def leading(one: Trial, rank: int) -> Trial:
    """The first features of a mapped trial: those of a map of this rank."""
    return one._replace(X=np.ascontiguousarray(one.X[:, :rank]), testX=np.ascontiguousarray(one.testX[:, :rank]))


def curve(settings: Settings, one: Trial, steps: Array) -> tuple[Array, int]:
    """Test MSE after `steps` training pairs each, and how many samples are stored at the end."""
    table = {setting: value for setting, value in settings.items() if setting != "name"}
    learner = learner_from(settings["name"], table)
    state = learner.init(dim=one.X.shape[1], targets=1, seed=0)
    errors, begin = [], 0
    for end in steps:
        state, _ = learner.run(state, one.X[begin:end], one.Y[begin:end])
        errors.append(mse(learner.predict(state, one.testX), one.testY))
        begin = end
    return np.array(errors), len(getattr(state, "dictionary", ()))


def curves(filters: Mapping[str, Filter], trials: int, steps: Array) -> dict[str, tuple[Array, Array]]:
    """name -> (test MSE (trials, steps), stored samples (trials,))"""
    found = {}
    for name, settings in filters.items():
        each = (settings(seed) if callable(settings) else settings for seed in range(trials))
        runs = [curve(table, mackey_glass.trial(seed), steps) for seed, table in enumerate(each)]
        found[name] = np.array([errors for errors, _ in runs]), np.array([stored for _, stored in runs])
    return found


def held_against(
    targets: Mapping[str, tuple[float, float]], found: Mapping[str, tuple[Array, Array]]
) -> tuple[list[str], dict[str, Array]]:
    """Print each filter's last test MSE beside its target (mean, how far ours may be); those missed, and these errors."""
    missed, last = [], {name: errors[:, -1] for name, (errors, _) in found.items()}
    for name, ours in last.items():
        size = int(found[name][1].mean())
        goal, within = targets.get(name, (0.0, 0.0))
        holds = abs(ours.mean() - goal) <= within if goal else None
        missed += line(
            f"{name}{f', {size} stored' if size else ''}", told(ours), f"target {goal} +- {within}" if goal else "", holds
        )
    return missed, last


def on_eigenmaps(
    heads: Mapping[str, tuple[str, int, Settings]], trials: int, steps: Array
) -> dict[str, tuple[Array, Array]]:
    """The same for heads on eigenfunctions: name -> (`speed` or `sparse_speed`, rank, the head's settings)."""
    runs: dict[str, list[tuple[Array, int]]] = {name: [] for name in heads}
    for seed in range(trials):
        maps: dict[str, tuple[Trial, int]] = {}
        for name, (learner, rank, head) in heads.items():
            if learner not in maps:
                maps[learner] = mapped(learner, seed, max(m for other, m, _ in heads.values() if other == learner))
            one, size = maps[learner]
            runs[name].append((curve(head, leading(one, rank), steps)[0], size))
    return {name: (np.array([e for e, _ in each]), np.array([size for _, size in each])) for name, each in runs.items()}


def trained(learner: Learner, one: Trial, rows: int | None = None) -> Any:
    """The state after the trial's training pairs."""
    start = learner.init(dim=one.X.shape[1], targets=1, seed=0)
    return learner.run(start, one.X[:rows], one.Y[:rows])[0]


def mse(prediction: Array, wanted: Array) -> float:
    return float(((prediction - wanted) ** 2).mean())


def final_mse(learner: Learner, one: Trial) -> float:
    """Test MSE after training."""
    return mse(learner.predict(trained(learner, one), one.testX), one.testY)


def near(found: Array, goal: float) -> bool:
    """The mean is the target, up to two standard errors and the target's rounding."""
    return bool(abs(found.mean() - goal) <= 2 * found.std() / len(found) ** 0.5 + 5e-5)
