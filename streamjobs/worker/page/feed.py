"""What the job's thread leaves for the page: a few appends to bounded queues per call of `advance`, nothing per record."""

import math
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from streamjobs.core.messages import BatchRows, LateLabel, Letter, Report, ShownAlarm

MOST_BATCHES = 2048  # between two looks, which come once a second
MOST_ROWS = 1000  # of a batch: its newest ones
MOST_KEPT = 20_000  # rows between two looks, the newest: a backlog does not wait for a page that may have no viewer
MOST_EVENTS = 200  # alarms, and dead letters, between two looks


class Taken(NamedTuple):
    """What has come since the last look."""

    batches: list[BatchRows]
    late: list[LateLabel]  # of these rows and earlier ones, and perhaps of rows that come with the next look
    alarms: list[ShownAlarm]
    letters: list[tuple[float, Letter]]  # with the time.time() at which each came
    delays: list[float]  # seconds, of the newest row of each batch


class Feed:
    """Filled by the thread of the job, emptied by the thread of the page: appends and pops of a deque are atomic."""

    def __init__(self) -> None:
        self.rows = 0  # all of these count from the start of the worker
        self.alarms = 0
        self.labels = 0
        self.measured = 0
        self.squared = 0.0
        self._batches: deque[BatchRows] = deque(maxlen=MOST_BATCHES)
        self._late: deque[LateLabel] = deque(maxlen=MOST_KEPT)
        self._alarms: deque[ShownAlarm] = deque(maxlen=MOST_EVENTS)
        self._letters: deque[tuple[float, Letter]] = deque(maxlen=MOST_EVENTS)
        self._delays: deque[float] = deque(maxlen=4 * MOST_BATCHES)
        self._kept = 0  # rows of `_batches`; off by a batch when both threads set it at once, until the next look
        self._now = 0.0  # time.time() of the last look

    def take(self, report: Report) -> None:
        """Keep what the page may show of a report; called in the job's thread."""
        self.rows += report.rows
        self.alarms += sum(report.watch_events.values())
        self.labels += report.labels
        self.measured += report.measured
        self.squared += report.squared
        self._late.extend(report.late)  # before the rows, see `look`
        for batch in map(_newest, report.batches):
            self._batches.append(batch)
            self._kept += len(batch.keys)
        while self._kept > MOST_KEPT and len(self._batches) > 1:
            with suppress(IndexError):  # the page has just taken them all
                self._kept -= len(self._batches.popleft().keys)
        self._alarms.extend(report.alarms)
        for letter in report.letters:
            self._letters.append((self._now, letter))
        if math.isfinite(report.newest_delay):
            self._delays.append(max(0.0, report.newest_delay))

    def look(self, now: float) -> Taken:
        """Everything that has come since the last look; called in the page's thread."""
        self._now, self._kept = now, 0
        batches = _emptied(self._batches)
        late = _emptied(self._late)  # after the rows: those that knew a label do not come before it
        return Taken(batches, late, _emptied(self._alarms), _emptied(self._letters), _emptied(self._delays))


def _newest(batch: BatchRows) -> BatchRows:
    first = len(batch.keys) - MOST_ROWS
    if first <= 0:
        return batch
    predicted, labels = (None if one is None else list(islice(one, first, None)) for one in (batch.predicted, batch.labels))
    return BatchRows(list(batch.keys[first:]), batch.times[first:].copy(), batch.ls_errors[first:].copy(), predicted, labels)


def _emptied(queue: "deque[Any]") -> list[Any]:
    """What is in the queue now, oldest first."""
    return [queue.popleft() for _ in range(len(queue))]
