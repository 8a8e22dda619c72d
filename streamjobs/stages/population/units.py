"""Windows in other units than the population's: acceleration in g in place of m/s^2, degrees/s in place of rad/s."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array

NORM = "_norm_mean"  # ends the name of a statistic: the length of three axes, mean of a window
STEADY = 0.5  # deviation to mean of acceleration with gravity, at most: its length is hardly less, and seldom much more
NEAR, NEAR_TURNS = 1.35, 2.0  # a ratio this many times off is still the unit's; turning rates differ between people
LEAST = 5.0  # all of these ratios are larger, or smaller than its inverse
G, DEGREE = 9.80665, 180.0 / np.pi
OF_STEADY = {
    G: "m/s^2 in place of g",
    1 / G: "g in place of m/s^2",
    1000.0: "mg in place of g",
    0.001: "g in place of mg",
    1000.0 / G: "mg in place of m/s^2",
    G / 1000.0: "m/s^2 in place of mg",
}
OF_TURNS = {DEGREE: "degrees/s in place of rad/s", 1 / DEGREE: "rad/s in place of degrees/s"}


class Norms(NamedTuple):
    """Statistics of windows that are lengths of three axes, as a population has them."""

    names: list[str]  # of the axes, such as ax_ay_az
    columns: Array  # (k,) of a row
    means: Array  # (k,) above 0
    steady: Array  # (k,) bool

    def other_units(self, X: Array) -> Iterator[tuple[int, str]]:
        """Rows X (n, width) that look as if in another unit: the number of each, and what it looks like.

        A window at rest has small turning rates in any unit: only larger ones are named.
        """
        ratios = X[:, self.columns] / self.means
        for n, axis in zip(*np.nonzero((ratios > LEAST) | ((ratios < 1 / LEAST) & self.steady)), strict=True):
            if (unit := unit_of(ratios[n, axis], self.steady[axis])) is not None:
                yield n, f"{self.names[axis]} {unit}"


def norms_of(columns: Sequence[str], mean: Array, variance: Array) -> Norms | None:
    """Of rows with these columns, by their mean and variance (width,); None without three axes."""
    found: dict[str, int] = {}
    for at, name in enumerate(columns):
        axes = name.removesuffix(NORM).removeprefix("gravity_")
        if name.endswith(NORM) and mean[at] > 0:
            found.setdefault(axes, at)
    places = np.array(list(found.values()), np.int64)
    return Norms(list(found), places, mean[places], np.sqrt(variance[places]) < STEADY * mean[places]) if found else None


def unit_of(ratio: float, steady: bool) -> str | None:
    """What may explain this ratio of a length to the population's; None: its unit is the population's, or not known."""
    near = NEAR if steady else NEAR_TURNS
    for factor, unit in (OF_STEADY if steady else OF_TURNS).items():
        if factor / near < ratio < factor * near:
            return f"is about {factor:.4g} times the usual, as with {unit}"
    return None


def unlike_most(
    columns: Sequence[str], X: Array, person: Array, new: Array, resting: Collection[int] = ()
) -> Iterator[tuple[int, str]]:
    """People with rows X (n, width) of these people (n,) in another unit than most people's that are not `new` (n,).

    Gives the number of each, and what looks how. The mean of a person is compared with the median of the others, because
    the people who teach may have several units. resting: people who may be at rest in all windows, with small turning rates
    in any unit.
    """
    people = np.unique(person)
    teach = np.unique(person[~new])
    own = np.array([X[person == one].mean(axis=0) for one in people])
    taught = own[np.isin(people, teach)]
    usual = np.quantile(taught, 0.5, axis=0, method="lower")
    spread = np.array([X[person == one].var(axis=0) / np.square(np.maximum(own[n], 1e-12)) for n, one in enumerate(people)])
    norms = norms_of(columns, usual, np.median(spread, axis=0) * np.square(usual))
    if norms is None:
        return
    for one, row in zip(people.tolist(), own, strict=True):
        if new.any() and one in teach:
            continue
        for axes, column, mean, steady in zip(*norms, strict=True):
            small = row[column] < mean and one in resting
            if not small and (unit := unit_of(row[column] / mean, steady)) is not None:
                yield one, f"{axes} {unit}"
