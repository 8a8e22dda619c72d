"""The likelihood ratio of a change of mean, with all rows since the last alarm kept and nothing carried along."""

import numpy as np

from algorithms.common.protocol import Array


def glr_chart(X: Array, *, limit: float, newest: int, smoothing: float, hold: int, tested: int) -> Array:
    """The detector's outputs (n, 22) of rows X (n, dim), all of them finite."""
    told, squares, entered, opened = np.full((len(X), 22), np.nan), np.zeros(X.shape[1]), 0, 0
    first: list[Array] = []  # rows of the first mean, all of them the same weight
    behind: list[Array] = []  # rows since then
    tests = tested or X.shape[1]
    for n, x in enumerate(np.asarray(X, np.float32).astype(float)):
        ready = bool(first) and (tested > 0 or entered >= 10)
        best, statistic, apart = 0, 0.0, 0.0
        for k in range(min(newest + 1, len(behind) + 1), 0, -1) if ready else ():
            rows = [*behind, x]
            before, after = rows[: len(rows) - k], np.mean(rows[len(rows) - k :], axis=0)
            mean, worth = _mean(first, before, smoothing)
            unit = np.ones(tests)
            if not tested:
                unit = _deviation(squares, _mean(first, behind[: max(0, len(behind) - newest)], smoothing)[0])
            square = float((((after - mean)[:tests] / unit) ** 2).mean())
            if k * worth / (k + worth) * square > statistic:
                best, statistic, apart = k, k * worth / (k + worth) * square, np.sqrt(square)
        is_open = opened > 0
        alarm = not is_open and statistic >= limit
        stays = (alarm and hold > 0) or (is_open and opened < hold)
        told[n, :9] = [statistic / limit, alarm, 0.0 if alarm else np.nan, np.nan, np.nan, stays, ready, 1.0, np.nan]
        if alarm:
            rows = [*behind, x]
            after = np.mean(rows[len(rows) - best :], axis=0)
            mean, worth = _mean(first, rows[: len(rows) - best], smoothing)
            told[n, 3], told[n, 4], told[n, 8] = apart, best, np.ceil(worth)
            if entered >= 5:
                told[n, 10:] = _named(mean, after, squares, tested)
            for j in range(max(0, len(behind) - newest), len(rows) - best):
                squares, entered = _entered(first, behind, j, squares, entered, smoothing)
            first, behind = rows[len(rows) - best :], []
        elif not first:
            first = [x]
        else:
            if len(behind) >= newest:
                squares, entered = _entered(first, behind, len(behind) - newest, squares, entered, smoothing)
            behind.append(x)
        opened = (1 if hold else 0) if alarm else (opened + 1 if stays else 0) if is_open else 0
    return told


def _entered(
    first: list[Array], behind: list[Array], j: int, squares: Array, entered: int, smoothing: float
) -> tuple[Array, int]:
    """Row j behind the first ones counts for the deviations."""
    mean, entered = _mean(first, behind[:j], smoothing)[0], entered + 1
    return squares + max(1 / 200, 1 / entered) * ((behind[j] - mean) ** 2 - squares), entered


def _mean(first: list[Array], rows: list[Array], smoothing: float) -> tuple[Array, float]:
    """Of the first rows and those behind them, and how many it is worth."""
    mean, count = np.mean(first, axis=0), len(first)
    for row in rows:
        count += 1
        mean = mean + max(smoothing, 1 / count) * (row - mean)
    return mean, min(count, (2 - smoothing) / smoothing)


def _named(mean: Array, after: Array, squares: Array, tested: int) -> Array:
    spread = _deviation(squares, mean)
    shift, row = ((after - mean) / spread)[tested:], np.full(12, np.nan)
    order = np.argsort(-abs(shift), kind="stable")[:3]
    for place, i in enumerate(order):
        if shift[i] != 0 and abs(shift[i]) >= 0.84 * abs(shift[order[0]]):
            row[4 * place : 4 * place + 4] = i, shift[i], mean[tested + i], spread[tested + i]
    return row


def _deviation(squares: Array, mean: Array) -> Array:
    return np.asarray(np.maximum(np.sqrt(squares), np.maximum(1e-12, 1e-10 * abs(mean))))
