"""Rows as deviations from what is usual at their time of day, for detectors of streams with a daily rhythm.

Symbols: a day has BINS parts. c = centre, the median over the latest DAYS days of a column's mean in this part; s = unit,
the mean over these days, of this part and the two next to it, of sqrt(variance + (mean - c)^2); z = (x - c) / s.
A median, because a fault of one day would else be missed at the same time on the next days, when the stream is normal again.
A day that is off by FAR units as a whole, in every part to one side, is a new level, to which the days before move.
A part says nothing before its third day. Days are those of UTC, moved by the summer time of `zone`.
With `week` a day is compared with the latest DAYS days of its kind, such as Sundays. Days are then those of `zone`. A day
that resembles another kind from its first rows on, such as a holiday, goes on as a day of that kind: z^2, cut at
MOST_EVIDENCE, summed over its parts and the present row, is smaller there by ENOUGH. The row with which it changes keeps its
z, because the machine may have failed to start. The day returns to its own kind by the present row alone.
State: 8 BINS DAYS + 40 bytes a column, 8 BINS bytes a key; with kinds of days, 8 BINS DAYS and 8 BINS for each of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand
from algorithms.common.linalg import NO_SPREAD, NO_SPREAD_RELATIVE, missing
from algorithms.common.protocol import Array
from algorithms.common.workspace import Workspace
from streamjobs.stages.stage import JobStage, Shape

DAY, BINS, DAYS, KNOWN = 86_400.0, 96, 5, 2  # seconds; parts of a day; days that are kept, and before the first z
FAR = 2.0  # units by which a whole day is off, for the days before to move to its level
LEAST_UNIT = 0.05  # of the column's mean unit, where a part of the day hardly varies
MOST, FARTHEST = 50.0, 1e30  # largest |z| and |x|
UNUSUAL, AWAKE = 2.0, 1.5  # |z| from which other kinds of days are tried; from which an idle sensor seems to have failed
APART = 0.25  # of the largest distance of two kinds of days, by which they differ at least in a part that counts
MOST_EVIDENCE, ENOUGH = 100.0, 25.0


class RhythmState(NamedTuple):
    means: Array  # (width, BINS, DAYS) float32, from `level`
    spreads: Array  # (width, BINS, DAYS) float32
    days: Array  # (BINS,) int64, that each part of the day had
    level: Array  # (width,) of the first row
    usual: Array  # (width, 2) c and s of the present part of the day; s is 0 where they are not known
    sums: Array  # (width, 2) mean of its rows, and sum of their squared deviations
    part: float  # its number since 1970; -inf: none yet; and (1 + kind) / 8, if the day goes on as one of another kind
    rows: int  # that it had


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm(JobStage):
    """Gives each row as deviations from the rows at its time on the days before.

    >>> stage, times, rows = Rhythm(), 60.0 * np.arange(3 * 1440), np.arange(3 * 1440.0).reshape(-1, 1) % 1440
    >>> fresh = stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0)
    >>> z, centre, unit = stage.advance(stage.holding(fresh), np.zeros(len(rows), np.int64), times, rows, rows[:, 0] >= 0)
    >>> z[[1440, 2880]].ravel().round(2), centre[2880].item()  # the third day begins at the end of the first quarter below
    (array([  nan, -1.62]), 7.0)
    """

    persisted_name: ClassVar[str] = "Rhythm"
    tallies = ("days",)
    knows_normal = True

    week: str = ""  # a letter for each day from Monday on, the same for days of the same kind; "": all are
    zone: tzinfo | None = None  # a state means the same with any, but for the hours by which it moves the days

    def description(self) -> str:
        return f"{self.persisted_name}({self.week})"

    def begin(self, shape: Shape, seed: int) -> RhythmState:
        bins = BINS * max(len(set(self.week)), 1)
        rings = np.zeros((2, shape.width, bins, DAYS), np.float32)
        level, pairs = np.zeros(shape.width), np.zeros((2, shape.width, 2))
        return RhythmState(rings[0], rings[1], np.zeros(bins, np.int64), level, pairs[0], pairs[1], -np.inf, 0)

    def warm_up(self, state: RhythmState, shape: Shape) -> None:
        work, n = self.holding(state), 1
        self.advance(work, np.zeros(n, np.int64), np.zeros(n), np.zeros((n, shape.width)), np.ones(n, np.bool_))

    def demands(self, work: Workspace, slots: Array, classes: Array | None = None) -> Iterator[Demand]:
        days, part = work["days"][slots], work["part"][slots]
        kinds = 8 * (np.where(np.isfinite(part), part, 0.0) % 1.0)
        known = (kinds == np.floor(kinds)) & (kinds <= days.shape[1] // BINS)
        yield Demand("part", "a number with a kind of day, or -inf", (np.isfinite(part) | np.isneginf(part)) & known)

    def advance(self, work: Any, slots: Array, times: Array, X: Array, learn: Array, repeats: Array | None = None) -> Array:
        """(3, n, width): z, c and s of rows X (n, width) at times (n,); NaN where they are not known, s is 0 before any is.

        learn (n,) bool: the row is one of its day. Rows with numbers that are missing are not. repeats (n,) bool: the sensor
        seems idle; such rows teach nothing, and have a z only if it is AWAKE or more.
        """
        found = np.full((3, *X.shape), np.nan)
        if self.zone is not None:
            parts, which = np.unique(np.floor(times * (BINS / DAY)), return_inverse=True)
            whole = bool(self.week)
            times = times + np.array([_forward(part, self.zone, whole) for part in parts.tolist()])[which]
        letters = self.week or "a" * 7
        kinds = np.array([sorted(set(letters)).index(letter) for letter in letters])
        repeats = np.zeros(len(X), np.bool_) if repeats is None else repeats
        _loop(work.arrays, slots, times, np.ascontiguousarray(X), learn, repeats, kinds, found)
        return found


@lru_cache(maxsize=10_000)
def _forward(part: float, zone: tzinfo, whole: bool) -> float:
    """Seconds by which clocks are forward in this part of a day since 1970, for summer; `whole`: of UTC."""
    try:
        moment = datetime.fromtimestamp(part * (DAY / BINS), zone)
        forward = moment.utcoffset() if whole else moment.dst()
    except (OverflowError, ValueError):  # no date
        return 0.0
    return forward.total_seconds() if forward else 0.0


@compiled
def _loop(work, slots, times, X, learn, repeats, kinds, found):
    all_means, all_spreads, all_days, all_level, all_usual, all_sums, parts, rows, _ = work
    several, others = kinds.max() > 0, np.empty((X.shape[1], 2))
    for n in range(len(X)):
        key, x = slots[n], X[n]
        if missing(x):
            continue
        means, spreads, days, level = all_means[key], all_spreads[key], all_days[key], all_level[key]
        usual, sums, part = all_usual[key], all_sums[key], np.floor(times[n] * (BINS / DAY))
        before = np.floor(parts[key])
        if repeats[n]:
            at = _place(part + parts[key] - before if part // BINS == before // BINS else part, kinds)
            _begin(means, spreads, days, at, others)
            if days[at] < KNOWN or _compare(x, level, others, found[:, n]) < AWAKE:
                found[:, n] = np.nan
            continue
        if part != before and learn[n]:
            as_other = 0.0
            if before == -np.inf:
                for i in range(x.size):
                    level[i] = _near(x[i])
            else:
                at = _place(parts[key], kinds)
                _end(means, spreads, days, sums, rows[key], at)
                for i in range(x.size):
                    _move(means[i], spreads[i], days, at)
                if part // BINS == before // BINS:
                    as_other = parts[key] - before
            before, parts[key], rows[key] = part, part + as_other, 0
            _begin(means, spreads, days, _place(parts[key], kinds), usual)
        at, farthest = _place(parts[key] if part == before else part, kinds), 0.0
        if days[at] >= KNOWN and part == before:
            farthest = _compare(x, level, usual, found[:, n])
        elif days.max() <= KNOWN:
            found[2, n] = 0.0
        if learn[n]:
            kind = -1
            if several and farthest > UNUSUAL:
                kind = _other_kind((means, spreads, days, level, usual), x, found[0, n], part, at, kinds, others)
            if kind >= 0:
                usual[:] = others
                parts[key] = part + (1 + kind) / 8
                if kind == _place(part, kinds) // BINS:
                    parts[key] = part
                    _compare(x, level, usual, found[:, n])
            rows[key] += 1
            for i in range(x.size):
                gap = _near(x[i]) - level[i] - sums[i, 0]
                if rows[key] == 1:
                    sums[i, 0], sums[i, 1] = _near(x[i]) - level[i], 0.0
                else:
                    sums[i, 0] += gap / rows[key]
                    sums[i, 1] += gap * gap * ((rows[key] - 1.0) / rows[key])


@compiled
def _place(part, kinds):
    """Of a part since 1970, which began with a Thursday: its kind of day, and the part of the day."""
    whole = np.floor(part)
    kind = kinds[int((whole // BINS + 3) % 7)] if part == whole else int(8 * (part - whole)) - 1
    return kind * BINS + int(whole % BINS)


@compiled
def _compare(x, level, usual, found):
    """z, c and s of a row; gives the largest |z|."""
    farthest = 0.0
    for i in range(x.size):
        centre = level[i] + usual[i, 0]
        unit = max(usual[i, 1], NO_SPREAD, NO_SPREAD_RELATIVE * abs(centre))
        found[0, i] = min(max((_near(x[i]) - centre) / unit, -MOST), MOST)
        found[1, i], found[2, i] = centre, unit
        farthest = max(farthest, abs(found[0, i]))
    return farthest


@compiled
def _other_kind(own_state, x, z, part, at, kinds, others):
    """The kind of day that this one resembles rather than that of `at`, or -1; its c and s of this part are in others."""
    means, spreads, days, level, usual = own_state
    own, first, width = _place(part, kinds), at // BINS * BINS, x.size
    ours, theirs, least = np.empty((width, 2)), np.empty((width, 2)), np.empty(width)
    for kind in range(len(days) // BINS):
        shift = kind * BINS - first
        if shift == 0 or days[at + shift] < KNOWN:
            continue
        nearer = False
        for i in range(width):
            value = _near(x[i]) - level[i]
            gap = abs(value - _centre(means, days, i, at + shift))
            nearer |= abs(z[i]) > UNUSUAL and gap < abs(value - usual[i, 0])
        if not nearer:
            continue
        _begin(means, spreads, days, at + shift, others)
        evidence = 0.0
        for i in range(width):
            evidence += _evidence(_near(x[i]) - level[i], usual[i], others[i], 0.0)
        if not evidence > 0.0:
            continue
        for i in range(width):
            least[i] = 0.0
            for b in range(first, first + BINS):
                if days[b] > 0 and days[b + shift] > 0:
                    least[i] = max(least[i], APART * abs(_centre(means, days, i, b) - _centre(means, days, i, b + shift)))
        evidence = 0.0
        for i in range(width):
            evidence += _evidence(_near(x[i]) - level[i], usual[i], others[i], least[i])
        if kind != own // BINS:  # also the parts of the day so far
            for b in range(own // BINS * BINS, own):
                there = kind * BINS + b % BINS
                if days[b] < KNOWN or days[there] < KNOWN:
                    continue
                _begin(means, spreads, days, b, ours)
                _begin(means, spreads, days, there, theirs)
                for i in range(width):
                    evidence += _evidence(means[i, b, (days[b] - 1) % DAYS], ours[i], theirs[i], least[i])
        if evidence >= ENOUGH:
            return kind
    return -1


@compiled
def _centre(means, days, i, at):
    return _median(means[i, at, : min(days[at], DAYS)])


@compiled
def _evidence(value, usual, other, least):
    """By how much z^2 is smaller for the other kind of days, if kinds differ in this part of the day."""
    if not abs(usual[0] - other[0]) > max(usual[1] + other[1], least):
        return 0.0
    z, z_of_other = (value - usual[0]) / max(usual[1], NO_SPREAD), (value - other[0]) / max(other[1], NO_SPREAD)
    return min(z * z, MOST_EVIDENCE) - min(z_of_other * z_of_other, MOST_EVIDENCE)


@compiled
def _near(x):
    return min(max(x, -FARTHEST), FARTHEST)


@compiled
def _end(means, spreads, days, sums, rows, at):
    """A part of a day into the days that are kept, in place of the oldest."""
    place = days[at] % DAYS
    days[at] += 1
    for i in range(len(sums)):
        means[i, at, place] = sums[i, 0]
        off = sums[i, 0] - _median(means[i, at, : min(days[at], DAYS)])
        spreads[i, at, place] = np.sqrt(sums[i, 1] / max(rows, 1) + off * off)


@compiled
def _move(means, spreads, days, at):
    """Days before move to the level of the latest one, if all its parts, up to this one, are off to the same side."""
    off, units, side, first = np.empty(BINS), np.empty(BINS), 0.0, at // BINS * BINS
    for k in range(BINS):
        b = first + (at - k) % BINS
        held = min(days[b], DAYS)
        if held <= KNOWN:
            return
        newest = (days[b] - 1) % DAYS
        before, spread, n = np.empty(held - 1), 0.0, 0
        for d in range(held):
            if d != newest:
                before[n], spread, n = means[b, d], spread + spreads[b, d], n + 1
        off[k] = means[b, newest] - _median(before)
        side = np.sign(off[k]) if k == 0 else side
        units[k] = spread / n
        if not off[k] * side > 0.0:
            return
    if not np.median(np.abs(off) / np.maximum(units, NO_SPREAD)) > FAR:
        return
    moved = _median(off)
    for b in range(first, first + BINS):
        held, newest = min(days[b], DAYS), (days[b] - 1) % DAYS
        spread = spreads[b, :held].sum() - spreads[b, newest]
        for d in range(held):
            if d != newest:
                means[b, d] += moved
        spreads[b, newest] = spread / (held - 1)


@compiled
def _begin(means, spreads, days, at, usual):
    """c and s of the part of the day that begins."""
    first = at // BINS * BINS
    for i in range(len(means)):
        usual[i, 0], usual[i, 1] = 0.0, 0.0
        if days[at] < KNOWN:
            continue
        near, parts, whole, had = 0.0, 0, 0.0, 0
        for b in range(first, first + BINS):
            held = min(days[b], DAYS)
            if held == 0:
                continue
            mean = spreads[i, b, :held].mean()
            whole, had = whole + mean, had + 1
            if (b - at + 1) % BINS <= 2:
                near, parts = near + mean, parts + 1
        usual[i, 0] = _median(means[i, at, : min(days[at], DAYS)])
        usual[i, 1] = max(near / parts, LEAST_UNIT * whole / had)


@compiled
def _median(values):
    order = np.sort(values)
    return 0.5 * (float(order[order.size // 2]) + float(order[(order.size - 1) // 2]))
