"""Levels that fall or rise slowly, such as of a battery, as slopes in an hour, for detectors of their changes.

Symbols: r = change / pause of two rows; slope, the mean of r with weights exp(-age / span); steady, the same mean of slopes.
They are exact for a level that is linear between its rows, so that a pause counts as what it changed.
A change of more than JUMP usual ones, such as of a battery that is charged, is not in the slope: it goes on from the mean
level of SETTLE rows, which have the steady slope. Repeats are not usual changes, because a level may be rounded.
A row that is older than the newest one by BACK spans is of a clock that jumped back: levels go on from it.
Until a key has sent rows for a span, its slopes are not known. Cost of a row: O(columns).  State: 7 numbers a column.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import Array
from streamjobs.stages.stage import JobStage, Shape

HOUR = 3600.0
JUMP, JUMP_FROM, MEMORY = 20.0, 30.0, 100.0  # usual changes; changes before a jump; those that the usual one is a mean of
KNOWN = 1.0 - np.exp(-1.0)  # weight of the changes in one span
SETTLE, BACK = 12.0, 10.0  # rows; spans
FARTHEST, NEAREST = 1e30, 1e-9  # largest |x|; seconds between two rows, for a finite rate of change


class SlopesState(NamedTuple):
    last: Array  # (columns,) newest level; after a jump the mean of the levels since, as of the newest row
    slope: Array  # (columns,) a second, times `weight`
    steady: Array  # (columns,) a second
    settled: Array  # (columns,) rows since a jump, at most SETTLE
    weight: Array  # (columns,) of the changes so far
    usual: Array  # (columns,) mean size of changes
    changes: Array  # (columns,) how many
    newest: float  # event time of the newest row, seconds; -inf: none yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes(JobStage):
    """Which columns of a row are levels.

    >>> stage, times = Slopes(columns=(1,), spans=(7200.0,)), 600.0 * np.arange(100)
    >>> work = stage.holding(stage.begin(Shape(dim=2, width=2, label_width=1, targets=1), seed=0))
    >>> rows = np.column_stack([np.ones(100), 50.0 - times / 1800 + 30 * (np.arange(100) > 60)])  # falls by 2 an hour
    >>> stage.advance(work, np.zeros(100, np.int64), times, rows, times >= 0)[[5, 59, 61, 62], 1].round(6)
    array([nan, -2., -2., -2.])
    """

    persisted_name: ClassVar[str] = "Slopes"
    times = ("newest",)
    ranges = tuple((field, 0.0, np.inf) for field in ("settled", "weight", "usual", "changes"))
    knows_normal = True

    columns: tuple[int, ...]
    spans: tuple[float, ...]  # seconds, of each

    def begin(self, shape: Shape, seed: int) -> SlopesState:
        return SlopesState._make([*np.zeros((7, len(self.columns))), -np.inf])

    def warm_up(self, state: SlopesState, shape: Shape) -> None:
        work, n = self.holding(state), 1
        self.advance(work, np.zeros(n, np.int64), np.zeros(n), np.zeros((n, shape.width)), np.ones(n, np.bool_))

    def advance(self, work: Any, slots: Array, times: Array, X: Array, learn: Array) -> Array:
        """Rows X (n, width) at times (n,) with slopes in place of levels, NaN where they are not known.

        learn (n,) bool: the level goes on with the row. Rows with numbers that are missing stay, and teach nothing.
        """
        rows = np.array(X, np.float64, order="C")
        spans = np.array(self.spans)
        _loop(work.arrays, slots, np.ascontiguousarray(times), np.array(self.columns, np.int64), spans, learn, rows)
        return rows


@compiled
def _loop(work, slots, times, columns, spans, learn, X):
    all_last, all_slope, all_steady, all_settled, all_weight, all_usual, all_changes, newest, _ = work
    for n in range(len(X)):
        key, row = slots[n], X[n]
        if missing(row):
            continue
        last, slope, steady, settled = all_last[key], all_slope[key], all_steady[key], all_settled[key]
        weight, usual, changes = all_weight[key], all_usual[key], all_changes[key]
        pause = times[n] - newest[key]
        begins = pause == np.inf or pause < -BACK * spans.max()
        goes_on = learn[n] and (pause > NEAREST or begins)
        for j in range(len(columns)):
            level = min(max(row[columns[j]], -FARTHEST), FARTHEST)
            if goes_on and begins:
                last[j], settled[j] = level, SETTLE
            elif goes_on:
                change = level - last[j]
                jumps, size = changes[j] >= JUMP_FROM and abs(change) > JUMP * usual[j], abs(change)
                if jumps:
                    last[j], settled[j], size = level, 0.0, JUMP * usual[j]
                elif settled[j] < SETTLE:
                    settled[j] += 1.0
                    last[j] += steady[j] * pause
                    last[j] += (level - last[j]) / (settled[j] + 1.0)
                    slope[j] = steady[j] * weight[j]
                else:
                    last[j], new = level, -np.expm1(-pause / spans[j])
                    slope[j] += new * (change / pause - slope[j])
                    weight[j] += new * (1.0 - weight[j])
                    steady[j] += new / weight[j] * (slope[j] / weight[j] - steady[j])
                if size > 0.0:
                    changes[j] = min(changes[j] + 1.0, MEMORY)
                    usual[j] += (size - usual[j]) / changes[j]
            known = weight[j] > 0.0 and weight[j] >= KNOWN - 1e-9
            of_row = steady[j] if settled[j] < SETTLE else slope[j] / max(weight[j], KNOWN)
            row[columns[j]] = HOUR * of_row if known else np.nan
        if goes_on:
            newest[key] = times[n]
