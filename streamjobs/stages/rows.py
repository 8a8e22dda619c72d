"""Samples and rows on their way through the stages, and what the stages made of rows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled_in_place
from algorithms.common.linalg import missing, norm2
from algorithms.common.protocol import Array, Outputs, plain, unknown
from algorithms.drift import report
from streamjobs.stages.alarms import Event

if TYPE_CHECKING:
    from streamjobs.stages.events.bouts import Bout


class Samples(NamedTuple):
    """Columns of samples in arrival order. A loop takes as many of them as it needs, from the first."""

    slots: Array  # (n,) int64
    times: Array  # (n,) float64 event time, seconds
    X: Array  # (n, dim) float64
    L: Array  # (n, labels) float64
    owner: Array  # (n,) int64
    untimed: Array  # (n,) bool, the time is that of the record
    learn: Array  # (n,) int8


TYPES = Samples(*map(np.dtype, (np.int64, np.float64, np.float64, np.float64, np.int64, np.bool_, np.int8)))  # type: ignore[arg-type]


def plain_columns(*columns: Array) -> tuple[Array, ...]:
    """The first columns of `Samples`, writable and C-contiguous: numba would compile loops again for other arrays."""
    pairs = zip(columns, TYPES, strict=False)
    return tuple([one if one.dtype == kind and one.flags.carray else plain(one, kind) for one, kind in pairs])


def joined(parts: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Columns of a loop that paused, one after another."""
    return parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))


class Rows(NamedTuple):
    """Rows on their way through the stages; row n belongs to the key in slots[n] and came with records[owner[n]]."""

    slots: Array  # (n,) int64
    times: Array  # (n,) float64 event time, seconds
    X: Array  # (n, d)
    L: Array  # (n, label width) label codes, NaN unknown
    owner: Array  # (n,) int64
    learn: Array  # (n,) int8
    awake: Array | None = None  # (n,) bool: not of an idle sensor; None where no one asks


class Watched(NamedTuple):
    """What a drift detector watched, and its verdicts."""

    value: Array  # (n,) NaN: not watched, or columns are
    verdict: Array  # (n, 4 or more) statistic, alarm, mean before, mean after, and what `algorithms.drift.report` names


def picked(rows: Rows, which: Array | slice) -> Rows:
    """Those where `which (n,)` bool is true, or of a slice."""
    awake = None if rows.awake is None else rows.awake[which]
    slots, times, X, L, owner, learn, _ = rows
    return Rows(slots[which], times[which], X[which], L[which], owner[which], learn[which], awake)


class Choice(NamedTuple):
    """The class of each row."""

    chosen: Array  # (n,) its column, -1 none
    smoothed: Array | None  # (n, classes) scores that decided, where they are smoothed
    known: Array  # (n,) how many classes could have been chosen
    labelled: Array  # (n, classes) int8, 1 for those the key had labelled before the row
    score: Array  # (n,) of the class, of the scores that decided; NaN without a class
    unknown: Array | None = None  # (n,) bool: its scores resemble no known activity; None where nothing is rejected

    def of(self, which: Array) -> "Choice":
        smoothed, unknown = (None if one is None else one[which] for one in (self.smoothed, self.unknown))
        return Choice(self.chosen[which], smoothed, self.known[which], self.labelled[which], self.score[which], unknown)


class Modelled(NamedTuple):
    """What the stages made of rows, for the encoder."""

    out: Outputs
    drift: list[Watched]  # first what the job uses, then the controls; none without a detector
    share: Array | None  # (n,) of the adapted head in the scores, where a frozen one stands next to it
    choice: Choice | None  # of a classification
    seq: Array  # (n,)
    seen: Array  # (n,)
    ids: list[bytes]  # n, of the rows: `core.advance.identities`
    events: list[Event]  # alarms that are raised, or end
    bouts: "Sequence[Bout]" = ()  # that the rows end
    filled: Array | None = None  # (n,) missing numbers filled since the key's row before; None where none may be
    forecasts: Array | None = None  # (n, columns, horizons, fields), as `Forecast.table` has them


# Counts over a batch, in one compiled pass each: NumPy's passes over few rows cost more than all of a row's stages.
@compiled_in_place
def count_labels(L, chosen, truth):
    """Rows with a label, the newest of them (-1 none), and how many of them had another class chosen.

    chosen (n,): the class of each row, -1 none; empty in a regression. truth (n,): gets the labelled class, -1 none.
    """
    labels, newest, wrong = 0, -1, 0
    for n in range(L.shape[0]):
        truth[n] = -1
        if not missing(L[n]):
            labels, newest = labels + 1, n
            if chosen.size > 0:
                truth[n] = int(L[n, 0])
                wrong += chosen[n] >= 0 and chosen[n] != truth[n]
    return labels, newest, wrong


@compiled_in_place
def find_newest(slots, times, errors, latest, stamps):
    """The newest row, the one with the largest LS error (-1 none), and how many have an LS error.

    latest: by slot, gets each key's last LS error. stamps (n,): get the times in milliseconds.
    """
    newest, worst, known = 0, -1, 0
    for n in range(times.size):
        stamps[n] = int(np.rint(times[n] * 1000.0))
        if times[n] > times[newest]:
            newest = n
        if np.isfinite(errors[n]):
            known += 1
            latest[slots[n]] = errors[n]
            if worst < 0 or errors[n] > errors[worst]:
                worst = n
    return newest, worst, known


@compiled_in_place
def count_alarms(slots, verdict, now, alarmed):
    """Rows with an alarm; alarmed: by slot, gets `now` of these."""
    alarms = 0
    for n in range(slots.size):
        if verdict[n, report.ALARM] > 0.0:
            alarms += 1
            alarmed[slots[n]] = now
    return alarms


@compiled_in_place
def count_judged(slots, verdict, small, bit, warming):
    """P-values of rows without an open alarm, how many are below `small`, and rows at which the detector was ready.

    warming: by slot, gets this bit where the detector warmed up at the newest row.
    """
    judged, few, ready = 0, 0, 0
    for n in range(slots.size):
        p, slot = verdict[n, report.P_VALUE], slots[n]
        if verdict[n, report.OPEN] == 0.0:
            judged += p < 1.0  # 1: no block was judged
            few += p < small
        if verdict[n, report.READY] == 0.0:
            warming[slot] |= bit
        else:
            ready += 1
            warming[slot] &= 255 - bit
    return judged, few, ready


@compiled_in_place
def count_far(X, most, counts):
    """Adds to counts (width,) the rows in which a number is at least `most` from 0; whether there are any."""
    some = False
    for n in range(X.shape[0]):
        for i in range(X.shape[1]):
            if abs(X[n, i]) >= most:
                counts[i] += 1
                some = True
    return some


@compiled_in_place
def find_long(X, most, found):
    """Which rows have a sum of squares above `most`, into found (n,) bool."""
    for n in range(X.shape[0]):
        found[n] = norm2(X[n]) > most


def warm_up(*, watched: bool) -> None:
    """Compile the loops of this module. watched: for drift."""
    slots, times = np.zeros(1, np.int64), np.zeros(1)
    count_labels(unknown((1, 1)), slots, slots.copy())
    find_newest(slots, times, times.copy(), times.copy(), slots.copy())
    count_far(unknown((1, 1)), 0.0, slots.copy())
    find_long(unknown((1, 1)), 0.0, np.zeros(1, np.bool_))
    if watched:
        verdict = unknown((1, report.LONG_COLUMNS))
        count_alarms(slots, verdict, 0, slots.copy())
        count_judged(slots, verdict, 0.0, 1, np.zeros(1, np.uint8))
