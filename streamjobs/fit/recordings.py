"""Labelled windows of many people, and one person's stream of windows with labels that arrive late.

The protocol behind all figures: a person's recordings come in their own order, or in one drawn from a seed; window i is
predicted, then the label of window i - late is learned. Repeating the last label must not look clever, so `fresh` windows
are counted separately: those before the first label of their own recording has arrived.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array

LATE = 20  # windows
CLOSE = 1e-6  # seconds; closer times are equal
PAUSE = 10.0  # seconds without a window, after which the next one is of another recording


class Unlabelled(NamedTuple):
    """Windows without a label, which a person's filter sees before the next window with one."""

    X: Array  # (m, d) statistics
    before: Array  # (m,) int64, ascending: row of the window with a label that follows

    def times_before(self, times: Array) -> Array:
        """Event times (m,) in hops, as if each came right before the next window. times (n,): of the windows with labels."""
        left = np.searchsorted(self.before, self.before, "right") - np.arange(len(self.before))
        return np.asarray(times[self.before] - left)


class Recordings(NamedTuple):
    """Windows of all people, within a recording in order of time."""

    X: Array  # (n, d) statistics
    activity: Array  # (n,) int64 index into `names`
    person: Array  # (n,) int64
    recording: Array  # (n,) int64; every window is in one recording, every recording of one person
    names: list[str]  # of the activities
    people: Sequence[str] = ()  # names by the number of the person; empty: unknown
    recordings: Sequence[str] = ()  # names by the number of the recording, within those of its person; empty: unknown
    unlabelled: Unlabelled | None = None
    kept: dict[Any, Any] | None = None  # what `convolved` makes of these windows, by the windows that teach
    began: Array | None = None  # event time of the first window of each recording, by its number; None: as their rows come
    times: Array | None = None  # (n,) event times of the windows in hops; None: recordings of a person have no common time

    def of(self, which: Array) -> "Recordings":
        """Of these windows with labels alone, (n,) bool or rows."""
        columns = self.X[which], self.activity[which], self.person[which], self.recording[which]
        return Recordings(*columns, self.names, self.people, self.recordings, began=self.began)


def joined(first: Recordings, second: Recordings) -> Recordings:
    """The windows of the first, then of the second, and the unlabelled ones of the second. No person is in both."""
    names = [*first.names, *(name for name in second.names if name not in first.names)]
    code = np.array([names.index(name) for name in second.names], np.int64)
    people, recordings = len(first.people), len(first.recordings)
    later = second.unlabelled
    return Recordings(
        np.vstack([first.X, second.X]),
        np.r_[first.activity, code[second.activity]],
        np.r_[first.person, second.person + people],
        np.r_[first.recording, second.recording + recordings],
        names,
        [*first.people, *second.people],
        [*first.recordings, *second.recordings],
        None if later is None else later._replace(before=later.before + len(first.X)),
        began=None if first.began is None or second.began is None else np.r_[first.began, second.began],
        times=None if second.times is None else np.r_[np.full(len(first.X), np.nan), second.times],  # who teaches needs none
    )


class Stream(NamedTuple):
    """One person's windows in the order they arrive (or everybody's, to learn from)."""

    X: Array  # (n, d)
    activity: Array  # (n,)
    recording: Array  # (n,)
    late: int = LATE  # windows between one and its label
    people: int = 1  # the windows are of so many
    person: Array | None = None  # (n,) where they are of several
    unlabelled: Unlabelled | None = None  # `before`: the place in the stream
    times: Array | None = None  # (n,) in hops, where a label comes `late` hops after its window

    def arrivals(self) -> tuple[Array, Array]:
        """The order of windows and labels, as `arriving` gives it."""
        return arriving(len(self.X), self.late) if self.times is None else arriving_at(self.times, self.late)


def begins(times: Array, labels: Sequence[str | None], length: float, pause: float = PAUSE) -> Array:
    """(n,) bool: the windows of a person with which a recording begins, if nothing else tells recordings apart.

    Its label is another one, or it comes more than `pause` seconds after the one before, or not after it. times: of their
    ends; length: of a window, both in seconds.
    """
    apart = np.diff(times)
    other = np.array([one != before for before, one in itertools.pairwise(labels)], bool)
    first: Array = np.r_[True, other | (apart <= 0) | (apart > length + pause)]
    return first[: len(times)]


def late_windows(delay: float, hop: float) -> int:
    """How many windows later than its own a label arrives; delay, hop: seconds."""
    return round(delay / max(hop, CLOSE))


def fresh(recording: Array, late: int) -> Array:
    """(n,) bool: the first windows of each recording, which no label of it precedes: late + 1, in their order."""
    first = np.r_[True, np.diff(recording) != 0][: len(recording)]
    place = np.arange(len(first)) - np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
    return np.asarray(place <= late)


def shuffled(data: Recordings, chosen: Array, seed: list[int], late: int = LATE) -> Stream:
    """The chosen windows, recording by recording, in an order drawn from the seed. chosen: (n,) bool."""
    order = np.random.default_rng(seed).permutation(np.unique(data.recording[chosen]))
    return _stream(data._replace(times=None), order, late)


def in_order(data: Recordings, chosen: Array, late: int = LATE) -> Stream:
    """The same in the order in which a worker gets them: that of the recordings' times, and of equal ones as they came.

    Labels are late by time, too: in a pause, and where windows have no label, they catch up.
    """
    ids, first = np.unique(data.recording[chosen], return_index=True)
    stream = _stream(data, ids[np.lexsort((first, first if data.began is None else data.began[ids]))], late)
    return stream if stream.times is None or (np.diff(stream.times) >= 0).all() else stream._replace(times=None)


def _stream(data: Recordings, ids: Array, late: int) -> Stream:
    """The recordings in this order. Unlabelled windows stay before the window that followed them."""
    rows = np.concatenate([np.flatnonzero(data.recording == one) for one in ids])
    person = data.person[rows]
    stream = Stream(data.X[rows], data.activity[rows], data.recording[rows], late, len(np.unique(person)), person)
    stream = stream if data.times is None else stream._replace(times=data.times[rows])
    if data.unlabelled is None:
        return stream
    place = np.full(len(data.X), -1)
    place[rows] = np.arange(len(rows))
    X, before = data.unlabelled
    order = np.argsort(place[before], kind="stable")
    order = order[place[before[order]] >= 0]
    return stream._replace(unlabelled=Unlabelled(X[order], place[before[order]]))


def arriving(n: int, late: int = LATE) -> tuple[Array, Array]:
    """The order of windows and labels: after each window the label of the window `late` before it.

    Gives (window of each row, whether the row is a label), both (rows,).
    """
    rows, label = np.empty(2 * n, np.int64), np.tile([False, True], n)
    rows[0::2], rows[1::2] = np.arange(n), np.arange(n) - late
    return rows[rows >= 0], label[rows >= 0]


def arriving_at(times: Array, delay: float) -> tuple[Array, Array]:
    """The same, if a label arrives `delay` seconds after its window, as with [labels] delay. times: (n,), ascending."""
    rows: list[int] = []
    label: list[bool] = []
    due = 0
    for i, now in enumerate(times.tolist()):
        rows.append(i)
        label.append(False)
        while due <= i and now - times[due] >= delay - CLOSE:
            rows.append(due)
            label.append(True)
            due += 1
    return np.array(rows, np.int64), np.array(label, bool)


def controls(stream: Stream, classes: int) -> dict[str, Array]:
    """Decisions without a model, (n,) each: the most frequent label so far, the last label, and a cold learner's bound.

    The bound is right if the class was labelled before, else -1.
    """
    y, n = stream.activity, len(stream.activity)
    majority, last, bound = np.full(n, -1), np.full(n, -1), np.full(n, -1)
    counts = np.zeros(classes, np.int64)
    newest = -1  # label
    for i, label in zip(*(column.tolist() for column in stream.arrivals()), strict=True):
        if label:
            newest = y[i]
            counts[newest] += 1
        elif newest >= 0:
            majority[i], last[i], bound[i] = counts.argmax(), newest, y[i] if counts[y[i]] else -1
    return {"majority so far": majority, "last label seen": last, "bound of cold: class labelled before": bound}


class Worth(NamedTuple):
    """Shares of right decisions of one run."""

    all: float
    half: float  # of the second half
    f1: float  # mean over the classes that occur
    fresh: float  # of windows before the first label of their recording
    fresh_half: float  # NaN without such windows in the second half
    probability: Array | None = None  # (n,) of the decisions, where scores are probabilities
    recording: Array | None = None  # (n,) of the windows
    begins: float = float("nan")  # of the first window of each recording


def worth(chosen: Array, stream: Stream, first: Array | None = None) -> Worth:
    """The figures of decisions (n,); -1 means no decision. first: `fresh` windows, if some windows were left out."""
    y, right = stream.activity, chosen == stream.activity
    later = np.arange(len(y)) >= len(y) // 2
    f1 = []
    for c in np.unique(y):
        hit = np.sum(right & (y == c))
        f1.append(2 * hit / (np.sum(y == c) + np.sum(chosen == c)))
    first = fresh(stream.recording, stream.late) if first is None else first
    return Worth(
        float(right.mean()),
        float(right[later].mean()),
        float(np.mean(f1)),
        float(right[first].mean()) if first.any() else float("nan"),
        float(right[first & later].mean()) if (first & later).any() else float("nan"),
        begins=float(right[fresh(stream.recording, 0)].mean()),
    )
