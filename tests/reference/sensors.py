"""Rows of several sensors by their definition, for one key: row after row, looked at as soon as it may be made."""

import itertools
import math
from typing import NamedTuple

import numpy as np


class Sensor(NamedTuple):
    width: int
    rate: float
    between: str
    gap: float


class Row(NamedTuple):
    time: float
    x: list[float]
    label: float
    owner: int


def sensors(samples, of, *, rate, wait, lateness, most):
    """samples: (sensor, time, numbers, label) in arrival order; of: the sensors; most: samples of each that may wait.

    Gives the rows, the counts of what is left out, and how many gaps of each sensor began.
    """
    taken = [{} for _ in of]  # time -> (numbers, label), by sensor
    newest = [-math.inf] * len(of)
    skipped = dict.fromkeys(("late", "duplicate", "crowded", "unpaired"), 0)
    lacking, gaps = [False] * len(of), [0] * len(of)
    rows, left_out, came_late = [], [], {}  # (sensor, time) -> time of the newest row when the sample came
    first = min(time for _, time, _, _ in samples)
    row = math.floor((first - wait - lateness) * rate) - 2
    for owner, (s, time, numbers, label) in enumerate(samples):
        near = round(time * rate) / rate
        time = near if abs(time - near) <= 1e-6 else time
        done = (row - 1) / rate
        newest[s] = max(newest[s], time)
        past = [one for one in taken[s] if one <= done]
        if time in taken[s] and (time > done or time == max(past)):
            skipped["duplicate"] += 1
        elif time <= done and past and time < max(past):
            skipped["late"] += 1
        elif time > done and len(taken[s]) - len(past) == most[s]:
            skipped["crowded"] += 1
        else:
            taken[s][time] = (numbers, label)
            if time <= done:
                came_late[s, time] = rows[-1].time if rows else -math.inf
        until = max(min(newest) - lateness, max(newest) - lateness - wait)
        while row / rate <= until:
            at = row / rate
            row += 1
            began = any(min(have, default=math.inf) <= at for have in taken)
            x, known, whole = [], math.nan, True
            for j, (one, have) in enumerate(zip(of, taken, strict=True)):
                before = max((time for time in have if time <= at), default=-math.inf)
                after = min((time for time in have if time > at), default=math.inf)
                if one.between == "hold":
                    good = at - before <= one.gap
                else:
                    good = before == at or after - before <= one.gap
                if not good:
                    whole = False
                    if not lacking[j] and began and (math.isfinite(before) or after - at > one.gap):
                        lacking[j] = True
                        gaps[j] += 1
                    continue
                lacking[j] = False
                values = have[before][0]
                if one.between == "linear" and before < at:
                    share = (at - before) / (after - before)
                    values = [a + share * (b - a) for a, b in zip(values, have[after][0], strict=True)]
                x += values
                if math.isnan(known):
                    known = have[before][1]
            if whole:
                rows.append(Row(at, x, known, owner))
            else:
                left_out.append(at)
    done = (row - 1) / rate
    made = np.array([one.time for one in rows])
    for s, have in enumerate(taken):
        times = sorted(time for time in have if time <= done)
        for time, following in itertools.pairwise(times):
            between = [at for at in left_out if time <= at < following]
            used = ((made >= time) & (made < following)).any() or came_late.get((s, following), -math.inf) >= time
            skipped["unpaired"] += bool(between) and not used
    return rows, {reason: count for reason, count in skipped.items() if count}, gaps
