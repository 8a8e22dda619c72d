"""Pictures of a job's outputs: features, LS error, drift, confusion, forecasts. Needs matplotlib, the extra `plots`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.errors import ConfigError
from streamjobs.notebook import pictures
from streamjobs.notebook.pictures import BLUE, FAINT, GRID, LINES, RED, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from streamjobs.notebook.prototypes import Prototypes

Rows = Sequence[Mapping[str, Any]]  # outputs of a sink, in order
MOST_KEYS = 6  # panels of a picture
MOST_FORECAST = 300  # rows of a forecast
MOST_POINTS = 4000  # of a scatter
SMOOTH = 20  # rows of the thick line


class Plot:
    """Pictures of outputs; each method gives a matplotlib Figure.

    rows: gives the outputs of a sink as dicts. Raises SetupError without matplotlib, ConfigError where there is nothing to
    draw.
    """

    def __init__(self, rows: Callable[[str], Rows], stored: "Callable[[str], list[Prototypes]] | None" = None) -> None:
        self._rows, self._stored = rows, stored

    def features(self) -> "Figure":
        """Every row at its first two features, coloured by its label (or its key, without labels)."""
        rows = [row for row in self._wanted("features") if None not in row["z"]]
        if not rows or len(rows[0]["z"]) < 2:
            raise ConfigError("features: expected rows with two features or more; got none.")
        places = np.array([row["z"][:2] for row in rows])
        groups, what = self._labels(rows)
        kept = np.linspace(0, len(rows) - 1, min(len(rows), MOST_POINTS)).astype(int)
        with new_figure(6.5, 5) as figure:
            axes = figure.add_subplot()
            names = list(dict.fromkeys(groups))
            for number, name in enumerate(names[: len(LINES)]):
                mine = [at for at in kept.tolist() if groups[at] == name]
                axes.scatter(places[mine, 0], places[mine, 1], s=8, color=LINES[number], alpha=0.6, linewidths=0, label=name)
            about = f"Features of {len(rows):,} rows, by {what}"
            axes.set(title=about, xlabel="first feature", ylabel="second feature")
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=2)
        return figure

    def ls_error(self) -> "Figure":
        """The LS error of each key's rows over time, and its mean over the last rows."""
        try:
            rows = self._wanted("predictions")
        except ConfigError:
            rows = self._wanted("features")
        return self._over_time(rows, "ls_error", "LS error")

    def drift(self) -> "Figure":
        """What the detector watches of each key over time, or its statistic of many numbers, and where it raised alarms."""
        rows = self._wanted("drift")
        field, label = ("value", "watched") if any(row["value"] is not None for row in rows) else ("statistic", "statistic")
        return self._over_time(rows, field, label, alarms=True)

    def confusion(self) -> "Figure":
        """True and predicted classes of all labelled rows, as shares of each true class."""
        pairs = [(row.get("true_class"), row.get("predicted_class")) for row in self._wanted("predictions")]
        pairs = [pair for pair in pairs if None not in pair]
        if not pairs or not isinstance(pairs[0][0], str):
            raise ConfigError("confusion: expected predictions of classes with labels; got none.")
        names = sorted({str(name) for pair in pairs for name in pair})
        counts = np.zeros((len(names), len(names)))
        for label, said in pairs:
            counts[names.index(str(label)), names.index(str(said))] += 1
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        side = max(4.0, 2.5 + 0.5 * len(names))
        with new_figure(side + 1, side) as figure:
            axes = figure.add_subplot()
            pictures.matrix(axes, shares, names)
            right = float(np.trace(counts) / counts.sum())
            axes.set_title(f"{right:.1%} right\n{len(pairs):,} labelled rows with a prediction")
        return figure

    def forecast(self, key: str | None = None, column: str | None = None) -> "Figure":
        """Columns of keys, their forecasts the fewest rows ahead with intervals, and all forecasts of the last row.

        key, column: only this one; of all, the first six are drawn, and of each the last 300 rows. Raises ConfigError where
        there is none.
        """
        lines: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for row in self._wanted("forecasts"):
            if (key is None or row["key"] == key) and row["forecasts"][0]["naive"] is not None:  # not of late rows
                for name in dict.fromkeys(one["column"] for one in row["forecasts"]):
                    lines.setdefault((row["key"], name), []).append(row)
        lines = {place: mine for place, mine in lines.items() if column is None or place[1] == column}
        if not lines:
            raise ConfigError(f"forecast: expected forecasts of key {key or 'any'}, column {column or 'any'}; got none.")
        shown = list(lines.items())[:MOST_KEYS]
        with new_figure(9, 0.8 + 2.2 * len(shown)) as figure:
            panels = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
            recent = [mine[-MOST_FORECAST:] for _, mine in shown]
            unit, seconds = pictures.unit_of(max(mine[-1]["ts"] - mine[0]["ts"] for mine in recent))
            for axes, ((of, name), _), mine in zip(panels, shown, recent, strict=True):
                pictures.forecast(axes, mine, name, seconds)
                axes.set_title(f"{of}, {name}")
            left = len(lines) - len(shown)
            panels[-1].set_xlabel(f"{unit} from the last row" + (f" ({left} more are not shown)" if left else ""))
            figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
        return figure

    def prototypes(self, key: str, *, part: int = 0, image: tuple[int, int] | None = None) -> "Figure":
        """The samples that a key's learner keeps, by column, with their shares of the key's rows.

        part: of a learner with several sets, such as a class each. image: (height, width) of samples that are images.
        Raises ConfigError for a key without rows, a learner that stores no samples and an image of another size.
        """
        if self._stored is None:
            raise ConfigError("prototypes: expected a replay in Python; outputs in a folder or a topic do not have them.")
        one = self._stored(key)[part]
        if image is not None and image[0] * image[1] != one.scaled.shape[1]:
            raise ConfigError(f"image: expected a product of {one.scaled.shape[1]}, the numbers of a row, got {image}.")
        return pictures.images(one, image) if image else pictures.samples(one)

    def _over_time(self, rows: Rows, field: str, label: str, *, alarms: bool = False) -> "Figure":
        keys: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            keys.setdefault(row["key"], []).append(row)
        if not any(row[field] is not None for row in rows):
            raise ConfigError(f"{field}: expected rows with a number in this field; got none.")
        shown = list(keys.items())[:MOST_KEYS]
        with new_figure(9, 0.8 + 1.5 * len(shown)) as figure:
            panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
            begin = min(mine[0]["ts"] for _, mine in shown)
            unit, seconds = pictures.unit_of(max(mine[-1]["ts"] for _, mine in shown) - begin)
            for axes, (key, mine) in zip(panels, shown, strict=True):
                at = (np.array([row["ts"] for row in mine]) - begin) / seconds
                values = np.array([np.nan if row[field] is None else row[field] for row in mine], float)
                axes.plot(at, values, color=BLUE, alpha=0.3, linewidth=0.8)
                axes.plot(at, _smoothed(values), color=BLUE, linewidth=1.6)
                raised = [time for time, row in zip(at.tolist(), mine, strict=True) if alarms and row["alarm"]]
                for time in raised:
                    axes.axvline(time, color=RED, linewidth=1.2)
                axes.set(title=key + (f", {len(raised)} alarms" if alarms else ""), ylim=(0, None))
                axes.grid(axis="y", color=GRID, linewidth=0.6)
            left = len(keys) - len(shown)
            panels[-1].set_xlabel(f"{unit} since the first row" + (f" ({left} more keys are not shown)" if left else ""))
            figure.supylabel(f"{label}, and its mean over {SMOOTH} rows", fontsize=9, color=FAINT)
        return figure

    def _labels(self, rows: Rows) -> tuple[list[str], str]:
        """What each row is called: its label, where predictions have some; else its key."""
        try:
            labels = {(row["key"], row["seq"]): row.get("true_class") for row in self._rows("predictions")}
        except ConfigError:
            labels = {}
        if not any(isinstance(label, str) for label in labels.values()):
            return [row["key"] for row in rows], "key"
        return [str(labels.get((row["key"], row["seq"])) or "no label") for row in rows], "label"

    def _wanted(self, sink: str) -> Rows:
        rows = self._rows(sink)
        if not rows:
            raise ConfigError(f"{sink}: expected outputs to draw, got none; look at the summary or the dead letters.")
        return rows


KINDS = ("features", "ls_error", "drift", "confusion", "forecast")


def _smoothed(values: Array) -> Array:
    """Mean (n,) of each value and those before it, SMOOTH together, of the finite ones."""
    known = np.isfinite(values)
    sums = np.cumsum(np.where(known, values, 0.0))
    counts = np.cumsum(known).astype(float)
    before = np.maximum(np.arange(len(values)) - SMOOTH, -1)
    total = sums - np.where(before >= 0, sums[before], 0.0)
    count = counts - np.where(before >= 0, counts[before], 0.0)
    mean: Array = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return mean
