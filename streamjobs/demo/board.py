"""What the screen shows of each person, kept up to date by the worker's outputs; no terminal here."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from streamjobs.demo.recordings import PAUSE

STRIP = 28  # windows shown of each person
RIGHT, WRONG, SILENT = "right", "wrong", "silent"  # silent: nothing predicted yet


@dataclass(slots=True)
class Score:
    """Windows predicted before their label was learned, and what copying the label before would have given."""

    windows: int = 0
    right: int = 0
    copied: int = 0  # right by the label seen last

    def add(self, hit: bool, copy_hit: bool) -> None:
        self.windows += 1
        self.right += hit
        self.copied += copy_hit


@dataclass(slots=True)
class Person:
    name: str
    exercise: str = ""  # the newest window's true one
    predicted: str | None = None
    all: Score = field(default_factory=Score)
    new: Score = field(default_factory=Score)  # the first window of a set: no label of it has been seen
    back: Score = field(default_factory=Score)  # of those, where the exercise has been done before
    done: set[str] = field(default_factory=set)
    ls_error: float | None = None  # running mean of the last windows
    drifts: int = 0
    strip: deque[tuple[str, bool]] = field(default_factory=lambda: deque(maxlen=STRIP))  # (verdict, drift mark)
    last_label: str | None = None
    last_ts: float | None = None

    def take(self, prediction: dict[str, Any]) -> None:
        """One record of the predictions topic."""
        truth, guess, ts = prediction["y"], prediction["y_hat"], prediction["ts"]
        begins = self.last_ts is None or ts - self.last_ts > PAUSE / 2
        scores = [self.all]
        if begins:
            scores.append(self.new)
            if truth in self.done:
                scores.append(self.back)
        for score in scores:
            score.add(guess == truth, self.last_label == truth)
        self.exercise, self.predicted = truth, guess
        self.done.add(truth)
        if prediction["ls_error"] is not None:
            old = self.ls_error if self.ls_error is not None else prediction["ls_error"]
            self.ls_error = 0.8 * old + 0.2 * prediction["ls_error"]
        self.drifts += bool(prediction["drift"])
        verdict = SILENT if guess is None else RIGHT if guess == truth else WRONG
        self.strip.append((verdict, bool(prediction["drift"])))
        self.last_label, self.last_ts = truth, ts


@dataclass(slots=True)
class Board:
    """Everybody, and the figures over all."""

    people: dict[str, Person] = field(default_factory=dict)
    played: int = 0  # samples sent
    features: int = 0
    drift_records: int = 0
    dead_letters: int = 0
    delays: list[float] = field(default_factory=list)  # seconds from sending a window's last sample to its prediction

    def take(self, sink: str, record: dict[str, Any] | None, delay: float | None) -> None:
        """One output record; `delay` where it is known."""
        if sink == "predictions":
            assert record is not None
            self.people.setdefault(record["key"], Person(record["key"])).take(record)
            if delay is not None:
                self.delays.append(delay)
        elif sink == "features":
            self.features += 1
        elif sink == "drift":
            self.drift_records += 1
        else:
            self.dead_letters += 1

    @property
    def windows(self) -> int:
        return sum(person.all.windows for person in self.people.values())

    def total(self, which: str) -> Score:
        """The score `all`, `new` or `back` over everybody."""
        scores: list[Score] = [getattr(person, which) for person in self.people.values()]
        return Score(
            sum(score.windows for score in scores),
            sum(score.right for score in scores),
            sum(score.copied for score in scores),
        )

    def delay(self, share: float) -> float | None:
        """The delay that this share of predictions stayed below, in seconds."""
        if not self.delays:
            return None
        ordered = sorted(self.delays)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
