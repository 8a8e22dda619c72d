"""Runs records through `advance` in batches, as a worker's partitions do.

Also the file of the keys' states, and the errors of predictions without a model.
"""

import functools
import itertools
import math
import operator
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.aside import WRITTEN
from streamjobs.core.live.forms import unwritable
from streamjobs.core.live.live import Live
from streamjobs.core.live.live_stats import together
from streamjobs.core.messages import FAR, LateLabel, Output, Record, Report
from streamjobs.core.unlearned import Known, Taken
from streamjobs.errors import NothingLearned, SetupError
from streamjobs.replay.warm_up import days_to_alarm, rows_to_alarm
from streamjobs.schema_registry.ready_now import ready_now

BATCH = 1000  # records of a batch; any other number gives the same bits
BATCH_BYTES = 64 << 20  # of values: a batch that has as many is full
AT_ONCE = 100  # records that are read before their bytes are counted
Key = tuple[str, int, bytes]  # topic, partition, key


@dataclass(slots=True)
class Tally(Taken):
    """Totals since the start; a line of progress is the difference of two."""

    keys: int = 0
    ls_errors: int = 0
    ls_error_sum: float = 0.0
    labels: int = 0
    wrong: int = 0
    unpredicted: int = 0  # of the labels that came with their samples
    measured: int = 0
    squared: float = 0.0
    unknown: int = 0
    filled: int = 0
    targets_clipped: int = 0
    drift_events: int = 0
    ready: int | None = None  # as in `Report`; None: its detectors do not say
    forecasts: dict[str, list[float]] = field(default_factory=dict)  # as in `Report`

    def add(self, report: Report) -> None:
        Taken.add(self, report)
        self.keys += report.keys_created
        errors = [error for of_batch in report.ls_errors for error in of_batch.tolist()]
        self.ls_errors += len(errors)
        self.ls_error_sum += sum(errors)
        for name in ("labels", "wrong", "measured", "squared", "unknown", "filled", "targets_clipped", "drift_events"):
            setattr(self, name, getattr(self, name) + getattr(report, name))
        for rows in report.batches:
            for said, label in zip(rows.predicted or (), rows.labels or (), strict=False):
                self.unpredicted += said is None and label is not None
        if report.p_values:
            self.ready = (self.ready or 0) + report.ready
        for name, figures in report.forecasts.items():
            before = self.forecasts.get(name, [0.0] * len(figures))
            self.forecasts[name] = [a + b for a, b in zip(before, figures, strict=True)]


class Replay:
    """The states of a replay: live states per partition as in a worker, or one model shared by all keys (`pooled`)."""

    def __init__(self, job: Job, *, pooled: bool = False) -> None:
        self.job, self.pooled = job, pooled
        self.partitions: dict[tuple[str, int], Live] = {}
        self.stored = StateFile()
        self.tally, self.controls = Tally(), Controls(job.task, job.settings.labels.delay)
        self.late: list[LateLabel] = []
        self.first: dict[str, float] = {}  # event time of each key's first row
        self.last: dict[str, float] = {}
        self.met: set[bytes] = set()  # keys of records

    def run(self, records: Iterable[Record], take: Callable[[Output], None], progress: Callable[[Tally], None]) -> Tally:
        """Apply all records in order. `take` gets every output, `progress` the tally after each batch."""
        for partition, group in itertools.groupby(records, operator.attrgetter("topic", "partition")):
            live = self.live(partition)
            while batch := ready_now(self.job.settings, self.job.schemas, _batch(group)):
                outputs, report = advance(self.job, live, batch)
                self.met.update(record.key for record in batch if record.key)
                for output in outputs:
                    take(output)
                self.tally.add(report)
                self.controls.add(report)
                self.late += report.late
                for rows in report.batches:
                    times = rows.times.tolist()
                    self.last.update(zip(rows.keys, times, strict=True))
                    for key, moment in zip(rows.keys, times, strict=True):
                        self.first.setdefault(key, moment)
                progress(self.tally)
                if live.dirty_bytes > self.job.settings.state.checkpoint_bytes:
                    self.store(partition)
        return self.tally

    @property
    def without_rows(self) -> list[str]:
        """Keys of records that gave no row, sorted; empty where one model is of all keys, or keys are in the values."""
        if self.pooled or self.job.settings.source.key is not None:
            return []
        return sorted({key.decode("utf-8", "backslashreplace") for key in self.met} - set(self.last))

    def unwritable(self) -> dict[str, str]:
        """Changed keys in memory with states that a worker could not write, and why; those before them were set aside."""
        lives = [] if self.pooled else list(self.partitions.values())
        found = {live.text_of[slot]: why for live in lives for slot, why in unwritable(live, sorted(live.dirty)).items()}
        aside = ((key.decode(errors="backslashreplace"), one) for live in lives for key, one in live.aside.verdicts.items())
        return {key: one.why for key, one in aside if one.what == WRITTEN} | found

    @property
    def hours(self) -> float:
        """Of event time, from the first row of each key to its last, of all keys together."""
        return sum(self.last[key] - first for key, first in self.first.items()) / 3600.0

    def live(self, partition: tuple[str, int]) -> Live:
        """The live states of a partition; of all partitions if the model is pooled."""
        name = ("", 0) if self.pooled else partition
        if name not in self.partitions:
            read_many = functools.partial(self.stored.read_many, *name)
            share = self.job.settings.state.cache // (len(self.partitions) + 1)  # the partitions to come are not known
            self.partitions[name] = Live(self.job, read_many=read_many, most_bytes=share, pooled=self.pooled)
        return self.partitions[name]

    def store(self, partition: tuple[str, int]) -> None:
        """Store the changed states, so that keys may leave the live states, as in a worker."""
        name = ("", 0) if self.pooled else partition
        self.stored.write(*name, self.partitions[name].snapshots())

    def snapshots(self) -> Iterator[tuple[tuple[str, int, bytes], bytes]]:
        """The final snapshot of every key by topic, partition and key, as a worker's changelog would have it."""
        for name in self.partitions:
            self.store(name)
        return iter(self.stored)

    def nothing_learned(self, first_error: str = "") -> str | None:
        """A sentence where records came and no row was made; None otherwise.

        first_error: the message of the first dead letter; "": its reason and place.
        """
        tally, windows = self.tally, self.job.composition.windows
        if tally.rows or not tally.records:
            return None
        if sentence := tally.nothing_learned(first_error or f"{tally.first_letter}; 'streamjobs replay' prints why."):
            return sentence
        if windows is None:
            return (
                f"nothing was learned: {tally.samples:,} samples still wait to be sorted by time; check [source] lateness."
            )
        return (
            f"nothing was learned: {tally.samples:,} samples of {tally.keys:,} keys filled no window. A key needs "
            f"{windows.fewest:.0%} of {windows.nominal} samples within {windows.length:g} s; check which column is the key "
            "and which the time, and [window] length and rate."
        )

    def check_learned(self) -> None:
        """Raises NothingLearned where records came and no row was made."""
        if (sentence := self.nothing_learned()) is not None:
            raise NothingLearned(sentence)

    def warming_up(self) -> dict[str, Any]:
        """How many of the keys in memory cannot alarm yet, or not by each watch, and the rows that a key needs."""
        stats = together([live.stats(-1) for live in self.partitions.values()])
        by_watch = zip([watch.watch for watch in self.job.watches], stats.warming, strict=False)
        return {
            "keys_warming_up": stats.warming_up,
            "keys_warming_up_by_watch": {watch: keys for watch, keys in by_watch if keys},
            "rows_to_alarm": rows_to_alarm(self.job),
            "days_to_alarm": days_to_alarm(self.job),
        }

    def export(self) -> bytes:
        """The pooled model, for [state] start_from."""
        assert self.pooled, "only a pooled replay has one model to export"
        return self.live(("", 0)).export()


def _batch(records: Iterator[Record]) -> list[Record]:
    """The next batch of an iterator; empty at its end. Large records are taken one by one."""
    batch, size, most = list[Record](), 0, 1
    while most and (more := list(itertools.islice(records, most))):
        batch += more
        size += sum(len(record.value or b"") for record in more)
        large = size * BATCH > BATCH_BYTES * len(batch)
        most = 0 if size >= BATCH_BYTES else min(1 if large else AT_ONCE, BATCH - len(batch))
    return batch


class _Place(NamedTuple):
    """Of a snapshot in the file."""

    start: int
    length: int
    room: int  # bytes that it may grow to; a longer one goes to the end


class StateFile:
    """The newest snapshot of each key, in the order in which keys were first stored; in a temporary file, not in memory."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the next line
        weakref.finalize(self, self._file.close)
        self._places: dict[Key, _Place] = {}
        self._end = 0

    def read_many(self, topic: str, partition: int, keys: Sequence[bytes]) -> list[bytes | None]:
        places = [self._places.get((topic, partition, key)) for key in keys]
        return [None if place is None else self._read(place) for place in places]

    def write(self, topic: str, partition: int, snapshots: Iterable[tuple[bytes, bytes]]) -> None:
        """Raises SetupError if the file cannot grow."""
        for key, data in snapshots:
            old = self._places.get((topic, partition, key))
            if old is None or len(data) > old.room:
                old = _Place(self._end, 0, len(data))
                self._end += len(data)
            self._places[topic, partition, key] = old._replace(length=len(data))
            try:
                self._file.seek(old.start)
                self._file.write(data)
            except OSError as problem:
                folder = tempfile.gettempdir()
                expected = f"{self._end >> 20:,} MB so far; set TMPDIR to a folder with more room"
                raise SetupError(f"{folder}: cannot take the states of the keys ({problem.strerror}), {expected}.") from None

    def _read(self, place: _Place) -> bytes:
        self._file.seek(place.start)
        return self._file.read(place.length)

    def __iter__(self) -> Iterator[tuple[Key, bytes]]:
        for key, place in self._places.items():
            yield key, self._read(place)


class Controls:
    """Errors of predictions without a model over a replay, to compare the errors of the model with.

    Of a class: the last label of the key, and its most frequent label so far. Of numbers: the last label (persistence).
    A label is known when the model learns it: once a row [labels] delay later was predicted. Rows before that are not
    judged. Labels that come in records of their own ([labels] wait) are not compared here, but by `scoring`.
    """

    def __init__(self, task: str, delay: float) -> None:
        """delay: seconds of event time until a label is known."""
        self.regression, self.delay = task == "regression", delay
        self.judged = self.last_wrong = self.majority_wrong = 0
        self.squared = 0.0
        self._keys: dict[str, Known] = defaultdict(Known)

    def add(self, report: Report) -> None:
        for batch in report.batches:
            for key, time, label in zip(batch.keys, batch.times.tolist(), batch.labels or (), strict=False):
                if label is not None and not (self.regression and not np.all(np.isfinite(label))):
                    self._judge(self._keys[key], label)
                    self._keys[key].add(time, label)
                if key in self._keys:
                    self._keys[key].learn(time - self.delay)

    def _judge(self, key: Known, label: Any) -> None:
        if key.last is None:
            return
        if self.regression:
            with np.errstate(over="ignore"):
                square = float(np.mean((np.asarray(label) - np.asarray(key.last)) ** 2))
            if not square < FAR:
                return
            self.squared += square
        else:
            self.last_wrong += label != key.last
            self.majority_wrong += label != key.most
        self.judged += 1

    def summary(self) -> dict[str, Any] | None:
        """Ready for JSON; None where nothing was judged."""
        if not self.judged:
            return None
        if self.regression:
            return {"judged": self.judged, "rmse_last_label": math.sqrt(self.squared / self.judged)}
        return {"judged": self.judged, "wrong_last_label": self.last_wrong, "wrong_majority": self.majority_wrong}
