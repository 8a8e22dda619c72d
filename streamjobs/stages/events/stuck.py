"""Sensors that are stuck: columns that usually change from sample to sample, and stand still.

A run is a number that is repeated. A run alarms when it has LEAST samples or more, TIMES as many as the longest run before,
and the column *usually changes*: nearly every sample (OFTEN) brings another number, or every other one (SELDOM) and the
column was watched for a DAY, with its night. Columns that stand still by nature (a battery, a door contact) never change as
often. After a run that alarmed, the next alarm needs a run AGAIN times as long. Therefore a column that has long runs by
nature, such as of a machine that is switched off, gives at most log2(samples / LEAST) + 2 alarms, whatever it does.

A column may *rest* at a number, such as of a machine that is parked: at 0, and at the number of its longest run of LEAST
samples or more. Runs there are not compared with others: they alarm when they have TIMES as many samples as the longest one
there. At 0 they must last a DAY too, because the column may rest there for the first time.

A key has one alarm at a time: it begins with the first column that is stuck, and ends when none of its columns stands still.
Cost of a sample: O(columns).  State: 11 numbers a column, and 8.
"""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, Array, require
from streamjobs.stages.stage import JobStage, Shape

LEAST, TIMES, AGAIN = 30, 10, 2
RUNS = 100  # runs of a column before it can alarm
OFTEN, SELDOM = 0.95, 0.5  # samples with another number, of those before the run
DAY = 86_400.0  # seconds
REST = 3  # samples of a run at a number at which the column rests
STANDS, MOVED = 1, 2  # what a column of the open alarm does


class StuckState(NamedTuple):
    value: Array  # (dim,) the newest number
    run: Array  # (dim,) int64, samples with it
    begun: Array  # (dim,) event time of the first of them
    limit: Array  # (dim,) int64, samples from which a run alarms
    runs: Array  # (dim,) int64, runs before that did not alarm
    seen: Array  # (dim,) int64, their samples
    named: Array  # (dim,) int64, in the open alarm: STANDS, MOVED; 0: it is not part of it
    stood: Array  # (dim,) the number at which it stood
    rest: Array  # (dim,) a number other than 0 at which it rests
    rests: Array  # (dim,) int64, samples of the longest run there, 0: none yet
    zeros: Array  # (dim,) int64, and of the longest run at 0
    samples: int
    first: float  # event time of the first one, -inf: none yet
    alarms: int  # raised so far
    opened: int  # 1: the newest one is open
    raised: float  # event time of the sample that raised it
    since: float  # event time from which its columns stand still
    rows: int  # samples since then, when it was raised
    before: int  # samples of the key before these


_BEFORE_RESTS = [name for name in StuckState._fields if name not in ("rest", "rests", "zeros")]
StateWithoutRests = cast(Any, namedtuple("StateWithoutRests", _BEFORE_RESTS))  # as it was before columns could rest


class Stuck(NamedTuple):
    """An alarm is raised, or ends."""

    row: int
    slot: int
    ended: bool
    number: int  # of the alarm within its key, from 1
    raised: float
    since: float
    rows: int  # samples from `since` to `raised`
    samples: int  # of the key before these
    columns: list[tuple[int, float]]  # that stand still, or stood, and at which number


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckSensors(JobStage):
    """Runs must also last `after` seconds of event time.

    >>> stage = StuckSensors()
    >>> work = stage.holding(stage.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0))
    >>> X = np.r_[np.arange(200.0), np.full(40, 7.0), 8.0].reshape(-1, 1)
    >>> events = stage.advance(work, np.zeros(241, np.int64), np.arange(241.0), X, np.full(241, LEARN, np.int8))
    >>> [(one.row, one.ended, one.since, one.columns) for one in events]
    [(229, False, 200.0, [(0, 7.0)]), (240, True, 200.0, [(0, 7.0)])]
    """

    persisted_name: ClassVar[str] = "StuckSensors"
    signal = True
    survives = True
    times = ("begun", "first", "raised", "since")
    tallies = ("run", "limit", "runs", "seen", "rests", "zeros")
    ranges = (("named", 0, MOVED), ("opened", 0, 1))

    after: float = 0.0

    def __post_init__(self) -> None:
        require(self, "after", 0 <= self.after < np.inf, "0 or more seconds")

    def begin(self, shape: Shape, seed: int) -> StuckState:
        number, count = np.zeros(shape.dim), np.zeros(shape.dim, np.int64)
        limit = np.full(shape.dim, LEAST, np.int64)
        standing = number, count, number.copy(), limit, count.copy(), count.copy()
        named = count.copy(), number.copy(), number.copy(), count.copy(), count.copy()
        return StuckState(*standing, *named, 0, -np.inf, 0, 0, 0.0, 0.0, 0, 0)

    def description(self) -> str:
        """No setting changes what the arrays mean."""
        return f"{self.persisted_name}(rests)"

    def warm_up(self, state: StuckState, shape: Shape) -> None:
        work = self.holding(state)
        self.advance(work, np.zeros(1, np.int64), np.zeros(1), np.zeros((1, shape.dim)), np.full(1, LEARN, np.int8))

    def advance(self, work: Any, slots: Array, times: Array, X: Array, learn: Array) -> list[Stuck]:
        """The alarms that samples X (n, dim) raise and end, in their order; late ones (no `learn`) change nothing."""
        events: list[Stuck] = []
        at = 0
        while (at := _loop(work.arrays, slots, times, X, learn, at, self.after)) < len(slots):
            events.append(_event(work, at, int(slots[at])))
            at += 1
        return events

    def open_alarm(self, work: Any, slot: int) -> Stuck | None:
        return _event(work, -1, slot) if work["opened"][slot] else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckWithoutRests(StuckSensors):
    """Reads the states of before columns could rest. A key that has one begins a new state."""

    persisted_name: ClassVar[str] = "StuckWithoutRests"  # never stored

    def begin(self, shape: Shape, seed: int) -> Any:
        held = StuckSensors.begin(self, shape, seed)
        return StateWithoutRests(*(getattr(held, field) for field in StateWithoutRests._fields))

    def description(self) -> str:
        return f"{StuckSensors.persisted_name}()"


def _event(work: Any, row: int, slot: int) -> Stuck:
    """What the state of a slot says of its newest alarm."""
    named = np.flatnonzero(work["named"][slot]).tolist()
    rows = int(work["rows"][slot])
    return Stuck(
        row,
        slot,
        not work["opened"][slot],
        int(work["alarms"][slot]),
        float(work["raised"][slot]),
        float(work["since"][slot]),
        rows,
        int(work["before"][slot]),
        [(column, float(work["stood"][slot, column])) for column in named],
    )


@compiled
def _loop(work, slots, times, X, learn, at, after):
    """Samples from `at` on, up to one that raises or ends an alarm; gives its place, or n."""
    value, run, begun, named, samples, first, opened = work[0], work[1], work[2], work[6], work[11], work[12], work[14]
    for n in range(at, len(slots)):
        key, time = slots[n], times[n]
        if learn[n] & LEARN_EXTRACTOR == 0:
            continue
        if samples[key] == 0:
            first[key] = time
        samples[key] += 1
        crossed, stands = False, False
        for j in range(X.shape[1]):
            if run[key, j] > 0 and X[n, j] == value[key, j]:
                run[key, j] += 1
                if opened[key] == 1 and named[key, j] == STANDS:
                    stands = True
                elif run[key, j] >= LEAST and time - begun[key, j] >= after and _long(work, key, j, time):
                    crossed = True
            elif np.isfinite(X[n, j]):
                if run[key, j] > 0:
                    _end_run(work, key, j)
                value[key, j], run[key, j], begun[key, j] = X[n, j], 1, time
            elif opened[key] == 1 and named[key, j] == STANDS:
                stands = True
        if crossed:
            _raise(work, key, time)
            if opened[key] == 0:
                opened[key] = 1
                return n
        elif opened[key] == 1 and not stands:
            opened[key] = 0
            return n
    return len(slots)


@compiled
def _rests(work, key, j):
    """Whether the run is at a number at which the column rests."""
    number = work[0][key, j]
    return number == 0.0 or (work[9][key, j] > 0 and number == work[8][key, j])


@compiled
def _long(work, key, j, time):
    """Whether the run is long enough for an alarm."""
    run = work[1][key, j]
    if not _rests(work, key, j):
        return run >= work[3][key, j] and _changes(work, key, j)
    if work[0][key, j] != 0.0:
        return run >= TIMES * work[9][key, j] and _changes(work, key, j)
    return run >= TIMES * work[10][key, j] and time - work[2][key, j] >= DAY and _changes(work, key, j)


@compiled
def _changes(work, key, j):
    """Whether the column usually changes, by the runs before the present one that did not alarm."""
    begun, runs, seen, first = work[2][key, j], work[4][key, j], work[5][key, j], work[12][key]
    often = runs >= OFTEN * seen or (runs >= SELDOM * seen and begun - first >= DAY)
    return runs >= RUNS and often


@compiled
def _end_run(work, key, j):
    value, run, limit, runs, seen, named, opened = work[0], work[1], work[3], work[4], work[5], work[6], work[14]
    rest, rests, zeros = work[8], work[9], work[10]
    length, alarmed = run[key, j], opened[key] == 1 and named[key, j] == STANDS
    if alarmed:
        named[key, j] = MOVED
    if length >= REST and _rests(work, key, j):
        longest = zeros if value[key, j] == 0.0 else rests
        longest[key, j] = max(longest[key, j], length)
        return
    if length >= LEAST and length > rests[key, j] and runs[key, j] >= SELDOM * seen[key, j]:
        first = rests[key, j] == 0
        rest[key, j], rests[key, j] = value[key, j], length
        if first:
            return
    if alarmed:
        limit[key, j] = max(limit[key, j], AGAIN * length)
        return
    runs[key, j] += 1
    seen[key, j] += length
    limit[key, j] = max(limit[key, j], TIMES * length)


@compiled
def _raise(work, key, time):
    """Name the columns that stand still: those of a new alarm, or more of an open one."""
    value, run, begun, named, stood = work[0], work[1], work[2], work[6], work[7]
    samples, alarms, opened, raised, since = work[11], work[13], work[14], work[15], work[16]
    rows, before = work[17], work[18]
    if opened[key] == 0:
        alarms[key] += 1
        raised[key], since[key], rows[key] = time, time, 0
        for j in range(value.shape[1]):
            named[key, j] = 0
    for j in range(value.shape[1]):
        stands = run[key, j] >= LEAST and _changes(work, key, j)
        if named[key, j] != STANDS and stands and (not _rests(work, key, j) or _long(work, key, j, time)):
            named[key, j], stood[key, j] = STANDS, value[key, j]
            if opened[key] == 0 and run[key, j] > rows[key]:
                rows[key], since[key], before[key] = run[key, j], begun[key, j], samples[key] - run[key, j]
