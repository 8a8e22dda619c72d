"""Which activity a person is doing: accuracy on a wrist and a pocket, labels 20 s late, one person left out.

    python -m papers activity [--quick] [--out FOLDER]

Windows of 2 s every second; a person's recordings in shuffled order, 3 shuffles; the population is everybody else.
Prints a table per set of recordings (mean of people, each the mean of the shuffles; sd and worst person) and one of a
linear head on other statistics of the same windows; draws the accuracy over time and a confusion matrix. Labels at once
would give more, nearly all of it by repeating the last one.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from algorithms import learner_from
from algorithms.common.protocol import PREDICT_ONLY, Array
from papers import recordings
from papers.common import options
from papers.late_labels import Model, empty, population, predicted
from streamjobs.fit.evaluation import BIN, SHUFFLES, Runs, accuracy_over_time, confusion, table
from streamjobs.fit.recordings import Recordings, controls, shuffled, worth
from streamjobs.notebook.pictures import GRID, LINES, matrix, new_figure, save
from streamjobs.stages.statistics import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETS: dict[str, Callable[..., Recordings]] = {"watch": recordings.watch, "phone": recordings.phone}
BEST_CHAIN = "okfeb head, map first, warm"


def models(dim: int, quick: bool) -> list[Model]:
    """Linear heads on scaled windows, and on OK-FEB features of them."""
    rls = {"name": "rls", "intercept": True}
    kernel = {"name": "gaussian", "bandwidth": float(np.sqrt(dim))}
    okfeb = {"name": "okfeb", "role": "head", "rank": 50, "budget": 100, "kernel": kernel}
    linear = learner_from("rls", {"intercept": True})
    chain = learner_from("chain", {"extractor": okfeb, "head": rls})
    frozen = {"scale": PREDICT_ONLY, "arriving": PREDICT_ONLY}
    chosen = [
        Model("linear, cold", linear, warm=False),
        Model("linear, warm, frozen", linear, warm=True, **frozen, labelled=PREDICT_ONLY),
        Model("linear, warm", linear, warm=True),
        Model(BEST_CHAIN, chain, warm=True, map_first=True, **frozen),
    ]
    if not quick:
        chosen += [
            Model("okfeb head, map first, warm, frozen", chain, True, True, **frozen, labelled=PREDICT_ONLY),
            Model("okfeb head, one pass, warm", chain, warm=True, **frozen),
            Model("okfeb head, map learns on, warm", chain, warm=True, map_first=True),
            Model("okfeb head, cold", chain, warm=False),
        ]
    return chosen


def linear() -> list[Model]:
    """A linear head that learned from everybody else: as it is, and learning on."""
    head = learner_from("rls", {"intercept": True})
    frozen = {"scale": PREDICT_ONLY, "arriving": PREDICT_ONLY, "labelled": PREDICT_ONLY}
    return [Model("frozen", head, warm=True, **frozen), Model("warm", head, warm=True)]


def described(title: str, shuffles: int) -> tuple[Recordings, Runs]:
    """The linear head on every set of statistics, with one arm mirrored, and with sensors mounted any way round."""
    load = SETS[title]
    ways: dict[str, dict[str, Any]] = {}
    for statistics in KINDS:
        ways[statistics] = {"statistics": statistics}
        if title == "watch":
            ways[f"{statistics}, mirrored"] = {"statistics": statistics, "mirrored": True}
    for statistics in ("rich", "gravity"):
        ways[f"{statistics}, sensors turned"] = {"statistics": statistics, "turned": True}
    runs: Runs = {}
    for way, how in ways.items():
        data = load(**how)
        for name, one in run(data, linear(), shuffles).items():
            if name in ("frozen", "warm"):
                runs[f"{way} ({data.X.shape[1]}), {name}"] = one
            elif name not in runs:
                runs[name] = one
    return data, runs


def run(data: Recordings, chosen: list[Model], shuffles: int) -> Runs:
    """Every model and control on every person and shuffle: (decisions, truth, worth)."""
    runs: Runs = {}
    classes, dim = len(data.names), data.X.shape[1]
    for person in np.unique(data.person).tolist():
        others = shuffled(data, data.person != person, [0, person])
        starts = {m.name: population(m, others, classes) if m.warm else empty(m, dim, classes) for m in chosen}
        for shuffle in range(shuffles):
            stream = shuffled(data, data.person == person, [1, person, shuffle])
            decided = controls(stream, classes)
            for model in chosen:
                decided[model.name] = predicted(model, starts[model.name], stream)
            for name, labels in decided.items():
                runs.setdefault(name, {})[person, shuffle] = (labels, stream.activity, worth(labels, stream))
    return runs


def fit_report(
    title: str, names: Sequence[str], counts: Array, best: str, curves: Mapping[str, Array], bin: int
) -> "Figure":
    """True by decided classes, counts (classes, classes), of `best`; and by way the share right in each `bin` windows.

    The first curve is drawn thick.
    """
    side = max(4.0, 2.0 + 0.35 * len(names))
    with new_figure(2 * side + 2, side + 1) as figure:
        figure.suptitle(title)
        left, right = figure.subplots(1, 2)
        matrix(left, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), names)
        left.set_title(f"Classes decided by {best}")
        for number, (name, curve) in reversed(list(enumerate(curves.items()))):
            at = bin * (np.arange(len(curve)) + 0.5)
            right.plot(at, curve, color=LINES[number % len(LINES)], linewidth=1.5 if number else 3, label=name)
        about = f"Share right in every {bin} windows of a person"
        right.set(title=about, xlabel="windows of the person so far", ylim=(0, 1))
        right.grid(axis="y", color=GRID, linewidth=0.6)
        right.legend(reverse=True, fontsize=8)
    return figure


def draw(out: Path, title: str, names: list[str], runs: Runs) -> Path:
    """One picture of everything in `runs`; the confusion matrix is that of the best chain."""
    order = [BEST_CHAIN, *(name for name in runs if name != BEST_CHAIN)]
    curves = {name: accuracy_over_time([chosen == truth for chosen, truth, _ in runs[name].values()]) for name in order}
    path = out / f"activity-{title}.svg"
    save(fit_report(title, names, confusion(runs, BEST_CHAIN, len(names)), BEST_CHAIN, curves, BIN), path, "--out")
    return path


def main(arguments: list[str] | None = None) -> int:
    given = options("activity", __doc__, arguments, quick="one shuffle, the watch only, fewer models")
    for title, load in SETS.items():
        if given.quick and title != "watch":
            continue
        data = load()
        runs = run(data, models(data.X.shape[1], given.quick), 1 if given.quick else SHUFFLES)
        print(table(title, data, runs), flush=True)
        print("drawn:", draw(given.out, title, data.names, runs), flush=True)
        if not given.quick:
            print(table(f"{title}, linear head", *described(title, SHUFFLES)), flush=True)
    return 0
