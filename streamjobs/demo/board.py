"""Figures of each person, updated by the worker's outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from streamjobs.demo.controls import Control

NEW_SET = 4.0  # seconds of event time without a window, after which a new set starts


@dataclass(slots=True)
class Score:
    """Counts of windows, and of right predictions by the worker and each control."""

    windows: int = 0
    right: int = 0  # by the worker
    frozen: int = 0  # by the population's head alone
    cold: int = 0  # by a head that started from nothing
    last: int = 0  # by the last label that had arrived

    def add(self, truth: str, predicted: str | None, control: Control, seq: int) -> None:
        self.windows += 1
        self.right += predicted == truth
        self.frozen += control.frozen[seq] == truth
        self.cold += control.cold[seq] == truth
        self.last += control.last[seq] == truth


@dataclass(slots=True)
class Drift:
    """Alarms compared with the changes of exercise; the detector never sees a label."""

    changes: int = 0  # sets with another exercise than the previous set
    noticed: int = 0  # those with an alarm
    false: int = 0  # alarms in a set after its first one
    _alarmed: bool = False  # in this set
    _changed: bool = False  # this set is such a change

    def add(self, alarm: bool, *, begins: bool, changed: bool) -> None:
        """Count the next window. begins: it starts a set; changed: that set has another exercise."""
        if begins:
            self._alarmed, self._changed = False, changed
            self.changes += changed
        if alarm:
            self.false += self._alarmed
            self.noticed += self._changed and not self._alarmed
            self._alarmed = True


@dataclass(slots=True)
class Person:
    name: str
    control: Control
    exercise: str = ""  # the newest window's true one
    all: Score = field(default_factory=Score)
    first: Score = field(default_factory=Score)  # before any label of the person had arrived
    half: Score = field(default_factory=Score)  # the second half of the person's windows
    drift: Drift = field(default_factory=Drift)
    ts: float = -inf  # of the newest window, seconds of event time

    def take(self, prediction: dict[str, Any]) -> None:
        """Count one record of the predictions topic."""
        truth, predicted, seq = prediction["true_class"], prediction["predicted_class"], prediction["seq"]
        scores = [self.all]
        if not prediction["labelled"]:
            scores.append(self.first)
        if seq >= len(self.control.frozen) // 2:
            scores.append(self.half)
        for score in scores:
            score.add(truth, predicted, self.control, seq)
        begins = prediction["ts"] - self.ts > NEW_SET
        self.drift.add(prediction["drift"], begins=begins, changed=bool(self.exercise) and truth != self.exercise)
        self.ts = prediction["ts"]
        self.exercise = truth


@dataclass(slots=True)
class Board:
    controls: Mapping[str, Control]
    people: dict[str, Person] = field(default_factory=dict)
    played: int = 0  # samples sent
    dead_letters: int = 0
    delays: list[float] = field(default_factory=list)  # seconds from sending a window's last sample to its prediction

    def take(self, sink: str, record: dict[str, Any] | None, delay: float | None) -> None:
        """Count one output record. record: of predictions; delay: seconds, None if unknown."""
        if sink == "predictions":
            assert record is not None
            key = record["key"]
            self.people.setdefault(key, Person(key, self.controls[key])).take(record)
            if delay is not None:
                self.delays.append(delay)
        elif sink == "dlq":
            self.dead_letters += 1

    @property
    def expected(self) -> int:
        return sum(len(control.frozen) for control in self.controls.values())

    @property
    def windows(self) -> int:
        return sum(person.all.windows for person in self.people.values())

    def total(self, which: str) -> Score:
        """The score `all`, `first` or `half` over all people."""
        scores: list[Score] = [getattr(person, which) for person in self.people.values()]
        return Score(*(sum(getattr(score, name) for score in scores) for name in Score.__slots__))

    def delay(self, share: float) -> float | None:
        """The quantile of the delays, in seconds; share 0.5 is the median. None without delays."""
        if not self.delays:
            return None
        ordered = sorted(self.delays)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
