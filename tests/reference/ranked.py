"""The detectors that keep a stated number of false alarms, with everything kept in lists and nothing carried along."""

from typing import Any

import numpy as np

from algorithms.common.protocol import Array
from algorithms.common.randomness import uniform

POWERS = np.array([0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
REACH = np.array([1, 2, 4, 5, 7, 9])
CERTAIN = 1.5


class Chart:
    """One watched statistic: its blocks, the reference, the evidence."""

    def __init__(self, number: int, size: int, least: int, of_errors: bool, of_logs: int = 0, seed: int = 0) -> None:
        self.number, self.size, self.least, self.of_errors = number, size, least, of_errors
        self.of_logs, self.seed = of_logs, seed  # columns of a chart with shares
        self.length, self.known = 1, False
        self.begin()

    def begin(self) -> None:
        self.reference: list[float] = []
        self.cut: list[float] = []  # all values, far ones cut: for the length of blocks
        self.forget()

    def forget(self) -> None:
        self.block: list[float] = []
        self.climb, self.since = 0.0, list[float]()
        self.scores = np.zeros(len(POWERS))

    @property
    def ready(self) -> bool:
        return self.known and len(self.reference) >= self.least

    def weigh(self, value: float, is_open: bool, seen: int) -> None:
        """p-value, scores and CUSUM as they would be after this value."""
        self.p, self.raised, self.climbed = 1.0, self.scores, self.climb
        if len(self.block) + 1 < self.length or not self.ready:
            return
        mean, reference = np.float32(np.mean([*self.block, value])), np.array(self.reference, np.float32)
        draw = uniform(self.seed, 1 + self.number, seen)
        above, equal = (reference > mean).sum(), (reference == mean).sum()
        self.p = max(1e-6, float((above + draw * (equal + 1)) / (len(reference) + 1))) if equal < len(reference) else 1.0
        bets = POWERS * self.p ** (POWERS - 1)
        self.raised = (1 + self.scores) * bets ** self.shares()
        self.climbed = max(0.0, self.climb + float(np.log(bets.mean())))
        if is_open:
            self.climbed = min(self.climbed, CERTAIN) if self.climb > 0 else 0.0

    def means(self, length: int) -> Array:
        blocks = len(self.cut) // length
        return np.array(self.cut[: blocks * length]).reshape(blocks, length).mean(axis=1)

    def shares(self) -> Array:
        """For each power, by how much more the mean of its blocks varies than one of independent blocks."""
        found, v = np.ones(len(POWERS)), 1.0
        if (self.of_errors or self.of_logs) and len(self.cut) // self.length:
            alone = np.var(self.means(self.length))
            for k in range(1, 10):
                length = self.length << k
                if length <= 512 and alone > 0 and len(self.cut) // length >= 32:
                    v = max(v, float(np.var(self.means(length)) / alone * 2**k))
                found[k == REACH] = 1 / (1 + (1.0 if self.of_logs else 0.5) * (v - 1))
        return found

    @property
    def evidence(self) -> float:
        return float(self.raised.mean() * self.length)

    def take(self, value: float, keep: bool) -> None:
        if keep:
            far = (3 if self.of_errors else 10) * np.std(self.cut) if len(self.cut) >= 32 else np.inf
            middle = np.mean(self.cut) if self.cut else 0.0
            looked_at = np.log1p(value / self.of_logs) if self.of_logs else value
            self.cut.append(float(np.clip(looked_at, middle - far, middle + far)))
        self.block.append(value)
        self.since.append(value)
        if len(self.block) < self.length:
            return
        if keep:
            self.reference = [*self.reference, float(np.mean(self.block))][-self.size :]
        self.block, self.scores, self.climb = [], self.raised, self.climbed
        if self.climb == 0:
            self.since = []

    def fell(self) -> bool:
        """At set times: the newest means are far below those before, by the rank sum of Mann and Whitney."""
        rows, means = len(self.cut), self.reference
        if rows < 2048 or rows % 256 or not self.known:
            return False
        if 4 * (np.array(means[-16:], np.float32) < np.mean(means)).sum() < 3 * 16:
            return False
        far = {n: self.lower(n) for n in range(16, len(means) - 15)}
        newest = max(far, key=far.__getitem__, default=0)
        if far.get(newest, 0.0) <= 8.0:
            return False
        self.begin()
        self.reference = means[-newest:]
        return True

    def lower(self, newest: int) -> float:
        """By how many deviations the ranks of so many means are below those of the means before."""
        means = np.array(self.reference, np.float32)
        old, new = means[:-newest], means[-newest:]
        above = (old[:, None] > new).mean() + 0.5 * (old[:, None] == new).mean() - 0.5
        return float(above * np.sqrt(12 * len(old) * len(new) / (len(means) + 1)))

    def look(self) -> None:
        """The length of blocks from which on neighbours are not correlated, at set times; for 16384 rows at most."""
        rows = len(self.cut)
        if rows != 128 and rows % 256:
            return
        length, without, looked = 1, 0, 1
        while rows // looked >= 32 and without < 2 and looked < 512:
            correlation = 2 * np.var(self.means(2 * looked)) / np.var(self.means(looked)) - 1
            looked, without = 2 * looked, without + 1
            if correlation > 0.15 + (3 if without > 1 else 1) / np.sqrt(rows // (looked // 2)):
                length, without = looked, 0
        certain = without > 0
        if length > self.length:
            reference = self.reference
            while self.length < length:
                pairs = reference[len(reference) % 2 :]
                reference = [(a + b) / 2 for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
                self.length *= 2
            self.reference = reference
            self.forget()
        elif certain and 4 * length <= self.length and rows >= 64 * self.length:
            self.length, self.reference = length, []
            self.forget()
        self.known = self.known or certain


class Charts:
    """Several charts with one stated number of rows between false alarms."""

    def __init__(
        self, charts: int, *, rows_between: float, reference: int, least: int, hold: int, of_logs: int = 0, seed: int = 0
    ) -> None:
        self.charts = [Chart(k, reference, least, charts == 1, of_logs, seed) for k in range(charts)]
        self.rows_between, self.hold = rows_between, hold
        self.opened = self.before = 0  # rows of the alarm that is open, and of those before

    def step(self, values: list[float], seen: int) -> tuple[tuple[float, ...], int, bool]:
        """The nine columns of a row, the strongest chart, and whether everything begins anew."""
        is_open = self.opened > 0
        for chart, value in zip(self.charts, values, strict=True):
            chart.weigh(value, is_open, seen)
        evidence = [chart.evidence for chart in self.charts]
        strongest, climbed = int(np.argmax(evidence)), max(chart.climbed for chart in self.charts)
        statistic = climbed / CERTAIN if is_open else float(np.mean(evidence)) / self.rows_between
        alarm = not is_open and statistic >= 1
        before = after = since = among = np.nan
        if alarm:
            best = self.charts[strongest]
            before, since = float(np.mean(best.reference)), len(best.since) + 1.0
            among = float(len(best.reference) * best.length)
            after = float(np.mean([*best.since, values[strongest]]))
        most = max(self.hold, 16 * max(chart.length for chart in self.charts))
        if alarm and len(self.charts[0].cut) >= 4 * most:
            self.before = 0
        still_open = alarm or (is_open and climbed > 0 and self.before + self.opened < most)
        ready = any(chart.ready for chart in self.charts)
        row = statistic, float(alarm), before, after, since, float(still_open), float(ready), self.charts[-1].p, among

        anew = (alarm and self.hold == 0) or (is_open and self.before + self.opened >= most)
        for k, (chart, value) in enumerate(zip(self.charts, values, strict=True)):
            chart.take(value, keep=not is_open and not alarm)
            if anew:
                chart.begin()
            elif alarm:
                chart.forget()
                chart.climb = CERTAIN if k == strongest else 0.0
                chart.cut = chart.cut if self.before else []
            elif is_open and not still_open:
                chart.forget()
            elif not is_open and not (chart.of_errors and chart.fell()):
                chart.look()
        if anew or (is_open and not still_open):
            self.opened, self.before = 0, 0 if anew else self.before + self.opened
        elif alarm or is_open:
            self.opened += 1
        return row, strongest, anew


def conformal(values: Array, **settings: float) -> Array:
    """(n, 9): statistic, alarm, before, after, since, open, ready, p-value, rows of the reference."""
    charts = Charts(1, **settings)  # type: ignore[arg-type]
    return np.array([charts.step([float(value)], n)[0] for n, value in enumerate(values)])


def column_chart(X: Array, *, learn: int, smoothing: float, shrink: float, shares: bool = False, **settings: float) -> Array:
    """(n, 22): those nine, the strongest chart; column, shift, mean and deviation before of up to three columns."""
    return _chart_of(X, 0, (0, 1, 2), learn, smoothing, shrink, shares, **settings)


def column_charts(X: Array, *, rows_between: float, **settings: Any) -> Array:
    """The chart of all columns, and one of each; an alarm of another chart than the open one's must be of a later change."""
    c, dim = 2 * rows_between, X.shape[1]
    scale = [settings.pop(name) for name in ("learn", "smoothing", "shrink")] + [settings.pop("shares", False)]
    parts = [_chart_of(X, 0, (0, 1, 2), *scale, rows_between=c, **settings)]
    for i in range(dim):
        one = _chart_of(X[:, [i]], i + 1, (0, 2), *scale, rows_between=c * dim, **settings)
        one[:, 10] += i
        parts.append(one)
    charts, rows, last = np.array(parts), np.full((len(X), 22), np.nan), -1
    for n in range(len(X)):
        now, was_open = charts[:, n], charts[:, n - 1, 5] == 1 if n else np.zeros(dim + 1, bool)
        named = (np.arange(dim + 1) == 0) | np.isfinite(now[:, 10])
        later = (now[:, 1] == 1) & named & (n - now[:, 4] - last >= 30 if was_open.any() else True)
        rows[n, :9] = 0, later.any(), np.nan, np.nan, np.nan, now[:, 5].max(), now[:, 6].max(), now[0, 7], np.nan
        if later.any():
            teller = int(np.argmax(np.where(later, now[:, 0], -1)))
            rows[n, [0, 2, 3, 4, 7, 8]], rows[n, 9:] = now[teller, [0, 2, 3, 4, 7, 8]], now[teller, 9:]
            last = n
        else:
            rows[n, 0] = now[was_open, 0].max() if was_open.any() else now[:, 0].max()
    return rows


def _chart_of(X, seed, lengths_of, learn, smoothing, shrink, shares, **settings):  # type: ignore[no-untyped-def]
    of_logs = X.shape[1] if shares else 0
    charts, rows = Charts(len(lengths_of), of_logs=of_logs, seed=seed, **settings), np.full((len(X), 22), np.nan)
    learned, meanwhile, more = list[Array](), list[Array](), 0.0
    smooth, moved, is_open = np.zeros(X.shape[1]), [np.zeros(X.shape[1] + 1) for _ in lengths_of], False
    for n, x in enumerate(X):
        if len(learned) < learn:
            rows[n, :8] = 0, 0, np.nan, np.nan, np.nan, 0, 0, 1
            learned.append(near(x, learned))
            learned = without_wild(learned, X[: n + 1])
            continue
        usual, spread, correlation = scale_of(learned, more)
        scaled = np.clip((x - usual) / spread, -8, 8)
        factor = np.linalg.cholesky((1 - shrink) * correlation + shrink * np.eye(len(x)))
        smooth = smooth + smoothing * (scaled - smooth)
        of_rows = smooth, np.linalg.solve(factor, smooth), np.linalg.solve(factor, scaled)
        lengths = [float(of_rows[k] @ of_rows[k]) for k in lengths_of]
        if len(lengths) == 2 and abs(smooth[0]) <= 0.1:
            lengths[0] = 0.0
        blocks = [len(chart.block) + 1 >= chart.length for chart in charts.charts]
        rows[n, :9], strongest, anew = charts.step(lengths, n)
        if rows[n, 1]:
            sums = moved[strongest] + [*scaled, 1.0]
            shifts = sums[:-1] / sums[-1]
            order = np.argsort(-np.abs(shifts), kind="stable")[:3]
            named = [i for i in order if abs(shifts[i]) >= 0.84 * abs(shifts[order[0]])]
            rows[n, 9] = lengths_of[strongest]
            for place, column in enumerate(named):
                rows[n, 10 + 4 * place : 14 + 4 * place] = column, shifts[column], usual[column], spread[column]
        for k, ended in enumerate(blocks):
            moved[k] = (moved[k] + [*scaled, 1.0]) * (0.7 if ended else 1.0)
        alarm, stays = rows[n, 1] == 1, rows[n, 5] == 1 and not anew
        meanwhile = [] if alarm else [*meanwhile, x]
        if anew:
            learned, more = next_scale(meanwhile[-learn:], correlation) if len(meanwhile) >= learn else ([], 0.0)
            smooth = np.zeros(len(x))
        if alarm or (is_open and not stays):
            moved = [np.zeros(len(x) + 1) for _ in lengths_of]
        is_open = stays
    return rows


def near(x: Array, learned: list[Array]) -> Array:
    """The row as it enters a scale."""
    if len(learned) < 30:
        return x
    middle, far = np.mean(learned, axis=0), 8 * np.std(learned, axis=0)
    return np.clip(x, middle - far, middle + far)


def without_wild(learned: list[Array], rows: Array) -> list[Array]:
    """The first rows of a scale, without a few wild values of a column, if the newest 30 of `rows` show them."""
    if len(learned) not in (60, 90, 120):
        return learned
    scale, newest = np.array(learned), rows[-30:]
    off, square, part = scale.mean(axis=0) - newest.mean(axis=0), scale.var(axis=0), newest.var(axis=0)
    wild = (part > 0) & (square > 64 * part) & (off**2 * len(scale) <= 3.5 * square)
    return list(np.where(wild, np.tile(newest, (len(scale) // 30, 1)), scale))


def scale_of(learned: list[Array], more: float | Array) -> tuple[Array, Array, Array]:
    """Mean, deviations and correlation; more: what is added to the sums of products."""
    products = np.atleast_2d(np.cov(np.array(learned).T, bias=True)) + more / len(learned)
    spread = np.sqrt(np.diag(products))
    return np.mean(learned, axis=0), spread, products / np.outer(spread, spread)


def next_scale(rows: list[Array], correlation: Array) -> tuple[list[Array], float | Array]:
    """The rows of the next scale; with them the correlation stays, where it may."""
    learned = list[Array]()
    for x in rows:
        learned.append(near(x, learned))
    _, spread, now = scale_of(learned, 0.0)
    if any(abs(now[i - 1, i] - correlation[i - 1, i]) > 0.3 for i in range(len(now))):
        return [], 0.0
    return learned, (correlation - now) * np.outer(spread, spread) * len(learned)
