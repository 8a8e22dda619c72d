"""Samples of several sensors, each at its own times, on one grid of times; and labels of a file of their own.

Numbers are interpolated between a sensor's two nearest samples, texts hold until the next one. A gap stays a gap: where a
sensor pauses for much longer than it usually does, its columns are empty, and if all sensors pause, no row is made.
"""

import itertools
import math
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamjobs.core.messages import Stored
from streamjobs.settings.sections import Settings
from streamjobs.settings.source import SourceSection

LOOK_AT = 500  # samples of a sensor that tell its rate
GAP = 5.0  # usual pauses of a sensor; a longer pause is a gap
SECOND = 1_000_000_000  # ns
AFTER = 20.0  # seconds from the time of a label in a file of labels to its arrival, at most half of [labels] wait


def are_labels(source: SourceSection, columns: Iterable[str]) -> bool:
    """Whether a file with these columns has labels, and no samples."""
    there = {*columns}
    return source.label in there and not there & {*source.record_fields}


def with_labels(
    settings: Settings, samples: Iterable[Iterable[Stored]], labels: Iterable[Iterable[Stored]]
) -> tuple[Generator[Stored, None, None], str]:
    """The records of one partition, with each label among its key's samples; and when a label comes, for people."""
    delay, chain = min(AFTER, settings.labels.wait / 2), itertools.chain.from_iterable
    return _among(chain(samples), chain(labels), delay), f"as if each label came {delay:g} s after its time"


def _among(samples: Iterable[Stored], labels: Iterable[Stored], delay: float) -> Generator[Stored, None, None]:
    waiting = dict[bytes | None, deque[Stored]]()
    for one in sorted(labels, key=lambda label: label.timestamp):
        late = one._replace(timestamp=one.timestamp + round(1000 * delay))
        waiting.setdefault(one.key, deque()).append(late)

    def in_order() -> Iterator[Stored]:
        for sample in samples:
            own = waiting.get(sample.key)
            while own and own[0].timestamp < sample.timestamp:
                yield own.popleft()
            yield sample
        yield from itertools.chain.from_iterable(waiting.values())

    first = None
    for offset, record in enumerate(in_order()):
        first = first or record
        yield record._replace(topic=first.topic, offset=offset)


class Sample(NamedTuple):
    time: int  # ns
    values: Sequence[Any]


@dataclass(slots=True)
class Track:
    """A sensor's samples in order of time; those that go back in time are left out, and counted."""

    name: str  # of the sensor, for people
    columns: list[str]
    samples: Iterator[Sample]
    pause: int = 0  # ns, the usual one between two samples
    back: int = 0  # samples left out
    empty: int = 0  # rows of the grid that it has no values for
    before: Sample | None = None
    after: Sample | None = None
    _held: list[Any] = field(default_factory=list)

    def begin(self) -> bool:
        """Read the first samples; False where there is none."""
        first = list(itertools.islice(self._in_order(self.samples), LOOK_AT))
        pauses = sorted(b.time - a.time for a, b in itertools.pairwise(first))
        self.pause = pauses[len(pauses) // 2] if pauses else 0
        self.samples = itertools.chain(first, self._in_order(self.samples, first[-1].time if first else None))
        self.after = next(self.samples, None)
        self._held = [None] * len(self.columns)
        return self.after is not None

    def _in_order(self, samples: Iterator[Sample], last: int | None = None) -> Iterator[Sample]:
        for sample in samples:
            if last is not None and sample.time <= last:
                self.back += 1
                continue
            last = sample.time
            yield sample

    @property
    def rate(self) -> float | None:
        """Hz, None where it has a single sample."""
        return SECOND / self.pause if self.pause else None

    def at(self, time: int) -> list[Any] | None:
        """Its values at a time, which must not go back; None in a gap, and before its first and after its last sample."""
        while self.after is not None and self.after.time <= time:
            self._hold(self.after)
            self.before, self.after = self.after, next(self.samples, None)
        if self.before is None:
            return None
        if self.before.time == time:
            return self._mixed(self.before, 0.0)
        if self.after is None or self.after.time - self.before.time > GAP * self.pause:
            return None
        return self._mixed(self.after, (time - self.before.time) / (self.after.time - self.before.time))

    def _hold(self, sample: Sample) -> None:
        for place, value in enumerate(sample.values):
            if isinstance(value, str):
                self._held[place] = value

    def _mixed(self, after: Sample, share: float) -> list[Any]:
        assert self.before is not None
        mixed: list[Any] = []
        for place, (a, b) in enumerate(zip(self.before.values, after.values, strict=True)):
            if isinstance(a, str) or isinstance(b, str):
                mixed.append(self._held[place])
            elif a is None or b is None:
                mixed.append(None)
            else:
                mixed.append(a if share == 0.0 else a + (b - a) * share)
        return mixed

    def alone(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(time in ns, columns) of each sample, at its own time."""
        while self.after is not None:
            yield self.after.time, dict(zip(self.columns, self.after.values, strict=True))
            self.after = next(self.samples, None)


@dataclass(slots=True)
class Merged:
    """What merging did, for people; complete when all rows are read."""

    rows: int = 0
    gaps: int = 0  # times of the grid at which no sensor had a value
    late: float = 0.0  # s from the first sensor's first sample to the first row


def merge(tracks: Sequence[Track], rate: float, merged: Merged) -> Iterator[tuple[int, dict[str, Any]]]:
    """(time in ns, columns) `rate` times a second, from when all sensors have begun until one of them ends.

    tracks: begun, one or more. A sensor in a gap has None in its columns.
    """
    firsts = [track.after.time for track in tracks if track.after is not None]
    start, number = max(firsts), 0
    merged.late = (start - min(firsts)) / SECOND
    while True:
        time = start + round(number * SECOND / rate)
        number += 1
        found = [track.at(time) for track in tracks]
        if any(track.after is None and values is None for track, values in zip(tracks, found, strict=True)):
            return
        if all(values is None for values in found):
            merged.gaps += 1
            # A clock that jumped by years leaves more times without values than anybody waits for.
            ahead = min(track.after.time for track in tracks if track.after is not None)
            none = math.floor((ahead - start) / SECOND * rate) - 1
            if none > number:
                merged.gaps, number = merged.gaps + none - number, none
            continue
        row: dict[str, Any] = {}
        for track, values in zip(tracks, found, strict=True):
            track.empty += values is None
            row.update(zip(track.columns, values or [None] * len(track.columns), strict=True))
        merged.rows += 1
        yield time, row
