"""Accuracy over time and confusion matrices as PNG files."""

from pathlib import Path

import numpy as np

BIN = 20  # windows in a point of the accuracy over time


def draw(out: Path, title: str, names: list[str], runs, best: str) -> list[Path]:
    """Two files of what was decided in `runs` (model -> (person, shuffle) -> (decided, truth, worth)); gives their paths.

    The confusion matrix is that of the model `best`, over all people and shuffles.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    over_time, confusion = out / f"activity-{title}-over-time.png", out / f"activity-{title}-confusion.png"
    figure, axes = pyplot.subplots(figsize=(9, 5))
    for name, results in runs.items():
        shares = accuracy_over_time([decided == truth for decided, truth, _ in results.values()])
        style = ":" if "warm" not in name and "cold" not in name else "-"
        axes.plot((np.arange(len(shares)) + 0.5) * BIN, shares, style, label=name)
    axes.set(xlabel="windows of the person so far (1 s each)", ylabel="right decisions", ylim=(0, 1), title=title)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(over_time, dpi=110, bbox_inches="tight")
    pyplot.close(figure)

    matrix = np.zeros((len(names), len(names)))
    for decided, truth, _ in runs[best].values():
        known = decided >= 0
        np.add.at(matrix, (truth[known], decided[known]), 1)
    matrix /= matrix.sum(axis=1, keepdims=True)
    figure, axes = pyplot.subplots(figsize=(5.5, 5))
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    for i in range(len(names)):
        for j in range(len(names)):
            axes.text(
                j, i, f"{matrix[i, j]:.2f}", ha="center", va="center", fontsize=8, color="w" if matrix[i, j] > 0.6 else "k"
            )
    axes.set(xticks=range(len(names)), yticks=range(len(names)), xlabel="decided", ylabel="true", title=f"{title}: {best}")
    axes.set_xticklabels(names)
    axes.set_yticklabels(names)
    figure.savefig(confusion, dpi=110, bbox_inches="tight")
    pyplot.close(figure)
    return [over_time, confusion]


def accuracy_over_time(rights: list[np.ndarray]) -> np.ndarray:
    """Share of right decisions in every BIN windows, over all runs that are that long."""
    longest = max(len(right) for right in rights)
    shares = []
    for begin in range(0, longest - BIN + 1, BIN):
        shares.append(np.mean([right[begin : begin + BIN].mean() for right in rights if len(right) >= begin + BIN]))
    return np.array(shares)
