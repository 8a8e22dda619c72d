"""A sensor that is worn on either side of the body: which columns change their sign from one side to the other.

Left and right are mirror images, so the means of a column on both sides, of one person at one activity each, are about
equal or about opposite. The cosine between the two, over people and activities, says which.
"""

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamjobs.settings.paths import column_path

NAMES = ("side", "arm", "wrist", "hand", "leg", "foot", "ankle", "pocket")
Array = NDArray[Any]
CLEAR, DEVIATIONS = 0.4, 3.0  # a cosine below -CLEAR, and so many deviations of noise below 0: the sign changes
MOST_HELD, SPAN = 20_000, 10.0  # samples of a person that wait for a label; seconds that one label is of, at most


class Mirror(NamedTuple):
    field: str
    when: str  # the value of the side that is turned into the other
    other: str
    columns: list[str]  # that change their sign
    known: bool  # enough people wear the sensor on both sides


class Sides:
    """Sums over samples by person, activity and side. field: the column with the side; fields: the numbers of x."""

    def __init__(self, field: str, fields: Sequence[str], time: str | None = None, second: float = 1.0) -> None:
        """time: column with the time of samples and of labels that come later; second: in its unit."""
        self._time, self._span = None if time is None else column_path(time), SPAN * second
        self._held: dict[object, deque[tuple[float, dict[str, Any]]]] = defaultdict(lambda: deque(maxlen=MOST_HELD))
        self.field, self.fields = field, list(fields)
        self._side, self._numbers = column_path(field), [column_path(name) for name in fields]
        self._sums: dict[tuple[str, object, object], list[float]] = {}

    @property
    def wanted(self) -> list[str]:
        return [self.field, *self.fields]

    def add(self, row: dict[str, Any], person: object, activity: object) -> None:
        side, values = self._side.find(row), [path.find(row) for path in self._numbers]
        if not isinstance(side, str) or not all(isinstance(value, float | int) for value in values):
            return
        sums = self._sums.setdefault((side, person, activity), [0.0] * (len(values) + 1))
        for n, value in enumerate(values):
            sums[n] += value
        sums[-1] += 1

    def hold(self, row: dict[str, Any], person: object) -> None:
        """A sample, until its label comes."""
        time = None if self._time is None else self._time.find(row)
        if isinstance(time, float | int):
            self._held[person].append((time, row))

    def label(self, row: dict[str, Any], person: object, activity: object) -> None:
        """A label that came later, of the samples up to its time."""
        held, time = self._held[person], None if self._time is None else self._time.find(row)
        while held and isinstance(time, float | int) and held[0][0] <= time:
            at, sample = held.popleft()
            if at > time - self._span:
                self.add(sample, person, activity)

    def mirror(self) -> Mirror | None:
        """None if there are not two sides."""
        sides = sorted({side for side, _, _ in self._sums})
        if len(sides) != 2:
            return None
        when, turned = sides
        one, other = ({place[1:]: _mean(sums) for place, sums in self._sums.items() if place[0] == side} for side in sides)
        both = [place for place in one if place in other]
        clear = max(CLEAR, DEVIATIONS / math.sqrt(max(1, len(both))))
        if clear >= 1:
            return Mirror(self.field, when, turned, [], False)
        cosines = _cosines(np.array([one[place] for place in both]), np.array([other[place] for place in both]))
        opposite = [name for name, cosine in zip(self.fields, cosines.tolist(), strict=True) if cosine < -clear]
        return Mirror(self.field, when, turned, opposite, True)


def _mean(sums: list[float]) -> list[float]:
    return [value / sums[-1] for value in sums[:-1]]


def _cosines(A: Array, B: Array) -> Array:
    """Between the columns of A and B (pairs, fields); 0 where a column is 0."""
    norms = np.sqrt((A * A).sum(axis=0) * (B * B).sum(axis=0))
    cosines: Array = np.divide((A * B).sum(axis=0), norms, out=np.zeros(A.shape[1]), where=norms > 0)
    return cosines
