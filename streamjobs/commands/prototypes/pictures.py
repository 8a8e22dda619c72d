"""Pictures of a learner's stored samples, SVG or PNG: needs matplotlib, the extra `plots`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamjobs.errors import ConfigError, SetupError

if TYPE_CHECKING:
    from streamjobs.maintenance.prototypes import Prototype, Prototypes

FIXED = {"svg.hashsalt": "streamjobs", "svg.fonttype": "none"}  # the same samples give the same file
MOST_NAMES = 60  # columns that have their names below them
LIMIT = 3.0  # standard deviations at the ends of the colours


def draw(one: "Prototypes", shape: tuple[int, int] | None, path: Path) -> None:
    """Write the picture: images (of `shape`) in a square, else a matrix of samples by columns.

    Raises SetupError without matplotlib, ConfigError where the file cannot be written.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise SetupError("--picture needs matplotlib; install it with: pip install 'streamjobs[plots]'") from None
    with matplotlib.rc_context(FIXED):
        figure = Figure(layout="constrained")
        if shape is None:
            _matrix(figure, one)
        else:
            _images(figure, one, shape)
        about = {"Date": None} if path.suffix.lower() == ".svg" else {}
        try:
            figure.savefig(path, metadata=about, dpi=120)
        except OSError as error:
            raise ConfigError(f"--picture {path}: cannot be written ({error.strerror}).") from None


def _title(one: "Prototypes") -> str:
    of = "" if one.rows is None else f" after {one.rows:,} rows"
    return f"{len(one.samples)} {one.field} of {one.name}{of}"


def _told(sample: "Prototype") -> str:
    """When it entered, and its share."""
    said = "" if sample.entered is None else f"row {sample.entered:,}"
    return said if sample.share is None else f"{said}  {sample.share:.1%}".strip()


def _images(figure: Any, one: "Prototypes", shape: tuple[int, int]) -> None:
    across = math.ceil(math.sqrt(len(one.samples)))
    down = math.ceil(len(one.samples) / across)
    figure.set_size_inches(1.1 * across, 1.3 * down + 0.5)
    figure.suptitle(_title(one))
    for axes, sample in zip(figure.subplots(down, across, squeeze=False).flat, one.samples, strict=False):
        axes.imshow(np.asarray(sample.x).reshape(shape), cmap="gray")
        axes.set_title(_told(sample), fontsize=6)
    for axes in figure.axes:
        axes.set_axis_off()


def _matrix(figure: Any, one: "Prototypes") -> None:
    """Samples by columns in standard deviations, and the shares beside them where they are known."""
    values = np.asarray([sample.scaled for sample in one.samples])
    m, n = values.shape
    figure.set_size_inches(min(4 + 0.2 * n, 24), min(2 + 0.18 * m, 30))
    figure.suptitle(_title(one))
    known = all(sample.share is not None for sample in one.samples)
    grid = figure.add_gridspec(1, 2 if known else 1, width_ratios=(4, 1) if known else None)
    axes = figure.add_subplot(grid[0, 0])
    drawn = axes.imshow(values, aspect="auto", interpolation="nearest", cmap="RdBu_r", vmin=-LIMIT, vmax=LIMIT)
    labels = [str(i + 1) if s.entered is None else f"row {s.entered:,}" for i, s in enumerate(one.samples)]
    step = max(1, m // 50)
    axes.set_yticks(range(0, m, step), labels[::step], fontsize=7)
    if n <= MOST_NAMES:
        axes.set_xticks(range(n), one.columns, rotation=90, fontsize=7)
    figure.colorbar(drawn, ax=axes, label="standard deviations from the mean", location="bottom", shrink=0.5)
    if known:
        beside = figure.add_subplot(grid[0, 1], sharey=axes)
        beside.barh(range(m), [100 * (sample.share or 0.0) for sample in one.samples], color="#0969da")
        beside.set_xlabel("share of rows, %")
        beside.tick_params(labelleft=False)
