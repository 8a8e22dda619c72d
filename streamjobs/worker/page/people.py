"""The keys that the page shows one by one, their newest rows, and what was predicted for which label so far."""

import math
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamjobs.core.messages import FAR, BatchRows, LateLabel
from streamjobs.core.unlearned import Known

MOST_PEOPLE = 24
MOST_CHOSEN = 16  # keys that viewers have asked for, in addition to them
CELLS = 120  # newest rows of a key
MOST_CLASSES = 24  # shown one by one; further ones are OTHER together
OTHER = "(other)"
IDLE = 60.0  # seconds without a row after which a key makes room for another
ALARM_HOLDS = 300.0  # seconds that a key keeps its place after an alarm
MOST_LABELS = 10_000  # keys with a label that are remembered
MOST_WAITING = 50_000  # rows that wait, and labels that are not known yet, after a look
SWAPS = 4  # keys without an alarm that make room for keys that raised one, at a look

Cell = list[Any]  # number of the predicted class, of the label (-1: none), alarm (0 or 1), LS error or None


@dataclass(slots=True)
class Person:
    cells: "deque[Cell]" = field(default_factory=lambda: deque(maxlen=CELLS))
    fresh: list[Cell] = field(default_factory=list)  # of the last look
    errors: "deque[tuple[int, float]]" = field(default_factory=lambda: deque(maxlen=900))  # (number of the look, LS error)
    rows: int = 0
    labelled: int = 0
    right: int = 0
    last_row: float = 0.0  # time.monotonic()
    last_alarm: float = -math.inf
    alarm: bool = False  # an alarm is open


class People:
    """At most MOST_PEOPLE keys, and those that were asked for. Keys with an open alarm stay until it ends."""

    def __init__(self) -> None:
        self.shown: dict[str, Person] = {}
        self.chosen: Counter[str] = Counter()  # by how many viewers
        self.classes: list[str] = []
        self.confusion: Counter[tuple[str, str]] = Counter()  # (label, predicted)
        self.unpredicted = 0  # labelled rows without a prediction
        self._number: dict[str, int] = {}

    def choose(self, key: str) -> bool:
        """Show this key for a viewer until `release`; False when too many are."""
        if key not in self.chosen and len(self.chosen) >= MOST_CHOSEN:
            return False
        self.chosen[key] += 1
        self.shown.setdefault(key, Person(last_row=time.monotonic()))
        return True

    def release(self, key: str) -> None:
        self.chosen[key] -= 1
        if self.chosen[key] <= 0:
            del self.chosen[key]

    def take(
        self, batches: list[BatchRows], alarms: Iterable[tuple[str, float]], look: int, opened: Collection[str] = ()
    ) -> None:
        """Take the rows of a look.

        alarms: key and event time of rows that raised one; look: its number; opened: keys with an open alarm, in the order
        in which they are shown.
        """
        now, alarmed = time.monotonic(), set(alarms)
        self._admit([*opened], {key for key, _ in alarmed}, now)
        for key, person in self.shown.items():
            person.fresh, person.alarm = [], key in opened
            if person.alarm:
                person.last_alarm = now
        self._make_room(batches, now)
        for batch in batches:
            self._count(batch)
            self._show(batch, alarmed, now)
        for person in self.shown.values():
            if person.fresh and person.fresh[-1][3] is not None:
                person.errors.append((look, person.fresh[-1][3]))

    def _admit(self, opened: list[str], alarmed: set[str], now: float) -> None:
        """Show keys with an open alarm, and some that raised one, in place of those with the oldest alarms."""
        keep = {*opened, *alarmed, *self.chosen}
        calm = sorted((key for key in self.shown if key not in keep), key=lambda key: self.shown[key].last_alarm)
        free = MOST_PEOPLE - sum(key not in self.chosen for key in self.shown)
        for key in [*opened, *sorted(alarmed.difference(opened))[:SWAPS]]:
            holds = key not in opened and calm and now - self.shown[calm[0]].last_alarm <= ALARM_HOLDS
            if key in self.shown or holds:
                continue
            if free <= 0 and not calm:
                return
            if free <= 0:
                del self.shown[calm.pop(0)]
            free = max(0, free - 1)
            self.shown[key] = Person(last_row=now)

    def _make_room(self, batches: list[BatchRows], now: float) -> None:
        free = MOST_PEOPLE - sum(key not in self.chosen for key in self.shown)
        idle = [
            key for key, one in self.shown.items() if key not in self.chosen and not one.alarm and now - one.last_row > IDLE
        ]
        if free + len(idle) > 0:
            coming = dict.fromkeys(key for batch in batches for key in dict.fromkeys(batch.keys) if key not in self.shown)
            for key in list(coming)[: free + len(idle)]:
                if free <= 0:
                    del self.shown[idle.pop(0)]
                free = max(0, free - 1)
                self.shown[key] = Person()

    def _count(self, batch: BatchRows) -> None:
        if batch.labels is None or batch.predicted is None:
            return
        if any(isinstance(one, (float, list)) for one in (batch.labels[0], batch.predicted[0])):  # of a regression
            return
        for (label, predicted), rows in Counter(zip(batch.labels, batch.predicted, strict=True)).items():
            if label is not None and predicted is not None:
                self.confusion[self._name(label), self._name(predicted)] += rows
            elif label is not None:
                self.unpredicted += rows

    def _name(self, name: str) -> str:
        return name if self.number(name) < MOST_CLASSES else OTHER

    def number(self, name: str | None) -> int:
        """The number of a class, -1 without one; those beyond MOST_CLASSES share the last number."""
        if name is None:
            return -1
        number = self._number.get(name)
        if number is None:
            if len(self.classes) > MOST_CLASSES:
                return MOST_CLASSES
            number = self._number[name] = len(self.classes)
            self.classes.append(name if number < MOST_CLASSES else OTHER)
        return number

    def _show(self, batch: BatchRows, alarmed: set[tuple[str, float]], now: float) -> None:
        shown = self.shown
        for at in [at for at, key in enumerate(batch.keys) if key in shown]:
            key = batch.keys[at]
            person, error = shown[key], float(batch.ls_errors[at])
            predicted = None if batch.predicted is None else _class(batch.predicted[at])
            label = None if batch.labels is None else _class(batch.labels[at])
            alarm = bool(alarmed) and (key, float(batch.times[at])) in alarmed
            cell = [self.number(predicted), self.number(label), int(alarm), error if math.isfinite(error) else None]
            person.cells.append(cell)
            person.fresh.append(cell)
            person.rows += 1
            person.last_row = now
            if alarm:
                person.last_alarm = now
            if label is not None and predicted is not None:
                person.labelled += 1
                person.right += label == predicted


def _class(value: Any) -> str | None:
    """The name of a class; None for nothing, and for the numbers of a regression."""
    return value if isinstance(value, str) else None


class Scores:
    """How often predictions were right, next to the last and the most frequent label of each key, as `replay` counts it.

    Over the rows with a prediction and a label, of keys with an earlier label that was known. A label is compared with what
    was predicted, and known, when its row came: rows that wait for a label in a record of its own are remembered with both.
    With [labels] delay, labels that are not known yet are remembered.
    """

    def __init__(self, wait: float = 0.0, delay: float = 0.0) -> None:
        """As in [labels], seconds."""
        self.rows = self.right = self.last_right = self.majority_right = 0
        self.squared = self.last_squared = 0.0  # of numbers: sums of the squared differences
        self._wait, self._delay = wait, delay
        self._keys: dict[str, Known] = {}
        self._waiting: dict[tuple[str, float], tuple[Any, Any, Any]] = {}  # what was said and known of a row without label
        self._newest, self._number = -math.inf, 0
        self._unmet: list[LateLabel] = []  # of the last look

    def take(self, batches: Iterable[BatchRows], late: Sequence[LateLabel] = ()) -> None:
        """What came since the last look. A row may come a look after its late label, which is taken first."""
        for one in late:  # known from a time on: rows before it do not know them
            known, self._number = self._key(one.key), self._number + 1
            known.add(one.known, one.label, self._number)
            known.learn(-math.inf)
        for batch in batches:
            self._take(batch)
        came, self._unmet = [*self._unmet, *late], []
        for at, one in enumerate(came, len(late) - len(came)):
            row = self._waiting.pop((one.key, one.time), None)
            if row is not None:
                self._judge(one.label, *row)
            elif at >= 0:
                self._unmet.append(one)
        self._make_room()

    def _key(self, key: str) -> Known:
        known = self._keys.get(key)
        if known is None:
            if len(self._keys) >= MOST_LABELS:
                del self._keys[next(iter(self._keys))]
            known = self._keys[key] = Known()
        return known

    def _take(self, batch: BatchRows) -> None:
        keys, waiting, wait, delay = self._keys, self._waiting, self._wait, self._delay
        at_once, rows, right, last_right, majority_right = not (wait or delay), 0, 0, 0, 0
        columns = batch.keys, map(keys.get, batch.keys), batch.times.tolist(), batch.labels or (), batch.predicted or ()
        for key, known, moment, label, said in zip(*columns, strict=False):
            if at_once and known is not None and said is not None and label.__class__ is str:  # inlined: most rows
                counts, rows = known.counts, rows + 1
                if label == said:
                    right += 1
                if label == known.last:
                    last_right += 1
                known.last = label
                counts[label] = count = counts.get(label, 0) + 1
                if label == known.frequent:
                    majority_right += 1
                elif count > counts[known.frequent]:
                    known.frequent = label
            elif label.__class__ is str or not _missing(label):
                known = known or self._key(key)
                self._judge(label, said, known.last, known.frequent)
                known.add(moment, label)
                known.learn(moment - delay)
            elif known is not None and not at_once:
                if wait and said is not None and known.last is not None and len(waiting) < 2 * MOST_WAITING:
                    waiting[key, moment] = said, known.last, known.frequent
                    self._newest = max(self._newest, moment)
                known.learn(moment - delay)
        self.rows, self.right = self.rows + rows, self.right + right
        self.last_right, self.majority_right = self.last_right + last_right, self.majority_right + majority_right

    def _judge(self, label: Any, said: Any, last: Any, frequent: Any) -> None:
        if said is None or last is None:
            return
        if isinstance(label, str):
            self.right += label == said
            self.last_right += label == last
            self.majority_right += label == frequent
        else:
            with np.errstate(over="ignore"):
                squares = [float(np.mean(np.subtract(label, one) ** 2)) for one in (said, last)]
            if not sum(squares) < FAR:
                return
            self.squared += squares[0]
            self.last_squared += squares[1]
        self.rows += 1

    def _make_room(self) -> None:
        """Rows that are too old for a label leave, then the newest ones: those before can still be judged."""
        if len(self._waiting) > MOST_WAITING:
            oldest = self._newest - self._wait
            kept = [(place, row) for place, row in self._waiting.items() if place[1] >= oldest]
            self._waiting = dict(kept[:MOST_WAITING])
        if self._delay:
            labels = sum(len(known.waiting or ()) for known in self._keys.values())
            while labels > MOST_WAITING:
                labels -= len(self._keys.pop(next(iter(self._keys))).waiting or ())

    def summary(self) -> dict[str, Any]:
        """Fields of the event `stopped`; empty if no row was judged."""
        rows = self.rows
        if not rows:
            return {}
        if any(known.counts for known in self._keys.values()):
            right = {"model": self.right, "last_label": self.last_right, "majority": self.majority_right}
            return {"accuracy": {"rows": rows} | {name: round(count / rows, 4) for name, count in right.items()}}
        squared = {"model": self.squared, "last_label": self.last_squared}
        return {"rmse": {"rows": rows} | {name: float(f"{math.sqrt(total / rows):.6g}") for name, total in squared.items()}}


def _missing(label: Any) -> bool:
    """Of labels other than classes: numbers that are not known are NaN."""
    return label is None or not all(map(math.isfinite, label if isinstance(label, list) else (label,)))
