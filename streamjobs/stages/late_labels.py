"""Rows of a key that wait for a label: one that comes later in a record of its own, or one held back by `delay`.

A row without a label waits until a label with the time nearest to its own comes (at most `within` seconds away, the
earlier row at ties), or until the key's newest row is `wait` seconds later ("unlabelled"). With `delay`, a label that
came with its row is learned only when a row at least `delay` seconds later has been predicted. At most `most` rows of a
key wait, then the oldest leaves ("waiting_full"). A label that meets no row of its time is not learned. A row that is not
finite (squares of numbers above 1e154 are not) teaches nothing, so it does not wait.

What is learned later is a row of its own: the row's x again, which teaches the head and nothing else. It gives no
output; what was said of the row at its time is remembered, so that right and wrong are counted against that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing, put
from algorithms.common.protocol import LEARN, LEARN_HEAD, Array, plain, require, unknown
from algorithms.common.workspace import Slot
from streamjobs.stages.event_time import CLOSE
from streamjobs.stages.rows import Rows, plain_columns
from streamjobs.stages.stage import JobStage, Shape

REASONS = ("unlabelled", "waiting_full")


class LateLabelsState(NamedTuple):
    times: Array  # (h,) of rows that wait, in no order
    X: Array  # (h, width)
    L: Array  # (h, labels) their label where it came with them, else NaN
    said: Array  # (h,) int64 class said at the time, -1 none
    newest: float  # event time of the newest row, seconds; -inf: none yet


class Matched(NamedTuple):
    """Rows for the learner in their order: those that came and, between them, those learned later."""

    rows: Rows
    source: Array  # (k,) which of the rows that came it is, -1 for one learned later
    origin: Array  # (k,) of one learned later in the batch it came in: its place in `rows`; else -1
    said: Array  # (k,) of one learned later: the class said when it came, where `origin` is -1
    late: Array  # (k,) bool, learned from a label that came alone
    missed: Array  # (labels,) bool, labels that met no row
    newest: Array  # (labels,) the newest row time of the key when each came
    skipped: dict[str, int]  # by reason, those that occurred


@dataclass(frozen=True, slots=True, kw_only=True)
class LateLabels(JobStage):
    """Which rows wait for a label, and for how long."""

    persisted_name: ClassVar[str] = "Waiting"
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("times", "X", "L", "said"),)
    signal = True
    survives = True
    samples = ("X",)
    times = ("times", "newest")
    label_codes = ("L",)
    class_columns = ("said",)

    wait: float = 0.0  # seconds of event time; 0: no label comes later
    delay: float = 0.0  # seconds of event time; 0: labels are learned with their rows
    within: float = 0.0  # seconds
    most: int = 1000  # rows of a key

    def __post_init__(self) -> None:
        for name in ("wait", "delay", "within"):
            require(self, name, 0 <= getattr(self, name) < np.inf, "0 or more seconds")
        require(self, "most", self.most >= 1, "1 or more")

    def room(self, field: str) -> int:
        return self.most

    def begin(self, shape: Shape, seed: int) -> LateLabelsState:
        rows = np.empty((0, shape.width)), np.empty((0, shape.label_width))
        return LateLabelsState(np.empty(0), *rows, np.empty(0, np.int64), -np.inf)

    def warm_up(self, state: LateLabelsState, shape: Shape) -> None:
        work, slot = self.holding(state), np.zeros(1, np.int64)
        X, L = np.zeros((1, shape.width)), unknown((1, shape.label_width))
        one = Rows(slot, np.zeros(1), X, L, slot, np.full(1, LEARN, np.int8))
        self.advance(work, one, one)
        self.remember(work, slot, slot)

    def caches(self, state: LateLabelsState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        return {"place": np.zeros(self.most, np.int64)}  # the place in the present batch, where the row came in it; else -1

    def derive(self, own: Slot) -> None:
        own["place"][:] = -1

    def advance(self, work: Any, rows: Rows, labels: Rows) -> Matched:
        """Rows and labels of many keys, each in the order of `owner`; of labels slots, times, L and owner are read."""
        n, m = len(rows.slots), len(labels.slots)
        came = out = (*plain_columns(rows.slots, rows.times, rows.X, rows.L, rows.owner), plain(rows.learn, np.int8))
        most = n + m
        if m or self.delay > 0:  # otherwise the rows that came are all that go on, and stay where they are
            if self.delay > 0 and n:
                most += n + int(work["counts"][np.unique(rows.slots), 0].sum())  # all that waits may be due
            out = tuple([np.empty((most, *array.shape[1:]), array.dtype) for array in came])
            out[3].fill(np.nan)
        late = plain_columns(labels.slots, labels.times, labels.X, labels.L, labels.owner)
        more: tuple[Array, ...] = (*np.empty((3, most), np.int64), np.empty(most, np.bool_))
        met, skipped = (np.zeros(m, np.bool_), np.empty(m)), np.zeros(len(REASONS), np.int64)
        k = _advance(work.arrays, came, late, out, more, met, skipped, (self.wait, self.delay, self.within))
        if k < most:
            out, more = tuple([array[:k] for array in out]), tuple([array[:k] for array in more])
        counted = {reason: count for reason, count in zip(REASONS, skipped.tolist(), strict=True) if count}
        source, origin, said, is_late = more
        return Matched(Rows(*out), source, origin, said, is_late, *met, counted)

    def remember(self, work: Any, slots: Array, chosen: Array) -> None:
        """What was said of the batch's rows, `chosen` by place; `slots` are the batch's keys, in any order."""
        if len(slots) > 1:
            slots = np.unique(slots)
        _remember(work["said"], work["counts"], work["place"], slots, chosen)


@compiled
def _advance(work, rows, labels, out, more, met, skipped, settings):
    all_times, all_X, all_L, all_said, newest, counts, places = work
    slots, times, X, L, owner, learn = rows
    late_slots, late_times, _, late_L, late_owner = labels
    wait, delay, within = settings
    missed, newest_then = met
    n, m, k = 0, 0, 0  # rows and labels taken, rows made
    while n < len(slots) or m < len(late_slots):
        if n == len(slots) or (m < len(late_slots) and late_owner[m] < owner[n]):
            # A label: the nearest row that waits for one learns it.
            key, at, gap = late_slots[m], -1, within + CLOSE
            for i in range(counts[key, 0]):
                away = abs(all_times[key, i] - late_times[m])
                is_nearer = away < gap or (at >= 0 and away == gap and all_times[key, i] < all_times[key, at])
                if is_nearer and np.isnan(all_L[key, i, 0]):
                    at, gap = i, away
            missed[m], newest_then[m] = at < 0, newest[key]
            if at >= 0:
                put(all_L[key, at], late_L[m])
                learn_later(work, key, at, late_owner[m], out, more, k)
                more[3][k] = True
                k += 1
            m += 1
            continue

        # A row: those that have waited long enough leave.
        key, time = slots[n], times[n]
        newest[key] = max(newest[key], time)
        i = 0
        while i < counts[key, 0]:
            if np.isnan(all_L[key, i, 0]) and newest[key] - all_times[key, i] > wait + CLOSE:
                skipped[0] += 1
                leave(work, key, i)
            else:
                i += 1

        # It goes on, and waits for its label if it learns one later.
        is_known = not np.isnan(L[n, 0])
        out[0][k], out[1][k], out[4][k], out[5][k] = key, time, owner[n], learn[n]
        more[0][k], more[1][k], more[2][k], more[3][k] = n, -1, -1, False
        put(out[2][k], X[n])
        if is_known and delay <= 0.0:
            put(out[3][k], L[n])
        waits = (delay > 0.0) if is_known else (wait > 0.0)
        if learn[n] & LEARN_HEAD and waits and not missing(X[n]):
            if counts[key, 0] == all_times.shape[1]:
                oldest = 0
                for i in range(1, counts[key, 0]):
                    if all_times[key, i] < all_times[key, oldest]:
                        oldest = i
                leave(work, key, oldest)
                skipped[1] += 1
            i = counts[key, 0]
            all_times[key, i], all_said[key, i], places[key, i] = time, -1, k
            put(all_X[key, i], X[n])
            put(all_L[key, i], L[n])
            for field in range(counts.shape[1]):
                counts[key, field] = i + 1
        k += 1

        # Labels held back long enough are learned, the oldest first.
        while delay > 0.0:
            at = -1
            for i in range(counts[key, 0]):
                is_due = not np.isnan(all_L[key, i, 0]) and newest[key] - all_times[key, i] >= delay - CLOSE
                if is_due and (at < 0 or all_times[key, i] < all_times[key, at]):
                    at = i
            if at < 0:
                break
            learn_later(work, key, at, owner[n], out, more, k)
            k += 1
        n += 1
    return k


@compiled
def learn_later(work, key, at, owner, out, more, k):
    """The waiting row becomes row k, for the head alone."""
    all_times, all_X, all_L, all_said, _, _, places = work
    out[0][k], out[1][k], out[4][k], out[5][k] = key, all_times[key, at], owner, LEARN_HEAD
    more[0][k], more[1][k], more[2][k], more[3][k] = -1, places[key, at], all_said[key, at], False
    put(out[2][k], all_X[key, at])
    put(out[3][k], all_L[key, at])
    leave(work, key, at)


@compiled
def leave(work, key, at):
    """The last waiting row takes the place of one that leaves."""
    all_times, all_X, all_L, all_said, _, counts, places = work
    last = counts[key, 0] - 1
    if at < last:
        all_times[key, at], all_said[key, at], places[key, at] = all_times[key, last], all_said[key, last], places[key, last]
        put(all_X[key, at], all_X[key, last])
        put(all_L[key, at], all_L[key, last])
    for field in range(counts.shape[1]):
        counts[key, field] = last


@compiled
def _remember(all_said, counts, places, slots, chosen):
    for s in range(len(slots)):
        key = slots[s]
        for i in range(counts[key, 0]):
            if places[key, i] >= 0:
                all_said[key, i], places[key, i] = chosen[places[key, i]], -1
