"""Curves of a figure as a PNG file, in the folder given by `--out FOLDER` (default: the system's temporary folder)."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#555555", "#000000")


def folder(arguments: list[str] | None) -> Path:
    """Where pictures go."""
    given = arguments or []
    place = Path(given[given.index("--out") + 1]) if "--out" in given else Path(tempfile.gettempdir()) / "paper"
    place.mkdir(parents=True, exist_ok=True)
    return place


def curves(
    arguments: list[str] | None,
    name: str,
    title: str,
    x_label: str,
    y_label: str,
    x: Sequence[float],
    lines: Mapping[str, Any],
    *,
    log: bool = False,
    marks: Sequence[float] = (),
) -> Path:
    """One panel; a line that is shorter than x has its first points. Gives the file's path."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    for (label, values), colour in zip(lines.items(), COLOURS * 3, strict=False):
        style = "o-" if len(x) <= 20 else "-"
        axes.plot(list(x)[: len(values)], values, style, color=colour, label=label, markersize=3, linewidth=1.2)
    for mark in marks:
        axes.axvline(mark, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(xlabel=x_label, ylabel=y_label, title=title)
    if log:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    path = folder(arguments) / f"{name}.png"
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)
    return path
