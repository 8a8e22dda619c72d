"""Figures of each person, updated by the worker's outputs, and how the demo prints them.

It prints the steps of its start, a line of figures every few seconds, and the summary.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from algorithms.common.protocol import Array
from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.core.state.population import Population
from streamjobs.fit.fitting import recipe_of
from streamjobs.fit.learning import Learned, decided, features
from streamjobs.fit.recordings import Stream, arriving_at

Said = list[str | None]
Score = Counter[str]  # windows, and of these those that the worker ("right") and each of the controls said right
LINE_EVERY = 5.0  # seconds
COLUMNS = (  # of the summary, after person and windows: the name, what it is right by, and what that means
    ("right", "right", "the worker's predictions. Its model of a person learns from their labels, each 20 s late"),
    ("fixed", "frozen", "the model that 'streamjobs fit' learned from five other people, without learning from these"),
    ("last label", "last", "repeating the last label of the person that had arrived"),
)
NEW_SET = 4.0  # seconds of event time without a window, after which a new set starts


class Control(NamedTuple):
    """What is said of each window of a person, None for nothing."""

    gated: Said  # as the worker is bound to
    frozen: Said  # the population's head, which never adapts
    cold: Said  # a head that begins with nothing
    last: Said  # the last label that has come


def controls(job: Job, records: Sequence[Stored]) -> dict[str, Control]:
    """By key, from the very records that are played."""
    decoded = job.decode(records)
    keys = [(records[i].key or b"").decode() for i in decoded.owner.tolist()]
    slot_of = {key: slot for slot, key in enumerate(dict.fromkeys(keys))}
    stage, population = job.steps.windows, job.population
    assert stage is not None and population is not None
    begin = stage.begin(job.shape, 0)
    work = stage.workspace(begin, slots=len(slot_of))
    for slot in range(len(slot_of)):
        stage.load(work, slot, begin)
    codes = np.array([[population.names.index(str(label))] for label in decoded.labels], dtype=np.float64)
    slots = np.array([slot_of[key] for key in keys], np.int64)
    learn = np.full(len(keys), 3, np.int8)
    rows = stage.advance(work, slots, decoded.times, decoded.X, codes, decoded.owner, learn)
    by_key = {}
    for key, slot in slot_of.items():
        mine = rows.slots == slot
        by_key[key] = _control(job, population, rows.times[mine], rows.X[mine], rows.L[mine, 0].astype(np.int64))
    return by_key


def _control(job: Job, population: Population, times: Array, X: Array, truth: Array) -> Control:
    recipe = recipe_of(job.composition)
    learned = Learned(
        population.scaling.state if population.scaling else None,
        population.map.state if population.map else None,
        population.head.state,
    )
    Z, stream = features(learned, recipe, X), Stream(X, truth, np.zeros(len(X), np.int64))
    arrivals = arriving_at(times, job.settings.labels.delay)
    gated, frozen, cold = (
        decided(recipe, start, learned, stream, Z, arrivals).chosen for start in ("gated", "frozen", "cold")
    )
    last, known = np.full(len(X), -1), -1
    for row, label in zip(*(part.tolist() for part in arrivals), strict=True):
        if label:
            known = truth[row]
        else:
            last[row] = known
    names = population.names
    return Control(*([None if c < 0 else names[c] for c in said.tolist()] for said in (gated, frozen, cold, last)))


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
        said = {"right": predicted, **{who: getattr(self.control, who)[seq] for who in ("frozen", "cold", "last")}}
        for score in scores:
            score.update({"windows": 1, **{who: int(one == truth) for who, one in said.items()}})
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
        return sum(person.all["windows"] for person in self.people.values())

    def total(self, which: str) -> Score:
        """The score `all`, `first` or `half` over all people."""
        return sum((getattr(person, which) for person in self.people.values()), Score())

    def delay(self, share: float) -> float | None:
        """The quantile of the delays, in seconds; share 0.5 is the median. None without delays."""
        if not self.delays:
            return None
        ordered = sorted(self.delays)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def percent(score: Score, who: str = "right") -> str:
    """The share of right predictions, such as "84 %"; "-" without windows."""
    return f"{100 * score[who] / score['windows']:.0f} %" if score["windows"] else "-"


def milliseconds(delay: float | None) -> str:
    return "-" if delay is None else f"{delay * 1000:.0f} ms"


class Screen:
    """Prints the steps of the start, and a line of figures now and then."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.started = self.printed = time.monotonic()
        self.stepped = ""

    def step(self, text: str) -> None:
        if text != self.stepped:
            self.console.print(text)
            self.stepped = text

    def draw(self, board: Board) -> None:
        """Print the figures, at most every LINE_EVERY."""
        if time.monotonic() - self.printed >= LINE_EVERY:
            self.printed = time.monotonic()
            self.console.print(line(board, self.printed - self.started), soft_wrap=True)


def line(board: Board, elapsed: float) -> str:
    everything = board.total("all")
    shares = "".join(f"  {name} {percent(everything, who):>5}" for name, who, _ in COLUMNS)
    return (
        f"{elapsed:5.0f} s  {board.played:>7,} samples in  {board.windows:>5,} windows out{shares}"
        f"  p50 {milliseconds(board.delay(0.5))}  p99 {milliseconds(board.delay(0.99))}"
    )


def summary(board: Board, facts: dict[str, Any]) -> Group:
    grid = Table(box=None, padding=(0, 1), header_style="bold", title="Windows predicted right", title_justify="left")
    heads = ("person", "windows", *(name for name, _, _ in COLUMNS))
    for title in heads:
        grid.add_column(title, justify="left" if title == "person" else "right", no_wrap=True)
    for name in sorted(board.people):
        person = board.people[name]
        grid.add_row(name, *_scores(person.all))
    grid.add_section()
    grid.add_row("all", *_scores(board.total("all")), style="bold")
    lines = [
        f"{board.played:,} samples in, {board.windows:,} of {board.expected:,} windows out in {facts['seconds']:.0f} s "
        f"({facts['speed']:.0f} times real time); {board.dead_letters} dead letters.",
        f"From the last sample of a window to its prediction: p50 {milliseconds(board.delay(0.5))}, "
        f"p99 {milliseconds(board.delay(0.99))} ({facts['place']}).",
        _drift(board),
        _learned(board),
        f"A person's state is the head alone, {facts['state']}; scale and map ({facts['shared']}) are shared.",
    ]
    following = Table.grid(padding=(0, 2))
    for command, meaning in (
        ("streamjobs init --sample FILE", "a job file for your own recording"),
        ("streamjobs check job.toml", "all mistakes at once, and the size of states"),
        ("streamjobs fit job.toml --input FILE", "learn from people you have, for people you have not; with a report"),
        ("streamjobs replay job.toml --input FILE --key COLUMN", "run your data through the job, without Kafka"),
        ("streamjobs run job.toml", "the worker, on your Kafka"),
        ("streamjobs demo --kafka", "this demo on a real Apache Kafka (needs Java 17 and Maven)"),
    ):
        following.add_row(Text(f"  {command}", style="cyan"), meaning)
    job = Text(f"The job that ran: {facts['job']}", style="dim")
    legend = [f"{name}: {meaning}." for name, _, meaning in COLUMNS]
    about, figures = (Text("\n".join(["", *some, ""])) for some in (legend, lines))
    return Group(about, grid, figures, Text("Next", style="bold"), following, job)


def _drift(board: Board) -> str:
    drifts = [person.drift for person in board.people.values()]
    noticed, changes, false = (sum(getattr(drift, name) for drift in drifts) for name in ("noticed", "changes", "false"))
    return f"Drift: {noticed} of {changes} changes of exercise noticed within their set, {false} other alarms."


def _learned(board: Board) -> str:
    half, first, everything = board.total("half"), board.total("first"), board.total("all")
    return (
        f"Before a person's first label {percent(first)} were right; in the second half of each person's windows "
        f"{percent(half)}, and {percent(half, 'frozen')} with the fixed model. A model that began with nothing but these "
        f"people's labels: {percent(everything, 'cold')} of all windows."
    )


def _scores(score: Score) -> list[str]:
    return [str(score["windows"]), *(percent(score, who) for _, who, _ in COLUMNS)]
