"""What was not foreseen: each column's error of a forecast of one row, in deviations of its latest errors.

Source: ours; the forecast is `common/lagged_rls.py`'s, of the column alone.
Symbols: s = scale, the mean of |error| over about `memory` rows; z = error / (1.2533 s), of deviation 1 where it is normal.
Cost of a row: O(d lags^2).  State: 189 d + 1 numbers.
Readings: features are z of every column, then its forecast. They are NaN until WARM rows have taught the forecast.
The first row after a pause (AFTER_PAUSE) has no z; the next ones are forecast from its level, as after a jump (WILD).
z is 0 after STAND repeats of a value, and of an error below LEAST deviations of the column, which 1.2533 s does not fall
below. Its size is at most FIRST where a column had no error before.
If a few values of a column's first rows were wild, as the latest rows show after 60 and 90, it starts over with these.
Without `repeats`, STAND repeats of a value teach no scale: of rare counts, s would fall to 0 between two of them.
Where a cycle has no noise, errors are the same in each: ranks would see each change of their last digits.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common import lagged_rls
from algorithms.common.compiled import compiled
from algorithms.common.lagged_rls import DELTA, LAGS, SIZE
from algorithms.common.linalg import NO_SPREAD, NO_SPREAD_RELATIVE, missing
from algorithms.common.protocol import AFTER_PAUSE, Array, Basis, Learner, Outputs
from algorithms.common.workspace import packed

WARM = 2 * LAGS  # rows before the first z
NORMAL = 1.2533141373155003  # deviation of a normal value over its mean size
CUT, CUT_FROM = 8.0, 30  # means of |error| at which one is cut, and errors before that
FARTHEST, MOST = 1e70, 1e6  # largest |x| and |z|
FIRST = 20.0  # largest |z| of a column that had no error before
LEAST = 1e-3  # of a column's deviation: smaller errors are rounding, or what is left to learn of a cycle
STEPS = 16.0  # of a deviation, that z is rounded to: a forecast goes on learning a cycle, which changes nothing
WILD = 20.0  # |z| beyond which a jump teaches nothing, and the next rows are forecast from its level
STAND = 4  # repeats of a value, after which a column says nothing: its forecast only wanders then


class InnovationsState(NamedTuple):
    lags: Array  # (dim, LAGS) newest first
    level: Array  # (dim, 2) mean and variance
    taps: Array  # (dim, SIZE, 1) weights of each column's forecast
    P: Array  # (dim, TRIANGLE)
    scale: Array  # (dim,) mean |error|
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class Innovations(Learner):
    """Features: the error of each column's forecast in running deviations, then each forecast.

    >>> learner, rows = Innovations(), np.sin(np.arange(600.0))[:, None]
    >>> rows[500] += 1.0
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), rows)
    >>> np.nanargmax(np.abs(out.features[:, 0])).item(), (rows - out.features[:, 1:])[500].round(2)
    (500, array([1.]))
    """

    foresees: ClassVar[bool] = True

    memory: Annotated[int, "1 or more"] = 100  # rows of the scale of errors
    repeats: bool = True  # rows at which a column stands teach the scale

    def width_for(self, dim: int) -> int:
        return 2 * dim

    def init(self, *, dim: int, targets: int, seed: int) -> InnovationsState:
        P = np.tile(packed(DELTA * np.eye(SIZE)), (dim, 1))
        start = np.zeros((dim, LAGS)), np.zeros((dim, 2)), np.zeros((dim, SIZE, 1))
        return InnovationsState(*start, P, np.zeros(dim), 0)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        _loop(tuple(work), slots, X, learn, out.features, float(self.memory), self.repeats)


@compiled
def _loop(work, slots, X, learn, features, memory, repeats):
    all_lags, all_level, all_weights, all_P, all_scale, seen, _ = work
    z, room = np.empty(SIZE), np.empty((SIZE + 4, SIZE))
    dim = X.shape[1]
    for n in range(len(X)):
        key, x = slots[n], X[n]
        if missing(x):
            continue
        rows, learns = seen[key], learn[n] & 1
        for i in range(dim):
            lags, level, weights, P = all_lags[key, i], all_level[key, i], all_weights[key, i], all_P[key, i]
            value, scale = min(max(x[i], -FARTHEST), FARTHEST), all_scale[key, i]
            expected = lagged_rls.forecast(lags, level, weights, z)
            if learn[n] & AFTER_PAUSE and rows >= LAGS:
                if rows >= WARM:
                    features[n, dim + i] = expected
                if learns:
                    _go_on(value, expected, lags)
                continue
            error, stands, wild = value - expected, rows >= LAGS and _stands(value, lags), False
            if rows >= WARM:
                least = max(LEAST * np.sqrt(level[lagged_rls.VARIANCE]), NO_SPREAD_RELATIVE * abs(level[lagged_rls.MEAN]))
                unit = max(NORMAL * scale, least, NO_SPREAD)
                wild = scale > 0.0 and abs(error) > WILD * unit
                most = MOST if scale > 0.0 else FIRST
                within = min(max(error / unit, -most), most)
                features[n, i] = 0.0 if stands or abs(error) < least else np.round(within * STEPS) / STEPS
                features[n, dim + i] = expected
            if learns:
                if wild:
                    _go_on(value, expected, lags)
                else:
                    lagged_rls.learn(value, rows + 1, lags, level, weights, P, z, room)
                    looks = rows + 1 == lagged_rls.EARLY or rows + 1 == lagged_rls.LATER
                    if looks and _leave_out_wild(rows + 1, lags, level, weights, P):
                        scale = all_scale[key, i] = np.sqrt(level[lagged_rls.VARIANCE]) / NORMAL
                if rows >= LAGS and (repeats or not stands):
                    errors, size = rows - LAGS + 1, abs(error)
                    if errors > CUT_FROM and scale > 0.0:
                        size = min(size, CUT * scale)
                    all_scale[key, i] += max(1.0 / errors, 1.0 / memory) * (size - scale)
        if learns:
            seen[key] += 1


@compiled
def _go_on(value, expected, lags):
    """From here: the lags as they would have led to this value."""
    for i in range(LAGS - 1, 0, -1):
        lags[i] = lags[i - 1] + value - expected
    lags[0] = value


@compiled
def _leave_out_wild(rows, lags, level, weights, P):
    """Start over with the latest rows if a few of the first ones were wild, as in `charts`; whether they were."""
    if not lagged_rls.leave_out_wild(lags, level, rows, True):
        return False
    at = 0
    for i in range(SIZE):
        weights[i, 0] = 0.0
        for j in range(i + 1):
            P[at] = DELTA if i == j else 0.0
            at += 1
    return True


@compiled
def _stands(value, lags):
    """Whether the column repeats one value, as rare counts do."""
    for lag in lags[:STAND]:
        if lag != value:
            return False
    return True
