"""The loops of `streamjobs.stages.sensors`; they index whole arrays, which compiles in a third of the time views take."""

from typing import NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.protocol import Array

SAME = 1e-6  # seconds; a sample this near to the time of a row is at it: doubles are 2.4e-7 s apart there


class Work(NamedTuple):
    """Arrays of a workspace by name, each with a leading slot axis."""

    times: Array
    sensor: Array
    X: Array
    L: Array
    last_times: Array
    last_X: Array
    last_L: Array
    newest: Array
    lacking: Array
    row: Array
    made: Array
    counts: Array
    held: Array


@compiled
def advance(work, samples, begin, entered, out, first, grid, which, verdict, counted):
    """Gives the sample it paused at (their number: all are done), rows made, and whether that sample has entered."""
    slots, times, _, _, owner = samples
    rate, wait, lateness = grid
    newest = Work(*work).newest
    sensors = newest.shape[1]
    k = np.int64(0)  # of a literal `_rows` would be compiled for it, and then once more
    # `first` says where a slot's waiting samples begin while the batch runs; at its end they move to the front.
    for n in range(begin, times.size):
        key = slots[n]
        if not entered:
            verdict[n] = _enter(work, samples, n, first, grid, which, counted)
        entered = False
        lowest, highest = np.inf, -np.inf
        for s in range(sensors):
            lowest, highest = min(lowest, newest[key, s]), max(highest, newest[key, s])
        until = max(lowest - lateness, highest - lateness - wait)
        k, paused = _rows(work, key, owner[n], until, first, rate, which, out, k, counted)
        if paused:
            return n, k, True
    for n in range(times.size):
        _to_the_front(work, slots[n], first)
    return times.size, k, False


@compiled
def _enter(work, samples, n, first, grid, which, counted):
    """A sample among those that wait; gives the verdict on it."""
    held_times, held_sensor, held_X, held_L, last_times, last_X, last_L, newest, _, rows, made, counts, held = work
    slots, times, X, L, _ = samples
    sensor_of, starts, widths, _, _, most = which
    skipped, came, _ = counted
    key, time, column = slots[n], times[n], 0
    near = np.round(time * grid[0]) / grid[0]
    if abs(time - near) <= SAME:
        time = near
    while column < X.shape[1] - 1 and np.isnan(X[n, column]):
        column += 1
    s = sensor_of[column]
    came[s] += 1
    newest[key, s] = max(newest[key, s], time)
    if time == last_times[key, s]:
        skipped[1] += 1
        return 1
    if rows[key] > 0 and time <= (rows[key] - 1) / grid[0]:
        if time < last_times[key, s]:
            skipped[0] += 1
            return 0
        skipped[3] += _unpaired(last_times[key, s], time, made[key], grid[0])
        last_times[key, s] = time
        for j in range(widths[s]):
            last_X[key, starts[s] + j] = X[n, starts[s] + j]
        for j in range(L.shape[1]):
            last_L[key, s, j] = L[n, j]
        return -1
    begin, end = first[key], first[key] + counts[key, 0]
    at = end
    while at > begin and held_times[key, at - 1] > time:
        at -= 1
    same = at - 1
    while same >= begin and held_times[key, same] == time:
        if held_sensor[key, same] == s:
            skipped[1] += 1
            return 1
        same -= 1
    if held[key, s] == most[s]:
        skipped[2] += 1
        return 2
    if end == held_times.shape[1]:
        _to_the_front(work, key, first)
        at, begin, end = at - begin, 0, end - begin
    for i in range(end, at, -1):
        _move(work, key, i - 1, i)
    held_times[key, at], held_sensor[key, at] = time, s
    for j in range(held_X.shape[2]):
        held_X[key, at, j] = X[n, starts[s] + j] if j < widths[s] else 0.0
    for j in range(L.shape[1]):
        held_L[key, at, j] = L[n, j]
    held[key, s] += 1
    for field in range(counts.shape[1]):
        counts[key, field] += 1
    return -1


@compiled
def _rows(work, key, owner, until, first, rate, which, out, k, counted):
    """Makes the key's rows up to the time `until`, or leaves them out; gives how many are there, and whether it paused."""
    held_times, _, held_X, _, last_times, last_X, last_L, _, lacking, rows, made, _, _ = work
    _, starts, widths, holds, gaps, _ = which
    out_slots, out_times, out_X, out_L, out_owner = out
    sensors = last_times.shape[1]
    while True:
        time = rows[key] / rate
        if not time <= until:
            return k, False
        if k == out_times.size:
            return k, True
        _release(work, key, time, first, rate, which, counted)
        began = False
        for s in range(sensors):
            began |= last_times[key, s] >= 0.0
        whole, change = True, np.inf  # where a sensor lacks samples, nothing changes until then
        for s in range(sensors):
            before, after = last_times[key, s], _next(work, key, s, first)
            at = held_times[key, after] if after >= 0 else np.inf
            if holds[s]:
                good = time - before <= gaps[s]
                change = min(change, at, before + gaps[s] if good else np.inf)
            else:
                good = before == time or at - before <= gaps[s]
                change = min(change, at if at - before <= gaps[s] or not good else time)
            if good:
                lacking[key, s] = 0
                continue
            whole = False
            if lacking[key, s] == 0 and began and (before >= 0.0 or at - time > gaps[s]):
                lacking[key, s] = 1
                counted[2][s] += 1
        if not whole:
            rows[key] = max(rows[key] + 1, _row_from(min(change, until), rate, change > until))
            _release(work, key, (rows[key] - 1) / rate, first, rate, which, counted)
            continue
        out_slots[k], out_times[k], out_owner[k] = key, time, owner
        for j in range(out_L.shape[1]):
            out_L[k, j] = np.nan
        for s in range(sensors - 1, -1, -1):
            for j in range(widths[s]):
                out_X[k, starts[s] + j] = last_X[key, starts[s] + j]
            if not holds[s] and last_times[key, s] < time:
                after = _next(work, key, s, first)
                before = last_times[key, s]
                share = (time - before) / (held_times[key, after] - before)
                for j in range(widths[s]):
                    from_ = last_X[key, starts[s] + j]
                    out_X[k, starts[s] + j] = from_ + share * (held_X[key, after, j] - from_)
            if not np.isnan(last_L[key, s, 0]):
                for j in range(out_L.shape[1]):
                    out_L[k, j] = last_L[key, s, j]
        k += 1
        made[key] = time
        rows[key] += 1


@compiled
def _row_from(time, rate, beyond):
    """Number of the first row at a time or after it; beyond: after it."""
    row = np.int64(np.ceil(time * rate))
    while row > 0 and ((row - 1) / rate > time or (not beyond and (row - 1) / rate == time)):
        row -= 1
    while row / rate < time or (beyond and row / rate == time):
        row += 1
    return row


@compiled
def _next(work, key, s, first):
    """The place of the first sample of a sensor that waits, -1 without one."""
    at = Work(*work)
    held_sensor, counts, held = at.sensor, at.counts, at.held
    if held[key, s] == 0:
        return -1
    for i in range(first[key], first[key] + counts[key, 0]):
        if held_sensor[key, i] == s:
            return i
    return -1


@compiled
def _release(work, key, time, first, rate, which, counted):
    """Samples up to a time stop waiting: each sensor's newest of them is its last one."""
    held_times, held_sensor, held_X, held_L, last_times, last_X, last_L, _, _, _, made, counts, held = work
    _, starts, widths, _, _, _ = which
    while counts[key, 0] > 0 and held_times[key, first[key]] <= time:
        i = first[key]
        s = held_sensor[key, i]
        counted[0][3] += _unpaired(last_times[key, s], held_times[key, i], made[key], rate)
        last_times[key, s] = held_times[key, i]
        for j in range(widths[s]):
            last_X[key, starts[s] + j] = held_X[key, i, j]
        for j in range(held_L.shape[2]):
            last_L[key, s, j] = held_L[key, i, j]
        first[key] += 1
        held[key, s] -= 1
        for field in range(counts.shape[1]):
            counts[key, field] -= 1
    if counts[key, 0] == 0:
        first[key] = 0


@compiled
def _unpaired(time, following, made, rate):
    """1 for a sample between which and the following one of its sensor there are rows, none of which was made; else 0."""
    if not (time >= 0.0 and made < time):
        return 0
    return 1 if _row_from(time, rate, False) / rate < following else 0


@compiled
def _to_the_front(work, key, first):
    counts = Work(*work).counts
    if first[key] > 0:
        for i in range(counts[key, 0]):
            _move(work, key, first[key] + i, i)
        first[key] = 0


@compiled
def _move(work, key, source, target):
    """A waiting sample to another place."""
    at = Work(*work)
    times, sensor, X, L = at.times, at.sensor, at.X, at.L
    times[key, target], sensor[key, target] = times[key, source], sensor[key, source]
    for j in range(X.shape[2]):
        X[key, target, j] = X[key, source, j]
    for j in range(L.shape[2]):
        L[key, target, j] = L[key, source, j]
