"""Samples of a key in event time: late, out of order, or repeated.

With `lateness` 0 no sample waits. A sample older than the newest applied sample of its key is late, and a sample of the same
time is a duplicate. With a larger `lateness`, a sample waits until a sample has come that is newer by at least `lateness`.
Therefore samples are applied in order of time, and samples of equal times in order of arrival. At most `max_held` samples of
a key wait, then the oldest is applied. At the end of a stream samples go on waiting for a newer sample of their key.

If a record has no time, its sample has the record's timestamp, which producers and brokers set. Many samples may share a
timestamp, and timestamps may go back. Such a sample is never late, never a duplicate and never waits: these samples have the
order of their offsets. Samples of its key that still wait are applied before it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.demands import Demand, at_most, insist, met
from algorithms.common.protocol import LEARN, PREDICT_ONLY, Array, require, unknown
from algorithms.common.workspace import Slot
from streamjobs.stages.rows import plain_columns
from streamjobs.stages.stage import JobStage, Shape

APPLIED, HELD, LATE, DUPLICATE = 0, 1, 2, 3  # verdicts on an arriving sample
BEHIND = -1  # in place of how a sample learns: it does not go on
_POLICIES = {"learn": 0, "predict_only": 1, "drop": 2, "dlq": 3}


class OrderState(NamedTuple):
    newest: float  # event time of the newest applied sample, seconds; -inf: none yet
    held_times: Array  # (h,) ascending
    held_X: Array  # (h, dim)
    held_L: Array  # (h, labels)


class Ordered(NamedTuple):
    """The samples that go on, in the order to be applied; a held one has the owner of the sample that released it."""

    slots: Array  # (k,)
    times: Array  # (k,)
    X: Array  # (k, dim)
    L: Array  # (k, labels)
    owner: Array  # (k,)
    learn: Array  # (k,) int8
    verdict: Array  # (n,) int8 of each arriving sample: APPLIED, HELD, LATE or DUPLICATE, whatever the policy then does
    untimed: Array  # (k,) bool, has its record's timestamp for a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(JobStage):
    """The policies of a source.

    >>> order = Order(lateness=2.0)
    >>> fresh = order.begin(Shape(dim=1, width=1, label_width=1, targets=1), seed=0)
    >>> work = order.holding(fresh)
    >>> times = np.array([1.0, 3.0, 2.0, 5.0])
    >>> rows = np.zeros((4, 1))
    >>> slots = np.zeros(4, np.int64)
    >>> out = order.advance(work, slots, times, rows, rows, slots)
    >>> out.times, out.verdict
    (array([1., 2., 3.]), array([1, 1, 1, 1], dtype=int8))
    """

    persisted_name: ClassVar[str] = "Order"
    described = "nothing"
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("held_times", "held_X", "held_L"),)
    signal = True
    survives = True
    samples = ("held_X",)
    times = ("held_times", "newest")
    label_codes = ("held_L",)

    policy: str = "learn"  # of late samples: learn and predict_only let them pass at once, drop and dlq do not
    lateness: float = 0.0  # seconds of event time a sample waits
    duplicates: str = "drop"  # or "learn": applied like any other
    max_held: int = 1024  # most samples of a key that wait

    def __post_init__(self) -> None:
        require(self, "policy", self.policy in _POLICIES, "one of " + ", ".join(_POLICIES))
        require(self, "lateness", 0 <= self.lateness < np.inf, "0 or more seconds")
        require(self, "duplicates", self.duplicates in ("drop", "learn"), "drop or learn")
        require(self, "max_held", self.max_held >= 1, "1 or more")

    def room(self, field: str) -> int:
        return self.max_held + 1 if self.lateness > 0 else 0  # a sample enters before one leaves

    def demands(self, work: Any, slots: Array, classes: Array | None = None) -> Iterable[Demand]:
        return at_most(work, slots, held_times=self.max_held)

    def derive(self, own: Slot) -> None:
        insist(self, own)

    def derive_slots(self, work: Any, slots: Array) -> Array:
        return met(self, work, slots)

    def begin(self, shape: Shape, seed: int) -> OrderState:
        return OrderState(-np.inf, np.empty(0), np.empty((0, shape.dim)), np.empty((0, shape.label_width)))

    def warm_up(self, state: OrderState, shape: Shape) -> None:
        work, slot = self.holding(state), np.zeros(1, np.int64)
        self.advance(work, slot, np.zeros(1), np.zeros((1, shape.dim)), unknown((1, shape.label_width)), slot)

    def newest(self, work: Any, slots: Any) -> Array:
        """Event time of the newest applied sample of each slot, seconds; -inf without one."""
        times: Array = work["newest"][slots]
        return times

    def oldest_held(self, work: Any, slot: int) -> float:
        """Event time of the oldest sample that waits to be put in order, seconds; inf without one."""
        return float(work["held_times"][slot, 0]) if work["counts"][slot, 0] else float("inf")

    def advance(
        self, work: Any, slots: Array, times: Array, X: Array, L: Array, owner: Array, untimed: Array | None = None
    ) -> Ordered:
        """Samples of many keys in arrival order: X (n, dim), L (n, labels), the rest (n,).

        untimed: bool, whether a sample has its record's timestamp for a time; None: none has.
        """
        n = len(times)
        verdict, of_records = np.empty(n, np.int8), np.zeros(n, np.bool_) if untimed is None else untimed
        samples = plain_columns(slots, times, X, L, owner, of_records)
        policy = (_POLICIES[self.policy], self.lateness, self.duplicates == "learn", self.max_held)
        if self.lateness <= 0:
            learn: Array = np.empty(n, np.int8)
            if not _judge_all(work.arrays[0], samples, verdict, learn, policy):
                goes = learn != BEHIND
                samples, learn = tuple([column[goes] for column in samples]), learn[goes]
            slots, times, X, L, owner, untimed = samples
            return Ordered(slots, times, X, L, owner, learn, verdict, untimed)
        most = n + int(work["counts"][np.unique(slots), 0].sum())  # all that waits may leave
        out = (
            np.empty(most, np.int64),
            np.empty(most),
            np.empty((most, X.shape[1])),
            np.empty((most, L.shape[1])),
            np.empty(most, np.int64),
            np.empty(most, np.int8),
            np.zeros(most, np.bool_),
        )
        first = np.zeros(work.slots, np.int64)
        k = _advance(work.arrays, samples, out, verdict, first, policy)
        slots, times, X, L, owner, learn, untimed = [array[:k] for array in out]
        return Ordered(slots, times, X, L, owner, learn, verdict, untimed)


@compiled
def _judge_all(newest, samples, verdict, learn, policy):
    """Verdicts on samples that do not wait, and how each that goes on learns (BEHIND: it does not); whether all go on."""
    slots, times, _, _, _, untimed = samples
    all_go = True
    for n in range(times.size):
        verdict[n], learn[n] = _judge(newest, slots[n], times[n], untimed[n], policy)
        all_go &= learn[n] != BEHIND
    return all_go


@compiled
def _judge(newest, key, time, untimed, policy):
    """The verdict on a sample, and how it learns. newest: by slot, counts it in."""
    late_policy, _, learn_duplicates, _ = policy
    if not untimed and time < newest[key]:
        return LATE, LEARN if late_policy == 0 else PREDICT_ONLY if late_policy == 1 else BEHIND
    if not untimed and time == newest[key]:
        return DUPLICATE, LEARN if learn_duplicates else BEHIND
    newest[key] = max(newest[key], time)
    return APPLIED, LEARN


# The loops below index whole arrays instead of taking views of rows: they compile in a third of the time.
@compiled
def _advance(work, samples, out, verdict, first, policy):
    newest, held_times, held_X, held_L, counts = work
    slots, times, X, L, owner, untimed = samples
    out_slots, out_times, out_X, out_L, out_owner, out_learn, out_untimed = out
    _, lateness, learn_duplicates, max_held = policy
    k = 0  # samples that went on
    # `first` says where a slot's waiting samples begin while the batch runs; at its end they move to the front.
    for n in range(times.size):
        key, time = slots[n], times[n]
        if untimed[n]:  # what waits came before it
            for i in range(first[key], first[key] + counts[key, 0]):
                _release(work, key, i, owner[n], out, k)
                k += 1
            first[key] = 0
            for field in range(3):
                counts[key, field] = 0
        if untimed[n] or time <= newest[key]:  # it does not wait
            verdict[n], learn = _judge(newest, key, time, untimed[n], policy)
            if learn != BEHIND:
                out_slots[k], out_times[k], out_owner[k] = key, time, owner[n]
                out_learn[k], out_untimed[k] = learn, untimed[n]
                for j in range(X.shape[1]):
                    out_X[k, j] = X[n, j]
                for j in range(L.shape[1]):
                    out_L[k, j] = L[n, j]
                k += 1
            continue

        # It waits, after those of the same time.
        begin, end = first[key], first[key] + counts[key, 0]
        at = end
        while at > begin and held_times[key, at - 1] > time:
            at -= 1
        verdict[n] = HELD
        if at > begin and held_times[key, at - 1] == time:
            verdict[n] = DUPLICATE
            if not learn_duplicates:
                continue
        if end == held_times.shape[1]:
            for i in range(begin, end):
                _move(held_times, held_X, held_L, key, i, i - begin)
            at, begin, end = at - begin, 0, end - begin
        for i in range(end, at, -1):
            _move(held_times, held_X, held_L, key, i - 1, i)
        held_times[key, at] = time
        for j in range(X.shape[1]):
            held_X[key, at, j] = X[n, j]
        for j in range(L.shape[1]):
            held_L[key, at, j] = L[n, j]
        end += 1

        # What is old enough goes, and the oldest where too many wait.
        ripe = held_times[key, end - 1] - lateness
        while begin < end and (held_times[key, begin] <= ripe or end - begin > max_held):
            if verdict[n] == HELD and begin == at:
                verdict[n] = APPLIED
            _release(work, key, begin, owner[n], out, k)
            k += 1
            begin += 1
        first[key] = begin
        for field in range(3):
            counts[key, field] = end - begin

    for n in range(times.size):
        key = slots[n]
        if first[key] > 0:
            for i in range(counts[key, 0]):
                _move(held_times, held_X, held_L, key, first[key] + i, i)
            first[key] = 0
    return k


@compiled
def _release(work, key, source, owner, out, k):
    """A waiting sample goes on as the k-th."""
    newest, held_times, held_X, held_L, _ = work
    out_slots, out_times, out_X, out_L, out_owner, out_learn, _ = out
    newest[key] = held_times[key, source]
    out_slots[k], out_times[k], out_owner[k], out_learn[k] = key, newest[key], owner, LEARN
    for j in range(held_X.shape[2]):
        out_X[k, j] = held_X[key, source, j]
    for j in range(held_L.shape[2]):
        out_L[k, j] = held_L[key, source, j]


@compiled
def _move(held_times, held_X, held_L, key, source, target):
    """A waiting sample to another place."""
    held_times[key, target] = held_times[key, source]
    for j in range(held_X.shape[2]):
        held_X[key, target, j] = held_X[key, source, j]
    for j in range(held_L.shape[2]):
        held_L[key, target, j] = held_L[key, source, j]
