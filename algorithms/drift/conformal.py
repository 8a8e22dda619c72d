"""Conformal Shiryaev-Roberts: alarms that keep a stated number of rows between false ones, whatever the distribution.

Source: `ranked.py` says which; on one watched number.
Symbols: p = p, f(p) = bet, R = scores, L = marks[BLOCK], s = shares, c = rows_between.
Cost of a row: O(reference / L).  State: reference float32, and 49 numbers.
Departs from the source: the reference is a window, L and s are estimated, and an alarm is not raised again while it is open.
One-sided: a rise of the watched number is drift; a fall is not, and what comes after it is the new reference.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand
from algorithms.common.protocol import LEARN_EXTRACTOR, Array, Basis, Outputs
from algorithms.common.randomness import uniform
from algorithms.common.workspace import Workspace
from algorithms.drift import ranked
from algorithms.drift.detector import Detector
from algorithms.drift.report import LONG_COLUMNS, report, report_more, watches_one


class ConformalState(NamedTuple):
    reference: Array  # (1, reference) float32, block means; the first of marks' HELD, a ring when full
    marks: Array  # (1, MARKS) blocks held, place of the oldest, rows of a block, is that known, rows in this one, rows since
    sums: Array  # (1, SUMS) of this block, CUSUM, of the values since the CUSUM was last 0
    scores: Array  # (1, 6) R for each power
    levels: Array  # (1, LEVELS, 3) mean, variance, waiting value of the means of 1, 2, 4 .. rows
    watched: int  # rows in levels
    opened: int  # rows of the alarm that is open; above CLOSED: of those before, and CLOSED
    seed: int
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformal(Detector):
    """Finds a rise of the values; while nothing changes it alarms at most once in `rows_between` rows, on average.

    statistic: evidence / rows_between, from 1 on an alarm; of an open alarm how sure it is, 0 to 1. Says 0 in its warm-up.

    >>> detector = Conformal(rows_between=100)
    >>> values = np.concatenate([np.arange(200) % 7, np.full(10, 9.0)])[:, None]
    >>> state, out = detector.run(detector.init(dim=1, targets=0, seed=0), values)
    >>> out.features[:, 1].nonzero()[0]
    array([203])
    """

    reports: ClassVar[int] = LONG_COLUMNS
    at_bound: ClassVar[Mapping[str, float]] = ranked.AT_BOUND

    rows_between: float = 10_000.0  # from one false alarm to the next, on average at least
    reference: int = 500  # most block means that a new one is ranked among
    least: int = 20  # block means before the first verdict
    hold: int = 500  # most rows an alarm stays open, then what came is the new reference; 0: the reference starts over

    def __post_init__(self) -> None:
        ranked.check_settings(self, self.rows_between, self.reference, self.least, self.hold)

    def init(self, *, dim: int, targets: int, seed: int) -> ConformalState:
        watches_one(self, dim)
        return ConformalState(*ranked.fresh(1, self.reference), 0, 0, seed, 0)

    def demands(self, work: Workspace, slots: Array) -> Iterable[Demand]:
        return ranked.demands(work, slots)

    def recent_error(self, state: ConformalState) -> tuple[float, str] | None:
        held = int(state.marks[0, ranked.HELD])
        return (float(state.reference[0, :held].mean()), f"the {held} blocks of its reference") if held else None

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, learn, out.features, float(self.rows_between), self.least, self.hold)


@compiled
def _loop(work, slots, X, learn, features, rows_between, least, hold):
    all_reference, all_marks, all_sums, all_scores, all_levels, watched, opened, seeds, seen, _ = work
    raised, shares, weighed = np.empty(len(ranked.POWERS)), np.ones(len(ranked.POWERS)), np.empty(ranked.WEIGHED)
    for n in range(len(X)):
        key = slots[n]
        if not np.isfinite(X[n, 0]):
            continue
        x = min(max(X[n, 0], -ranked.FARTHEST), ranked.FARTHEST)
        reference, marks, sums = all_reference[key, 0], all_marks[key, 0], all_sums[key, 0]
        scores, levels = all_scores[key, 0], all_levels[key, 0]

        # Judge the block that the row ends, if it does.
        is_open = 0 < opened[key] < ranked.CLOSED
        draw = uniform(seeds[key], ranked.TIES, seen[key])
        if marks[ranked.ROWS] + 1 >= marks[ranked.BLOCK]:
            ranked.share_out(levels, marks, watched[key], shares)
        ranked.weigh(reference, marks, sums, scores, x, least, is_open, draw, shares, raised, weighed)
        statistic = weighed[ranked.CLIMBED] / ranked.CERTAIN if is_open else weighed[ranked.EVIDENCE] / rows_between
        alarm = not is_open and statistic >= 1.0
        before, after, since, ranked_among = np.nan, np.nan, np.nan, np.nan
        if alarm:
            ranked_among = marks[ranked.HELD] * marks[ranked.BLOCK]
            before = ranked.mean_of(reference, marks[ranked.HELD])
            since = marks[ranked.SINCE] + 1.0
            after = (sums[ranked.AFTER] + x) / since
        report(features[n], statistic, alarm, before, after)
        most_open = max(hold, ranked.HELD_OPEN * marks[ranked.BLOCK])
        still_open = alarm or (is_open and weighed[ranked.CLIMBED] > 0.0 and opened[key] < most_open)
        report_more(features[n], since, still_open, ranked.ready(marks, least), weighed[ranked.P], ranked_among)

        if not learn[n] & LEARN_EXTRACTOR:
            continue
        seen[key] += 1
        if not (is_open or alarm):
            watched[key] += 1
            ranked.push(levels, watched[key], x, ranked.NEAR)
        ranked.take(reference, marks, sums, scores, x, not (is_open or alarm), raised, weighed)
        if alarm and hold > 0:
            before_it = ranked.lately_open(opened[key], watched[key], most_open)
            if before_it == 0:
                ranked.forget_levels(levels)
            opened[key], watched[key] = 1 + before_it, watched[key] if before_it > 0 else 0
            ranked.open_alarm(marks, sums, scores, True)
        elif alarm or (is_open and opened[key] >= most_open):  # what came is the new reference
            opened[key], watched[key] = 0, 0
            ranked.begin(marks, sums, scores, levels)
        elif is_open and not still_open:  # back to what it was
            opened[key] += ranked.CLOSED
            ranked.forget(marks, sums, scores)
        elif is_open:
            opened[key] += 1
        elif ranked.fell(reference, marks, sums, scores, levels, watched[key]):
            watched[key] = 0
        else:
            ranked.look(reference, marks, sums, scores, levels, watched[key])
