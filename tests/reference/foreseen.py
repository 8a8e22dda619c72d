"""Innovations and the tail of rows, with every row kept and everything computed again for each."""

import numpy as np

from algorithms.common.protocol import Array


class Column:
    """A column's forecast: ridge regression, weighted by age, of scaled values on the sixteen before them.

    When mean and deviation move on, all rows so far are scaled again by the new ones; the ridge is 17 rows before the first.
    """

    def __init__(self) -> None:
        self.values: list[float] = []
        self.mean, self.variance, self.scale = 0.0, 0.0, 0.0
        self.Z, self.y, self.kept = np.eye(17), np.zeros(17), np.ones(17)

    def forecast(self) -> tuple[float, Array]:
        before = np.array([0.0] * 16 + self.values)[-16:][::-1]
        spread = np.sqrt(self.variance)
        z = np.r_[np.clip((before - self.mean) / spread if spread > 0 else np.zeros(16), -5, 5), 1.0]
        root = np.sqrt(self.kept)
        weights = np.linalg.lstsq(self.Z * root[:, None], self.y * root, rcond=None)[0]
        return self.mean + spread * float(np.clip(weights @ z, -8, 8)), z

    def learn(self, x: float, error: float, z: Array, memory: int, wild: bool, teaches: bool) -> None:
        spread, mean, rows = np.sqrt(self.variance), self.mean, len(self.values) + 1
        if wild:
            self.size(error, rows - 16, memory, teaches)
            self.values = [value + error for value in self.values] + [x]
            return
        if rows > 16:
            self.Z = np.vstack([self.Z, z])
            self.y = np.r_[self.y, np.clip((x - mean) / spread, -8, 8)]
            self.kept = np.r_[0.999 * self.kept, 1.0]
            self.size(error, rows - 16, memory, teaches)
        gap = np.clip(x - mean, -8 * spread, 8 * spread) if rows > 30 else x - mean
        rate = max(1 / rows, 1 / 1000)
        self.mean += rate * gap
        self.variance = (1 - rate) * (self.variance + rate * gap * gap)
        now = np.sqrt(self.variance)
        if rows > 16 and 0.1 < spread / now < 10:
            constant = self.Z[:, 16]
            self.y = (spread * self.y - (self.mean - mean) * constant) / now
            self.Z[:, :16] = (spread * self.Z[:, :16] - (self.mean - mean) * constant[:, None]) / now
        self.values.append(x)

    def size(self, error: float, errors: int, memory: int, teaches: bool) -> None:
        if not teaches:
            return
        size = min(abs(error), 8 * self.scale) if errors > 30 and self.scale > 0 else abs(error)
        self.scale += max(1 / errors, 1 / memory) * (size - self.scale)


def innovations(X: Array, *, memory: int, repeats: bool = True) -> Array:
    """(n, 2 dim): errors in deviations, then forecasts; NaN for 32 rows."""
    columns, features = [Column() for _ in range(X.shape[1])], np.full((len(X), 2 * X.shape[1]), np.nan)
    for n, x in enumerate(X):
        for i, column in enumerate(columns):
            expected, z = column.forecast()
            wild, stands = False, column.values[-4:] == 4 * [float(x[i])]
            if n >= 32:
                least = 0.001 * np.sqrt(column.variance)
                unit = max(np.sqrt(np.pi / 2) * column.scale, least)
                error = np.round(16 * (x[i] - expected) / unit) / 16
                features[n, i] = 0.0 if stands or abs(x[i] - expected) < least else error
                features[n, X.shape[1] + i] = expected
                wild = column.scale > 0 and abs(x[i] - expected) > 20 * unit
            column.learn(float(x[i]), float(x[i] - expected), z, memory, wild, repeats or not stands)
    return features


def row_tail(X: Array, *, rows_between: float, kept: int, least: int, ends: int, hold: int, narrowest: float = 0.0) -> Array:
    """(n, 22) as of `column_chart`."""
    told = np.full((len(X), 22), np.nan)
    latest: list[float] = []
    notes: list[tuple[float, int, int, bool, bool, bool]] = []  # of the last eight: size, row, column, down, returned, near
    room = kept if kept < 240 else kept - 24
    level = size = shape = share = 0.0
    usual, opened, quiet = np.tile([1.96, 2.58], (X.shape[1], 1)), 0, 0
    for n, x in enumerate(X):
        ratio = np.abs(x) / usual[:, 1]
        power = np.minimum(1, 0.33 / np.maximum(np.log(usual[:, 1] / usual[:, 0]), 0.05))
        evened = np.where(ratio > 1, ratio**power, ratio)
        value, column = float(evened.max()), int(evened.argmax())
        ready, limit, p = len(latest) >= least, np.inf, 1.0
        if ready:
            limit = level + size / shape * max(0.0, (share * rows_between) ** shape - 1)
            p = 0.5 if value <= level else share * (1 + shape * (value - level) / size) ** (-1 / shape)
        beyond, is_open = value > limit, opened > 0
        begins = beyond and opened == 0
        alike = [
            note
            for note in notes
            if 1.5 * note[0] >= abs(x[column])
            and n + 1 - note[1] <= rows_between
            and (12 if begins else 1.5) * abs(x[note[2]]) >= note[0]
            and (begins or not note[5])
        ]
        last = next((note for note in alike[::-1] if note[2] == column and kept >= 240), None)
        returns = last is not None and last[3] != (x[column] < 0) and 1.5 * abs(x[column]) >= last[0]
        often = sum(2 if note[4] else 1 for note in alike) >= 3
        wild = beyond and (is_open or kept < 240 or not (often or returns))
        near = not beyond and not is_open and p * rows_between <= 100
        p = max(p, 3 / rows_between) if beyond and not wild else p
        alarm = wild and not is_open
        stays = alarm or (is_open and opened < hold and (wild or quiet > 1))
        statistic = (1.0 if wild else (quiet - 1) / ends) if is_open else 1 / (p * rows_between) if ready else 0.0
        of_alarm = (float(np.mean(latest)), value, 1.0) if alarm else (np.nan, np.nan, np.nan)
        told[n, :9] = statistic, alarm, *of_alarm, stays, ready, p, len(latest) if alarm else np.nan
        if alarm:
            order = np.argsort(-np.abs(x), kind="stable")[:3]
            for place, i in enumerate(i for i in order if abs(x[i]) >= 0.84 * abs(x[order[0]])):
                told[n, 10 + 4 * place : 14 + 4 * place] = i, x[i], 0.0, 1.0
        for i in range(len(x)):
            steps = (np.abs(x[i]) > usual[i]) - np.array([0.05, 0.01])
            usual[i] = np.maximum(usual[i] * (1 + np.array([0.01, 0.02]) * steps), 1.0)
        if is_open and opened >= hold:
            latest = []
        if begins or (near and alike):
            notes = [*notes, (float(np.float32(abs(x[column]))), n + 1, column, bool(x[column] < 0), returns, near)][-8:]
        latest = [*latest, np.float32(min(value, limit))][-room:]
        if len(latest) >= least and (beyond or (n + 1) % 50 == 0 or len(latest) == least):
            many = max(int(0.05 * len(latest)), 15)
            top = np.sort(np.array(latest, np.float64))[::-1]
            over, level, share = top[:many] - top[many], float(top[many]), many / len(latest)
            weighted = float(np.mean(over * (np.arange(many) + 0.35) / many))
            mean = float(over.mean())
            shape = float(np.clip(2 - mean / (mean - 2 * weighted), 0.2, 0.5)) if mean > 2 * weighted else 0.2
            size = max(mean * (1 - shape), narrowest * level)
        quiet = (ends if wild else quiet - 1) if stays else 0
        opened = opened + 1 if stays else 0
    return told
