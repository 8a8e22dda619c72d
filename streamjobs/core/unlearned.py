"""What a job took and did not learn, in counts, and the sentences about it: for a worker's log and for `replay`.

Also the labels of a key that it has learned, for controls.
"""

import math
from bisect import insort
from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.messages import Report
from streamjobs.settings.types import listed, printable, shortened
from streamjobs.stages.rows import count_far, find_long

MUCH = 0.01  # share of what was taken; more is probably a mistake
REASONS = {  # of samples and windows that are skipped: what to do about them
    "missing": "without one of their numbers; see [source] missing for what else may be done",
    "unfilled": "without a number, where nothing was there to fill in; check the sensor, and [source] hold_for",
    "reading": "with a counter's first reading of a key, or one that is not newer than the one before",
    "late": "older than the newest sample of their key; send the oldest first, or set [source] lateness",
    "duplicate": "at the time of an earlier sample of their key; unless they are the same sample, send finer times, or set "
    "[source] duplicates = 'learn'",
    "crowded": "beyond 1.5 times the samples of a window, or a sensor's rate; check times and rate, or set [window] fewest",
    "unpaired": "at times at which another sensor had none; check the sensors, and [source.sensors] wait and gap",
    "other_sensor": "of sensors that [source.sensors] does not name",
    "sparse": "windows with too few samples; check the times and [window] rate, or set [window] fewest",
    "gap": "windows that a pause longer than [window] gap cut short",
}
WANTED = ("other_sensor",)  # as the job states: no reason for a warning
WINDOWS = ("sparse", "gap")  # reasons that count windows; the others count samples
NEARLY = 0.9  # of the samples that no window had, which is more than a clock that was wrong once
ENOUGH = 20  # samples, to say that a number is not there any more, and rows, to say that they are unlike a population's
FAR = 5.0  # standard deviations of a population; in other units, a number of most rows is outside
APART = 4.0  # mean square of a row's directions, 1 of the population's rows; with a sensor in smaller units it is larger
TOGETHER = "all their numbers together"
MOST_NAMED = 3
NO_UNIT = "differs from the usual by several factors, so by more than its unit, as without gravity; send it with gravity"
MOST_UNITS = 1000  # keys in other units that are counted


class Skipped(NamedTuple):
    """Samples, or windows, that one reason kept from being learned."""

    reason: str
    number: int
    of: int  # samples taken; rows made and windows skipped
    unit: str  # samples | windows
    which: str = ""  # what the advice is about

    @property
    def percent(self) -> float:
        return round(100 * self.number / max(1, self.of), 1)

    @property
    def advice(self) -> str:
        return REASONS[self.reason] + self.which

    @property
    def sentence(self) -> str:
        return f"{self.percent:g} % of the {self.unit} are skipped as {self.reason}: {self.advice}."


COUNTED = ("dead_lettered", "skipped", "sensor_gaps", "lacking", "outside", "watch_events")  # by reason or name


@dataclass(slots=True)
class Taken:
    """What has become of the records so far."""

    records: int = 0
    redelivered: int = 0
    samples: int = 0
    rows: int = 0
    dead_lettered: Counter[str] = field(default_factory=Counter)  # records by reason
    skipped: Counter[str] = field(default_factory=Counter)  # samples, windows and labels by reason
    sensor_gaps: Counter[str] = field(default_factory=Counter)  # by sensor
    lacking: Counter[str] = field(default_factory=Counter)  # samples that lacked a number, by its name
    outside: Counter[str] = field(default_factory=Counter)  # rows FAR from the population in a number, by its name
    first_letter: str = ""  # reason and place of the first dead letter
    latest_letter: str = ""  # of one of the newest
    units: Counter[tuple[str, str]] = field(default_factory=Counter)  # rows of other units, by key and what they look like
    watch_events: Counter[str] = field(default_factory=Counter)  # alarms by what is watched

    def add(self, report: Report) -> None:
        self.records += report.records
        self.redelivered += report.redelivered
        self.samples += report.samples
        self.rows += report.rows
        for name in COUNTED:
            if counts := getattr(report, name):  # few batches have any
                getattr(self, name).update(counts)
        if report.units and len(self.units) < MOST_UNITS:
            self.units.update(report.units)
        self.first_letter = self.first_letter or report.first_letter
        self.latest_letter = report.first_letter or self.latest_letter

    def since(self, before: "Taken") -> "Taken":
        """What has come since these counts, with the letters as they are."""
        names = "records", "redelivered", "samples", "rows", "dead_lettered", "skipped", "sensor_gaps", "lacking", "outside"
        counts: dict[str, Any] = {name: getattr(self, name) - getattr(before, name) for name in names}
        return Taken(**counts, first_letter=self.first_letter, latest_letter=self.latest_letter)

    def much_skipped(self) -> Iterator[Skipped]:
        """Each reason that skipped more than MUCH of the samples, or of the windows."""
        windows = self.rows + sum(self.skipped[reason] for reason in WINDOWS)
        for reason in (one for one in REASONS if one not in WANTED):
            of, unit = (windows, "windows") if reason in WINDOWS else (self.samples, "samples")
            if self.skipped[reason] > MUCH * of:
                yield Skipped(reason, self.skipped[reason], of, unit, self._which(reason))

    @property
    def unlike(self) -> str | None:
        """A sentence where most rows are unlike all that taught the population, as in other units; None otherwise."""
        most = [name for name, count in self.outside.most_common() if 2 * count > self.rows]
        if self.rows < ENOUGH or not most:
            return None
        most = [name for name in most if name != TOGETHER] or most
        others = f" and of {len(most) - MOST_NAMED} other numbers" if len(most) > MOST_NAMED else ""
        return (
            f"most windows are unlike those of the population, by {', '.join(most[:MOST_NAMED])}{others}: other units "
            "(g or m/s^2, rad/s or degrees/s), an axis without a signal, a sensor that is mounted another way, or "
            "activities that it lacks. Do not trust their classes."
        )

    def other_units(self, named: Container[tuple[str, str]] = ()) -> Iterator[tuple[str, list[str]]]:
        """A sentence for each unit that keys seem to have in place of the population's, and the keys, without `named`.

        Windows of a key that look like several units differ by more than a unit, as acceleration does without gravity.
        """
        looks, found = defaultdict[tuple[str, str], list[str]](list), defaultdict[str, list[str]](list)
        for (key, what), rows in self.units.items():
            if rows >= ENOUGH:
                looks[key, what.partition(" is ")[0]].append(what)
        for (key, axes), whats in looks.items():
            if any((key, what) not in named for what in whats):
                found[f"{whats[0]}; convert it" if len(whats) == 1 else f"{axes} {NO_UNIT}"].append(key)
        for what, keys in found.items():
            who = f"{'key' if len(keys) == 1 else 'keys'} {printable(listed(list(map(shortened, keys)), MOST_NAMED))}"
            yield f"{who}: {what}, because such windows get wrong classes.", keys

    @property
    def absent(self) -> list[str]:
        """Numbers that every sample lacked, and that were filled in all the same."""
        if self.samples < ENOUGH or self.skipped["missing"] + self.skipped["unfilled"] >= self.samples:
            return []
        return [name for name, count in self.lacking.items() if count >= self.samples]

    def _which(self, reason: str) -> str:
        if reason in ("missing", "unfilled") and self.lacking:
            return f" (without: {of_each(self.lacking)})"
        return self._gaps if reason == "unpaired" else ""

    @property
    def _gaps(self) -> str:
        return f" (gaps: {of_each(self.sensor_gaps)})"

    @property
    def mostly_dead(self) -> bool:
        """Whether more than half of the records became dead letters."""
        return 2 * self.dead_lettered.total() > self.records - self.redelivered

    def nothing_learned(self, first_letter: str = "") -> str | None:
        """A sentence where no record could be used, no sample of them, or less than half without any window that was full.

        None otherwise, as where no record came.

        Samples that wait in an unfinished window have been learned, and so have redelivered records, once before.
        first_letter: what to say of the first dead letter; "": its reason and place.
        """
        dead, new = self.dead_lettered.total(), self.records - self.redelivered
        if self.rows or self.redelivered or not new:
            return None
        if dead >= new:
            first = first_letter or f"{self.first_letter}; 'streamjobs dlq list' shows the others."
            return f"nothing was learned: all {new:,} records became dead letters. The first: {first}"
        others = sum(self.skipped[reason] for reason in WANTED)
        if not self.samples and others:
            return (
                f"nothing was learned: all {others:,} samples are {REASONS[WANTED[0]]}; name theirs, or correct the names."
            )
        unpaired = self.skipped["unpaired"]
        if 2 * unpaired > self.samples:
            what = f"{REASONS['unpaired']}{self._gaps}"
            return f"nothing was learned: {unpaired:,} of {self.samples:,} samples are skipped as unpaired: {what}."
        left_out = Counter({reason: self.skipped[reason] for reason in REASONS if reason not in (*WINDOWS, *WANTED)})
        no_window = any(self.skipped[reason] for reason in WINDOWS) and 2 * left_out.total() > self.samples
        if self.samples and (no_window or left_out.total() >= NEARLY * self.samples):
            reason, count = left_out.most_common(1)[0]
            what = f"{REASONS[reason]}{self._which(reason)}"
            never = ", ".join(repr(name) for name, lack in self.lacking.items() if lack >= self.samples >= ENOUGH)
            hint = f" No sample has {never}: check [source] fields." if never and reason in ("missing", "unfilled") else ""
            return f"nothing was learned: {count:,} of {self.samples:,} samples are skipped as {reason}: {what}.{hint}"
        return None


def apart(directions: Array) -> Array:
    """(n,) bool: rows unlike the population's by their directions (n, d), all numbers together."""
    unlike = np.empty(len(directions), np.bool_)
    find_long(directions, APART * directions.shape[1], unlike)
    return unlike


def outside(names: Sequence[str], scaled: Array, clip: float, unlike: Array | None = None) -> dict[str, int]:
    """How many rows (n, width), in standard deviations and cut at +-clip (0: not cut), are FAR, by name of the number.

    unlike: as `apart` gives; None: not known.
    """
    found: dict[str, int] = {}
    counts = np.zeros(scaled.shape[1], np.int64)
    if count_far(scaled, min(clip, FAR) if clip else FAR, counts):
        found = {names[n]: int(counts[n]) for n in np.flatnonzero(counts).tolist()}
    if unlike is not None and (together := int(np.count_nonzero(unlike))):
        found[TOGETHER] = together
    return found


def of_each(counts: Counter[str]) -> str:
    """The ten largest counts with their names."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common(10))


_place = itemgetter(0, 1)


@dataclass(slots=True)
class Known:
    """The labels of a key that the model has learned."""

    waiting: deque[tuple[float, int, Any]] | None = None  # from when it is known, number, label; an empty one has 760 bytes
    until: float = -math.inf  # event time up to which they are learned
    last: Any = None
    counts: Counter[Any] = field(default_factory=Counter)  # of classes
    frequent: Any = None  # the class with the most labels; of several, the first that had so many
    number: int = 0
    total: Any = 0.0  # of numbers

    def add(self, came: float, label: Any, number: int = -1) -> None:
        """came: event time of the newest row then; number: of labels in records of their own, in the order they came."""
        self.waiting = deque() if self.waiting is None else self.waiting
        insort(self.waiting, (came, number, label), key=_place)

    def learn(self, until: float) -> None:
        self.until = max(self.until, until)
        while self.waiting and self.waiting[0][0] <= self.until:
            self.take(self.waiting.popleft()[2])
        self.waiting = self.waiting or None

    def take(self, label: Any) -> None:
        self.last = label
        self.number += 1
        if isinstance(label, str):
            self.counts[label] = count = self.counts.get(label, 0) + 1
            if count > self.counts.get(self.frequent, 0):
                self.frequent = label
        else:
            self.total = self.total + np.nan_to_num(np.asarray(label, np.float64))

    @property
    def most(self) -> Any:
        """The most frequent class; of numbers their mean. None before the first label."""
        if self.counts:
            return self.frequent
        return (self.total / self.number).tolist() if self.number else None
