"""How often predictions were right, next to the last and the most frequent label of each key, as `replay` counts it.

A label is compared with what was predicted, and known, when its row came: rows that wait for a label in a record of its own
are remembered with both. With [labels] delay, labels that are not known yet are remembered.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from streamjobs.core.messages import BatchRows, LateLabel
from streamjobs.core.unlearned import Known

MOST_LABELS = 10_000  # keys with a label that are remembered
MOST_WAITING = 50_000  # rows that wait, and labels that are not known yet, after a look


class Scores:
    """Over the rows with a prediction and a label, of keys with an earlier label that was known."""

    def __init__(self, wait: float = 0.0, delay: float = 0.0) -> None:
        """As in [labels], seconds."""
        self.rows = self.right = self.last_right = self.majority_right = 0
        self.squared = self.last_squared = 0.0  # of numbers: sums of the squared differences
        self._wait, self._delay = wait, delay
        self._keys: dict[str, Known] = {}
        self._waiting: dict[tuple[str, float], tuple[Any, Any, Any]] = {}  # what was said and known of a row without label
        self._newest, self._number = -math.inf, 0
        self._unmet: list[LateLabel] = []  # of the last look

    def take(self, batches: Iterable[BatchRows], late: Sequence[LateLabel] = ()) -> None:
        """What came since the last look. A row may come a look after its late label, which is taken first."""
        for one in late:  # known from a time on: rows before it do not know them
            known, self._number = self._key(one.key), self._number + 1
            known.add(one.known, one.label, self._number)
            known.learn(-math.inf)
        for batch in batches:
            self._take(batch)
        came, self._unmet = [*self._unmet, *late], []
        for at, one in enumerate(came, len(late) - len(came)):
            row = self._waiting.pop((one.key, one.time), None)
            if row is not None:
                self._judge(one.label, *row)
            elif at >= 0:
                self._unmet.append(one)
        self._make_room()

    def _key(self, key: str) -> Known:
        known = self._keys.get(key)
        if known is None:
            if len(self._keys) >= MOST_LABELS:
                del self._keys[next(iter(self._keys))]
            known = self._keys[key] = Known()
        return known

    def _take(self, batch: BatchRows) -> None:
        keys, waiting, wait, delay = self._keys, self._waiting, self._wait, self._delay
        for key, time, label, said in zip(
            batch.keys, batch.times.tolist(), batch.labels or (), batch.predicted or (), strict=False
        ):
            known = keys.get(key)
            if label.__class__ is str or not _missing(label):
                if known is None:
                    known = self._key(key)
                self._judge(label, said, known.last, known.frequent)
                if not delay and not known.waiting:
                    known.take(label)
                else:
                    known.add(time, label)
            elif known is None:
                continue
            elif wait and said is not None and known.last is not None and len(waiting) < 2 * MOST_WAITING:
                waiting[key, time] = said, known.last, known.frequent
                self._newest = max(self._newest, time)
            known.learn(time - delay)

    def _judge(self, label: Any, said: Any, last: Any, frequent: Any) -> None:
        if said is None or last is None:
            return
        if isinstance(label, str):
            self.right += label == said
            self.last_right += label == last
            self.majority_right += label == frequent
        else:
            squares = [float(np.mean(np.subtract(label, one) ** 2)) for one in (said, last)]
            if not math.isfinite(sum(squares)):
                return
            self.squared += squares[0]
            self.last_squared += squares[1]
        self.rows += 1

    def _make_room(self) -> None:
        """Rows that are too old for a label leave, then the newest ones: those before can still be judged."""
        if len(self._waiting) > MOST_WAITING:
            oldest = self._newest - self._wait
            kept = [(place, row) for place, row in self._waiting.items() if place[1] >= oldest]
            self._waiting = dict(kept[:MOST_WAITING])
        if self._delay:
            labels = sum(len(known.waiting) for known in self._keys.values())
            while labels > MOST_WAITING:
                labels -= len(self._keys.pop(next(iter(self._keys))).waiting)

    def summary(self) -> dict[str, Any]:
        """Fields of the event `stopped`; empty if no row was judged."""
        rows = self.rows
        if not rows:
            return {}
        if any(known.counts for known in self._keys.values()):
            right = {"model": self.right, "last_label": self.last_right, "majority": self.majority_right}
            return {"accuracy": {"rows": rows} | {name: round(count / rows, 4) for name, count in right.items()}}
        squared = {"model": self.squared, "last_label": self.last_squared}
        return {"rmse": {"rows": rows} | {name: float(f"{math.sqrt(total / rows):.6g}") for name, total in squared.items()}}


def _missing(label: Any) -> bool:
    """Of labels other than classes: numbers that are not known are NaN."""
    return label is None or not all(map(math.isfinite, label if isinstance(label, list) else (label,)))
