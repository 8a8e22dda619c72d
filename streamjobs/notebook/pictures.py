"""Drawing with matplotlib, the extra `plots`: one style for all pictures, and the same figures give the same file."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from algorithms.common.protocol import Array
from streamjobs import install_line
from streamjobs.errors import ConfigError, SetupError, unwritable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from streamjobs.notebook.prototypes import Prototypes

FIXED = {"svg.hashsalt": "streamjobs", "svg.fonttype": "none"}  # the same rows give the same file
INK, FAINT, GRID, BLUE, RED = "#1b1f24", "#656d76", "#d8dee4", "#0969da", "#cf222e"
LINES = (BLUE, "#d1570c", "#1a7f37", "#8250df", "#656d76", "#9a6700", RED, "#0b7a75")
MOST_NAMES = 60  # columns with their names below them
FORMATS = (".svg", ".png")
STYLE: dict[str, Any] = {
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.facecolor": "white",
    "legend.frameon": False,
    "text.parse_math": False,  # names of classes and keys are not formulas
    "xtick.color": FAINT,
    "ytick.color": FAINT,
}


def check_name(option: str, path: Path) -> None:
    """Raises ConfigError for a file that is not a picture by its name."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{option} {path}: expected a name that ends in {' or '.join(FORMATS)}.")


def save(figure: "Figure", path: Path, option: str) -> None:
    """Write a picture, .svg or .png; the same figure gives the same file. Raises ConfigError where it cannot be written."""
    import matplotlib

    about = {"Date": None} if path.suffix.lower() == ".svg" else {}
    try:
        with matplotlib.rc_context(FIXED):
            figure.savefig(path, metadata=about, dpi=120)
    except OSError as error:
        raise unwritable(f"{option} {path}", error) from None


@contextmanager
def new_figure(width: float, height: float) -> Iterator["Figure"]:
    """An empty figure of this size in inches, drawn in our style inside the block. Raises SetupError without matplotlib."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise SetupError(f"pictures need matplotlib: {install_line('plots')}") from None
    with matplotlib.rc_context(STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def images(prototypes: "Prototypes", shape: tuple[int, int]) -> "Figure":
    across = math.ceil(math.sqrt(len(prototypes.samples)))
    down = math.ceil(len(prototypes.samples) / across)
    with new_figure(1.1 * across, 1.3 * down + 0.5) as figure:
        figure.suptitle(f"{len(prototypes.samples)} {prototypes.field} of {prototypes.name}")
        places = figure.subplots(down, across, squeeze=False).flat
        for axes, x, entered, share in zip(places, prototypes.samples, prototypes.entered, prototypes.shares, strict=False):
            axes.imshow(x.reshape(shape), cmap="gray")
            axes.set_title(("" if entered is None else f"row {entered:,}  ") + f"{share:.1%}", fontsize=6)
        for axes in figure.axes:
            axes.set_axis_off()
    return figure


def samples(prototypes: "Prototypes") -> "Figure":
    """Samples by columns in standard deviations, and their shares at the right."""
    m, n = prototypes.scaled.shape
    with new_figure(min(4 + 0.2 * n, 24), min(2 + 0.18 * m, 30)) as figure:
        figure.suptitle(f"{m} {prototypes.field} of {prototypes.name}")
        axes, right = figure.subplots(1, 2, sharey=True, width_ratios=(4, 1))
        drawn = axes.imshow(prototypes.scaled, aspect="auto", interpolation="nearest", cmap="RdBu_r", vmin=-3.0, vmax=3.0)
        labels = ["" if entered is None else f"row {entered:,}" for entered in prototypes.entered]
        step = max(1, m // 50)
        axes.set_yticks(range(0, m, step), labels[::step], fontsize=7)
        if n <= MOST_NAMES:
            axes.set_xticks(range(n), prototypes.columns, rotation=90, fontsize=7)
        figure.colorbar(drawn, ax=axes, label="standard deviations from the mean", location="bottom", shrink=0.5)
        right.barh(range(m), 100 * prototypes.shares, color=BLUE)
        right.set_xlabel("share of rows, %")
    return figure


def matrix(axes: Any, shares: Array, names: Sequence[str]) -> None:
    """Cells with the shares of each true class."""
    from matplotlib.colors import LinearSegmentedColormap

    axes.imshow(shares, cmap=LinearSegmentedColormap.from_list("share", ["white", BLUE]), vmin=0, vmax=1)
    for i, j in np.argwhere(shares >= 0.005).tolist():
        ink = "white" if shares[i, j] > 0.5 else INK
        axes.text(j, i, f"{shares[i, j]:.2f}", ha="center", va="center", color=ink, fontsize=8)
    axes.set_xticks(range(len(names)), names, rotation=50, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="predicted", ylabel="true")


def unit_of(span: float) -> tuple[str, float]:
    """The unit of an axis of so many seconds, and its seconds.

    >>> unit_of(600.0), unit_of(9 * 3600.0), unit_of(86_400.0 * 40)
    (('seconds', 1.0), ('hours', 3600.0), ('days', 86400.0))
    """
    return next((one for one in (("days", 86_400.0), ("hours", 3600.0)) if span >= 3 * one[1]), ("seconds", 1.0))


def forecast(axes: Any, rows: Sequence[Mapping[str, Any]], column: str, unit: float = 1.0) -> None:
    """The last rows of a column, their forecasts the fewest rows ahead, and the fan of the last row. unit: seconds."""
    entries = [[entry for entry in row["forecasts"] if entry["column"] == column] for row in rows]
    at = (np.array([row["ts"] for row in rows]) - rows[-1]["ts"]) / unit
    usual = float(np.median(np.diff(at))) if len(at) > 1 else 1.0  # units, where rows come at any intervals
    first = min(entry["rows"] for entry in entries[-1])

    def due(row: int, entry: Mapping[str, Any]) -> float:
        if entry["ts"] is not None:
            return float(entry["ts"] - rows[-1]["ts"]) / unit
        later = row + entry["rows"]
        return float(at[later]) if later < len(at) else float(at[-1] + usual * (later - len(at) + 1))

    nearest = [next(entry for entry in of_row if entry["rows"] == first) for of_row in entries]
    name = f"{first} row{'s' if first > 1 else ''} ahead"
    last = len(rows) - 1
    now = {
        "value": entries[-1][0]["naive"],
        "intervals": [{"low": entries[-1][0]["naive"], "high": entries[-1][0]["naive"]}] * 9,
    }
    fan = [(0.0, now), *((due(last, entry), entry) for entry in sorted(entries[-1], key=lambda entry: entry["rows"]))]
    drawn = [
        (BLUE, name, [(due(row, entry), entry) for row, entry in enumerate(nearest)]),
        (LINES[1], "of the last row", fan),
    ]
    for color, label, line in drawn:
        times = [time for time, _ in line]
        for at_share in reversed(range(len(entries[-1][0]["intervals"]))):
            share = entries[-1][0]["intervals"][at_share]["coverage"]
            ends = [[entry["intervals"][at_share][end] for _, entry in line] for end in ("low", "high")]
            low, high = (np.array([np.nan if end is None else end for end in some]) for some in ends)
            inside = f"inside, {share:.0%}" if line is drawn[0][2] else None
            axes.fill_between(times, low, high, color=color, alpha=0.16, linewidth=0, label=inside)
        values = [np.nan if entry["value"] is None else entry["value"] for _, entry in line]
        axes.plot(times, values, color=color, linewidth=1.2, label=label)
    axes.plot(at, [of_row[0]["naive"] for of_row in entries], color=INK, linewidth=1.0, label="value")
    axes.grid(axis="y", color=GRID, linewidth=0.6)
