"""How good forecasts of a job's rows are on recordings: of a replay, and a table of ours, the experts and the last value."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from algorithms.common.protocol import Array
from algorithms.forecast.forecast import NAMES, Forecast
from algorithms.forecast.table import FIRST_INTERVAL, HIGH, LOW, VALUE
from streamjobs.core.job import Job
from streamjobs.core.messages import Record
from streamjobs.replay.engine import Replay, Tally
from streamjobs.stages.events.forecasts import BOUNDED, ERROR, FIRST_INSIDE, JUDGED, NAIVE_ERROR, Forecasts
from streamjobs.stages.rows import Rows

OURS = "weighted experts"
BLOCK = 50  # rows of a mean by which the standard error is estimated: errors of neighbours are alike
LEAST_BLOCKS = 5  # for a standard error
SURE = 2.0  # standard errors
REGULAR, NEAR = 0.95, 0.05  # least share of pauses that are a multiple of the usual one, and how near each is


class Line(NamedTuple):
    """One way to forecast, over all keys and fields; errors are over those of the last value on the same rows."""

    what: str
    ahead: int
    error: float | None  # every key and field in units of its own
    within: float | None  # two standard errors of it


class Worth(NamedTuple):
    lines: list[Line]  # by rows ahead: the job's own first, the weighted experts, and each of them
    covered: dict[tuple[int, float], float]  # rows ahead, coverage stated -> share of the values inside
    rows: int  # that were judged, one row ahead (or the fewest), over all keys and fields
    needed: dict[int, int | None]  # rows ahead -> rows after which ours is surely better, or worse, than the last value
    judged: dict[int, int]  # rows ahead -> forecasts
    pause: float | None  # seconds from row to row of a key, where nearly all pauses are a multiple of them
    counts: list[str]  # columns for [forecast] not_negative that are not there: never below 0, and often there


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening(Forecasts):
    """The stage as it is, which keeps what its learner gets."""

    persisted_name: ClassVar[str] = "ForecastsListening"  # never stored

    kept: list[tuple[int, Array, Array, Array, Array]] = field(default_factory=list, compare=False)

    def given(self, work: Any, rows: Rows) -> tuple[Array, Array]:
        X, skipped = Forecasts.given(self, work, rows)
        self.kept.append((id(work), rows.slots.copy(), X, skipped, rows.times.copy()))
        return X, skipped


def worth(job: Job, records: Iterable[Record], is_count: Callable[[Array], bool]) -> Worth:
    """The table of a job with [forecast]; every row is forecast before it is learned.

    is_count: of a column's numbers (n,), NaN where one is missing: whether they cannot be below 0.
    """
    stage = job.steps.forecasts
    assert stage is not None
    listening = Listening(**{one.name: getattr(stage, one.name) for one in fields(stage) if one.init})
    run = Replay(job.with_stages(forecasts=listening))
    run.run(records, lambda output: None, lambda tally: None)
    run.check_learned()
    keys = list(_by_key(listening))
    found = [_errors(stage, X, skipped) for X, skipped, _ in keys]
    counts, pause = _counts(job, stage, [X for X, *_ in keys], is_count), _pause([times for *_, times in keys])
    return _table(stage.learner, found)._replace(counts=counts, pause=pause)


def _pause(times: Iterable[Array]) -> float | None:
    pauses = np.concatenate([np.empty(0), *map(np.diff, times)])
    usual = float(np.median(pauses)) if len(pauses) else 0.0
    if usual <= 0.0:
        return None
    multiples = np.round(pauses / usual)
    regular = (multiples >= 1) & (np.abs(pauses / usual - multiples) < NEAR)
    return usual if regular.mean() >= REGULAR else None


def _counts(job: Job, stage: Forecasts, keys: Sequence[Array], is_count: Callable[[Array], bool]) -> list[str]:
    if not keys:
        return []
    X, names = np.concatenate(keys), job.composition.columns
    floored = cast(Any, stage.learner).floored
    return [names[n] for i, n in enumerate(stage.columns) if i not in floored and is_count(X[:, i])]


def _by_key(stage: Listening) -> Iterator[tuple[Array, Array, Array]]:
    """Each key's learned rows (n, columns), how many are missing before each, and their times."""
    if not stage.kept:
        return
    works = np.concatenate([np.full(len(slots), work) for work, slots, *_ in stage.kept])
    slots, X, skipped, times = (np.concatenate(parts) for parts in list(zip(*stage.kept, strict=True))[1:])
    taken = np.isfinite(X).all(axis=1)
    for work, slot in sorted(set(zip(works[taken].tolist(), slots[taken].tolist(), strict=True))):
        mine = taken & (works == work) & (slots == slot)
        yield X[mine], skipped[mine], times[mine]


class _Errors(NamedTuple):
    sizes: Array  # (judged rows, 10, or 11 with a learner) of one column and horizon, as the lines
    inside: Array  # (judged rows, coverages) NaN before the first interval


def _errors(stage: Forecasts, X: Array, skipped: Array) -> list[list[_Errors]]:
    """By column and horizon, for one key."""
    asked: Any = stage.learner
    dim, model = len(stage.columns), asked
    if asked.has_learners:
        model = Forecast(ahead=asked.ahead, season=asked.season, coverage=asked.coverage, floored=asked.floored)
    features, each = model.experts(model.init(dim=dim, targets=0, seed=0), X[:, :dim], skipped)
    table, clock = model.table(features, dim), np.cumsum(skipped + 1)
    other = replace(asked, cautious=not asked.cautious)
    if asked.has_learners:
        each = np.concatenate([table[:, :, :, VALUE, None], each], axis=3)
        table, others = (one.forecasts(one.init(dim=X.shape[1], targets=dim, seed=0), X, skipped) for one in (asked, other))
    else:
        others = other.table(other.experts(other.init(dim=dim, targets=0, seed=0), X[:, :dim], skipped)[0], dim)
    each = np.concatenate([others[:, :, :, VALUE, None], each], axis=3)
    found: list[list[_Errors]] = []
    for i in range(dim):
        found.append([])
        for k, ahead in enumerate(model.ahead):
            at = np.searchsorted(clock, clock + ahead)
            made = np.flatnonzero((at < len(clock)) & (clock[np.minimum(at, len(clock) - 1)] == clock + ahead))
            value, own = X[at[made], i], table[made, i, k]
            sizes = np.abs(np.column_stack([own[:, VALUE], each[made, i, k]]) - value[:, None])
            low, high = own[:, FIRST_INTERVAL + LOW :: 3], own[:, FIRST_INTERVAL + HIGH :: 3]
            inside = np.where(np.isnan(low), np.nan, (low <= value[:, None]) & (value[:, None] <= high))
            found[i].append(_Errors(sizes, inside))
    return found


def _table(model: Any, found: list[list[list[_Errors]]]) -> Worth:
    other = f"with cautious = {str(not model.cautious).lower()}"
    names = (model.learner.name, other, OURS, *NAMES) if model.has_learners else (OURS, other, *NAMES)
    naive, judged = names.index(NAMES[0]), dict[int, int]()
    lines = []
    covered: dict[tuple[int, float], float] = {}
    needed: dict[int, int | None] = {}
    for k, ahead in enumerate(model.ahead):
        series = [columns[k] for key in found for columns in key]
        judged[ahead] = sum(len(one.sizes) for one in series)
        for place, what in enumerate(names):
            error, within = _ratio(series, place, naive)
            lines.append(Line(what, ahead, error, within))
            if place == 0:
                needed[ahead] = None
                if error is not None and within is not None and error != 1.0:
                    needed[ahead] = int(np.ceil(judged[ahead] * (within / (1.0 - error)) ** 2))
        for c, stated in enumerate(model.coverage):
            hits = np.concatenate([np.empty(0), *(one.inside[:, c] for one in series)])
            hits = hits[np.isfinite(hits)]
            if len(hits):
                covered[ahead, stated] = float(hits.mean())
    return Worth(lines, covered, min(judged.values(), default=0), needed, judged, None, [])


def _ratio(series: list[_Errors], place: int, plain_place: int) -> tuple[float | None, float | None]:
    """Mean error over the last value's, every series in units of its own, and two standard errors of it."""
    own, plain = [], []
    for one in series:
        naive = one.sizes[:, plain_place].mean() if len(one.sizes) else 0.0
        if naive > 0.0:
            blocks = np.arange(0, len(one.sizes), BLOCK)
            own.append(np.add.reduceat(one.sizes[:, place], blocks) / naive)
            plain.append(np.add.reduceat(one.sizes[:, plain_place], blocks) / naive)
    if not own:
        return None, None
    a, b = np.concatenate(own), np.concatenate(plain)
    ratio = a.sum() / b.sum()
    spread = np.sqrt(((a - ratio * b) ** 2).sum()) / b.sum() if len(a) >= LEAST_BLOCKS else None
    return float(ratio), None if spread is None else float(SURE * spread)


def forecasts_judged(job: Job, tally: Tally) -> list[dict[str, Any]]:
    """Of all keys: rows that were judged, their error over the naive one's (None: that is 0), shares inside intervals."""
    stage = job.steps.forecasts
    assert stage is not None
    judged = []
    for name, figures in tally.forecasts.items():
        column, _, ahead = name.rpartition(" ")
        inside = [count / figures[BOUNDED] if figures[BOUNDED] else None for count in figures[FIRST_INSIDE:]]
        ratio = figures[ERROR] / figures[NAIVE_ERROR] if figures[NAIVE_ERROR] else None
        judged.append(
            {
                "column": column,
                "ahead": int(ahead),
                "rows": int(figures[JUDGED]),
                "error_over_naive": ratio,
                "inside": {f"{share:g}": one for share, one in zip(stage.learner.coverage, inside, strict=True)},
            }
        )
    return judged


def sentences(judged: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each column and number of rows ahead."""
    for one in judged:
        rows = "1 row" if one["ahead"] == 1 else f"{one['ahead']:,} rows"
        naive = "the last value has no error"
        if one["error_over_naive"] is not None:
            naive = f"error {one['error_over_naive']:.3f} of the last value's"
        inside = [f"{share:.1%} inside {float(name):.0%}" for name, share in one["inside"].items() if share is not None]
        yield f"forecasts of {one['column']} {rows} ahead: {one['rows']:,} judged, {', '.join([naive, *inside])}"
