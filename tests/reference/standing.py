"""The detectors with a reference that stands still, with all rows of it kept and everything taken from them at once."""

import numpy as np

from algorithms.common.protocol import Array

CLIP, CLIP_FROM, ROOM = 6.0, 30, 128


def cut(rows: list[Array]) -> Array:
    """Rows of a reference, from the 31st on cut at CLIP deviations of those before."""
    kept: list[Array] = []
    for x in rows:
        if len(kept) >= CLIP_FROM:
            middle, far = np.mean(kept, axis=0), CLIP * np.std(kept, axis=0)
            far = np.where(far > 0, far, np.inf)
            x = np.clip(x, middle - far, middle + far)
        kept.append(x)
    return np.array(kept)


def averages(rows: Array, smoothing: float, first: int = 0) -> Array:
    """Moving averages, that begin as means."""
    found, now = [], np.zeros(rows.shape[1:])
    for n, x in enumerate(rows):
        now = now + max(smoothing, 1 / (n + 1)) * (x - now) if n >= first else now
        found.append(now)
    return np.array(found)


def places(rows: int, smoothing: float) -> tuple[Array, float]:
    """Which rows' averages are kept, and how many rows each stands for."""
    step = 1
    while True:
        of = np.array([n for n in range(1, rows + 1) if n % step == 0 and n > np.ceil(2 / smoothing)])
        if len(of) <= ROOM:
            return of - 1, min(step, 1 / smoothing)
        step *= 2


def limit(values: Array, each: float, memory: float, rows_between: float, most: int) -> tuple[float, int]:
    """By the law of exceedances of blocks' largest values; and how many blocks there were, 0 if they do not tell."""
    length = 1
    while len(values) // (2 * length) >= 32 or (length * each < memory and 2 * length <= len(values)):
        length *= 2
    while True:
        blocks = max(len(values) // length, 1)
        largest = np.array([block.max() for block in np.split(values[len(values) - blocks * length :], blocks)])
        off = largest - largest.mean()
        correlation = (off[1:] @ off[:-1]) / (off @ off) if off @ off > 0 else 0.0
        bound = 0.15 + 1 / np.sqrt(blocks)
        if correlation <= bound or blocks < 12:
            break
        length *= 2
    known = blocks if blocks >= 12 and correlation <= bound else 0
    level = float(np.median(largest))
    excess = largest[largest > level] - level
    if not len(excess):
        return level, known
    n = min(len(excess), most)
    return level + excess.mean() * n * (max(rows_between / 2 / (length * each), 1.0) ** (1 / n) - 1), known


def memory(kept: Array, spread: float, rows: int) -> float:
    parts = [kept[b * len(kept) // 8 : (b + 1) * len(kept) // 8].mean() for b in range(8)]
    return max(1.0, float(np.var(parts, ddof=1)) / spread**2 * rows / 8)


def widened(independent: float, columns: int) -> float:
    return (independent + 1) / max(independent - columns - 2, independent / 4)


def _row(statistic: float, is_open: bool, ends: float) -> tuple[bool, bool, float]:
    """alarm, is it open now, what is told."""
    alarm = not is_open and statistic >= 1
    stays = alarm or (is_open and statistic >= ends)
    return alarm, stays, 0.0 if is_open and not stays else statistic


def reference_level(values: Array, *, rows: int, rows_between: float, smoothing: float, ends: float) -> Array:
    """(n, 9): statistic, alarm, before, after, since, open, ready, p-value, rows."""
    learned = cut(list(values[:rows]))
    mean, spread = learned.mean(), learned.std()
    at, each = places(rows, smoothing)
    series = averages(learned, smoothing)[at].astype(np.float32).astype(float)
    most, known = limit((series - mean) / spread, each, 1 / smoothing, rows_between, 5)
    independent = rows / memory(series, spread, rows)
    most = max(most * np.sqrt(widened(independent, 1)), 0.1)
    promised = known > 0 and independent >= 4 and most <= 4
    most = min(most, 4.0)
    told, now = [(0, 0, np.nan, np.nan, np.nan, 0, 0, 1, np.nan)] * rows, averages(learned, smoothing)[-1]
    is_open, since, back = False, 0, 0
    for x in values[rows:]:
        now = now + smoothing * (np.clip(x, mean - CLIP * spread, mean + CLIP * spread) - now)
        statistic = max(0.0, (now - mean) / spread / most)
        back = back + 1 if is_open and statistic < ends else 0
        alarm, was_open = not is_open and statistic >= 1, is_open
        is_open = alarm or (is_open and back < 5 / smoothing)
        said = 0.0 if was_open and not is_open else statistic
        since = since + 1 if statistic > 0.25 else 0
        more = (mean, mean + (now - mean) / (1 - (1 - smoothing) ** since), since) if alarm else (np.nan, np.nan, np.nan)
        told.append((said, alarm, *more, is_open, 1, 1, (rows if promised else -rows) if alarm else np.nan))
        since = 0 if is_open else since
    return np.array(told, float)


def _length(rows: Array, correlation: Array, shrink: float) -> Array:
    """Squared lengths of whitened rows (n, dim)."""
    factor = np.linalg.cholesky((1 - shrink) * correlation + shrink * np.eye(len(correlation)))
    white = np.linalg.solve(factor, rows.T).T
    return np.asarray((white * white).sum(axis=1))


def reference_chart(X: Array, *, rows: int, rows_between: float, smoothing: float, shrink: float, ends: float) -> Array:
    """(n, 22): those nine, the chart; column, shift, mean and deviation before of up to three columns."""
    learned, told = cut(list(X[:rows])), np.full((len(X), 22), np.nan)
    told[:rows, :8] = 0, 0, np.nan, np.nan, np.nan, 0, 0, 1
    mean, spread = learned.mean(axis=0), learned.std(axis=0)
    whiteners = [n for n in range(CLIP_FROM, rows + 1) if n == CLIP_FROM]
    while True:
        later = int(np.ceil(1.5 * whiteners[-1]))
        if later > rows:
            break
        whiteners.append(later)
    lengths = []
    for n in range(CLIP_FROM, rows):  # each by the rows before it, whitened by those of an earlier time
        of = learned[: max(w for w in whiteners if w <= n)]
        scaled = np.clip((X[n] - learned[:n].mean(axis=0)) / learned[:n].std(axis=0), -CLIP, CLIP)
        lengths.append(np.sqrt(_length(scaled[None], np.atleast_2d(np.corrcoef(of.T)), shrink)[0]))
    at, each = places(rows, smoothing)
    smooth = averages(learned, smoothing)
    of_rows = np.r_[np.zeros(CLIP_FROM), averages(np.array(lengths), smoothing)]
    kept, kept_rows = smooth[at].astype(np.float32).astype(float), of_rows[at].astype(np.float32).astype(float)
    quarters = [kept[q * len(at) // 4 : (q + 1) * len(at) // 4].mean(axis=0) for q in range(4)]
    wander = np.var(quarters, axis=0) / spread**2
    used = wander <= max(0.2, float(wander.min()))
    correlation = np.atleast_2d(np.corrcoef(learned.T))
    of_used = np.atleast_2d(correlation[np.ix_(used, used)])
    columns = int(used.sum())
    independent = rows * columns / sum(memory(kept[:, i], spread[i], rows) for i in np.flatnonzero(used))
    charts = 2 if used.all() else 1
    series = [_length(((kept - mean) / spread)[:, used], of_used, shrink), kept_rows[len(at) // 2 :]][:charts]
    heavy = (3 if columns >= 16 else 6, 4)
    limits = [limit(one, each, 1 / smoothing, charts * rows_between, most) for one, most in zip(series, heavy, strict=False)]
    wanted = [limits[0][0] * widened(independent, columns), *(value for value, _ in limits[1:])]
    usual = [one.mean() for one in series]
    most = [max(0.1, min(one, far)) for one, far in zip(wanted, (usual[0] + 25, 3 * usual[-1]), strict=False)]
    now, length, is_open, since = smooth[-1], of_rows[-1], False, [0, 0]
    for n in range(rows, len(X)):
        scaled = np.clip((X[n] - mean) / spread, -CLIP, CLIP)
        now = now + smoothing * (mean + scaled * spread - now)
        length += smoothing * (np.sqrt(_length(scaled[None], correlation, shrink)[0]) - length)
        values = [_length(((now - mean) / spread)[None, used], of_used, shrink)[0], length][:charts]
        ratios = [value / one for value, one in zip(values, most, strict=True)]
        furthest, statistic = int(np.argmax(ratios)), max(ratios)
        since = [since[k] + 1 if value > max(usual[k], most[k] / 4) else 0 for k, value in enumerate(values)]
        alarm, is_open, said = _row(statistic, is_open, ends)
        told[n, [0, 1, 5, 6, 7]] = said, alarm, is_open, 1, 1
        if alarm:
            promised = limits[furthest][1] > 0 and independent >= 4 * columns and wanted[furthest] <= most[furthest]
            told[n, [2, 3, 4, 8, 9]] = (
                usual[furthest],
                values[furthest],
                since[furthest],
                rows if promised else -rows,
                1 + furthest,
            )
            shifts = (now - mean) / spread
            order = np.argsort(-np.abs(shifts), kind="stable")[:3]
            for place, i in enumerate(i for i in order if abs(shifts[i]) >= 0.92 * abs(shifts[order[0]])):
                grown = 1 - (1 - smoothing) ** since[furthest]
                told[n, 10 + 4 * place : 14 + 4 * place] = i, shifts[i] / grown, mean[i], spread[i]
    return told
