"""Statistics of the live keys of a partition, for metrics: read at a scrape, kept up by a few array writes a batch.

Nothing here is part of a state: it starts over with the live states and is never stored.
"""

import math
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array

WORST = 10  # keys with the largest LS errors


class LiveStats(NamedTuple):
    """Of the live keys of a partition, or of several together."""

    active: int = 0  # keys with a record lately
    drifting: int = 0  # of those, keys with an open alarm, or of alarms that end at once with one lately
    worst: tuple[float, ...] = ()  # largest newest LS errors of active keys, at most WORST, largest first
    budget_used: float = float("nan")  # stored samples to budget, mean of the keys; NaN where the model stores none
    rank: float = float("nan")  # features in use, mean of the newest rows; NaN where it gives none
    keys: int = 0
    in_alarm: int = 0  # keys with an open alarm
    warming_up: int = 0  # active keys of which no detector can alarm yet
    warming: tuple[int, ...] = ()  # active keys in the warm-up of each detector


class LatestBySlot:
    """The newest LS error and alarm of each slot."""

    def __init__(self, slots: int) -> None:
        self.errors = np.full(slots, np.nan)  # newest LS error
        self.alarmed = np.zeros(slots, np.int64)  # batch of the last alarm, 0 none
        self.warming = np.zeros(slots, np.uint8)  # bits of the detectors that warmed up at the newest row
        self.detectors = 0  # bits of those that have a warm-up
        self.features: Array | None = None  # (n, width) of the newest batch

    def grow(self, slots: int) -> None:
        more = slots - len(self.errors)
        self.errors = np.concatenate([self.errors, np.full(more, np.nan)])
        self.alarmed = np.concatenate([self.alarmed, np.zeros(more, np.int64)])
        self.warming = np.concatenate([self.warming, np.zeros(more, np.uint8)])

    def clear(self, slots: list[int]) -> None:
        """Other keys take the slots."""
        self.errors[slots], self.alarmed[slots], self.warming[slots] = np.nan, 0, 0


def stats_of(
    latest: LatestBySlot, used: Array, keys: int, since: int, budget_used: float, in_alarm: Array | None = None
) -> LiveStats:
    """Of the keys with slots that were used, or alarmed, in a batch after the `since`-th.

    in_alarm: slots with an open alarm; None where no alarm stays open.
    """
    errors, alarmed, warming = latest.errors, latest.alarmed, latest.warming  # another thread may look while they grow
    size = min(len(used), len(errors), len(alarmed), len(warming))
    active = used[:size] > since
    known = errors[:size][active]
    known = known[np.isfinite(known)]
    if len(known) > WORST:
        known = np.partition(known, -WORST)[-WORST:]
    known = np.sort(known)[::-1]
    features, rank = latest.features, float("nan")
    if features is not None and features.size:
        rank = float((np.isfinite(features) & (features != 0.0)).sum(axis=1).mean())
    if in_alarm is None:
        drifting, in_alarm = int((active & (alarmed[:size] > since)).sum()), np.zeros(0, np.int64)
    else:
        drifting = int(active[in_alarm[in_alarm < size]].sum())
    of_active = warming[:size][active]
    bits = [1 << at for at in range(latest.detectors.bit_length())]
    return LiveStats(
        int(active.sum()),
        drifting,
        tuple(known.tolist()),
        budget_used,
        rank,
        keys,
        len(in_alarm),
        int((of_active == latest.detectors).sum()) if bits else 0,
        tuple(int((of_active & bit > 0).sum()) for bit in bits),
    )


def worst_slots(latest: LatestBySlot, used: Array, since: int, most: int) -> list[tuple[int, float]]:
    """Slots with the largest newest LS errors, of those used in a batch after the `since`-th, largest first."""
    errors = latest.errors  # another thread may look while they grow
    size = min(len(used), len(errors))
    known = np.flatnonzero((used[:size] > since) & np.isfinite(errors[:size]))
    if len(known) > most:
        known = known[np.argpartition(errors[known], len(known) - most)[len(known) - most :]]
    ordered = sorted(((float(errors[slot]), slot) for slot in known.tolist()), reverse=True)
    return [(slot, error) for error, slot in ordered]


def together(parts: list[LiveStats]) -> LiveStats:
    """Several partitions as one; means are weighted by keys."""
    worst = sorted((error for part in parts for error in part.worst), reverse=True)[:WORST]
    return LiveStats(
        sum(part.active for part in parts),
        sum(part.drifting for part in parts),
        tuple(worst),
        _mean([(part.budget_used, part.keys) for part in parts]),
        _mean([(part.rank, part.keys) for part in parts]),
        sum(part.keys for part in parts),
        sum(part.in_alarm for part in parts),
        sum(part.warming_up for part in parts),
        tuple(map(sum, zip_longest(*(part.warming for part in parts), fillvalue=0))),
    )


def _mean(values: list[tuple[float, int]]) -> float:
    known = [(value, weight) for value, weight in values if math.isfinite(value) and weight > 0]
    weights = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / weights if weights else float("nan")
