"""Figures as PNG files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#555555", "#000000", "#ee8866", "#997700")
STYLES = ("-", "--", ":")


def canvas(panels: int = 1) -> tuple[Any, Any]:
    """A figure, and its axes side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(1, panels, figsize=(7 if panels == 1 else 5.5 * panels, 4.5), layout="constrained")


def finish(axes: Any, title: str, x_label: str, y_label: str, *, log: bool = False) -> None:
    """Labels, legend and grid; logarithmic upwards if told so."""
    axes.set(xlabel=x_label, ylabel=y_label, title=title)
    if log:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def save(figure: Any, out: Path, name: str) -> None:
    from matplotlib import pyplot

    path = out / f"{name}.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    print("drawn:", path, flush=True)


def draw(axes: Any, x: Sequence[float], lines: Mapping[str, Any]) -> None:
    """A line per entry; one that is shorter than x has its first points. A few x are ticks, far apart logarithmic."""
    for place, (label, values) in enumerate(lines.items()):
        style, colour = STYLES[place // len(COLOURS) % len(STYLES)], COLOURS[place % len(COLOURS)]
        marker = "o" if len(x) <= 20 else None
        axes.plot(
            list(x)[: len(values)], values, style, marker=marker, color=colour, label=label, markersize=3, linewidth=1.2
        )
    if len(x) <= 8:
        if x[-1] >= 20 * x[0] > 0:
            axes.set_xscale("log")
            axes.set_xticks([], minor=True)
        axes.set_xticks(list(x), [f"{value:g}" for value in x])


def curves(
    out: Path,
    name: str,
    title: str,
    x_label: str,
    y_label: str,
    x: Sequence[float],
    lines: Mapping[str, Any],
    *,
    log: bool = False,
    marks: Sequence[float] = (),
) -> None:
    """One panel of lines, with vertical marks, its legend beside it."""
    figure, axes = canvas()
    draw(axes, x, lines)
    for mark in marks:
        axes.axvline(mark, color="#999999", linewidth=0.8, linestyle=":")
    finish(axes, title, x_label, y_label, log=log)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    save(figure, out, name)
