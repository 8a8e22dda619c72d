"""Rows that wait for labels, written plainly: a list of rows per key, searched from the beginning."""

import math

CLOSE = 1e-6


class Waiting:
    def __init__(self, wait: float, delay: float, within: float, most: int) -> None:
        self.wait, self.delay, self.within, self.most = wait, delay, within, most
        self.rows: dict[int, list[list]] = {}  # key -> [time, x, label or NaN]
        self.newest: dict[int, float] = {}
        self.made: list[tuple] = []  # (key, time, x, label, learn)
        self.missed: list[bool] = []
        self.skipped = {"unlabelled": 0, "waiting_full": 0}

    def row(self, key: int, time: float, x: float, label: float, learn: int) -> None:
        held = self.rows.setdefault(key, [])
        now = self.newest[key] = max(self.newest.get(key, -math.inf), time)
        gone = [row for row in held if math.isnan(row[2]) and now - row[0] > self.wait + CLOSE]
        self.skipped["unlabelled"] += len(gone)
        held[:] = [row for row in held if row not in gone]
        known = not math.isnan(label)
        self.made.append((key, time, x, label if known and not self.delay else math.nan, learn))
        if learn & 2 and (self.delay if known else self.wait):
            if len(held) == self.most:
                held.remove(min(held, key=lambda row: row[0]))
                self.skipped["waiting_full"] += 1
            held.append([time, x, label])
        due = [row for row in held if self.delay and not math.isnan(row[2]) and now - row[0] >= self.delay - CLOSE]
        for row in sorted(due, key=lambda row: row[0]):
            held.remove(row)
            self.made.append((key, row[0], row[1], row[2], 2))

    def label(self, key: int, time: float, label: float) -> None:
        held = [row for row in self.rows.get(key, []) if math.isnan(row[2])]
        nearest = min(held, key=lambda row: (abs(row[0] - time), row[0]), default=None)
        met = nearest is not None and abs(nearest[0] - time) < self.within + CLOSE
        self.missed.append(not met)
        if met:
            self.rows[key].remove(nearest)
            self.made.append((key, nearest[0], nearest[1], label, 2))
