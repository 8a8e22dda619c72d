"""Predictions without a model, to compare the errors of the model with.

Of a class: the last label of the key, and its most frequent label so far. Of numbers: the last label (persistence).
A label is known when the model learns it: once a row [labels] delay later was predicted. Rows before that are not judged.
Labels that come in records of their own ([labels] wait) are not compared here, but by `scoring`.
"""

import math
from collections import defaultdict
from typing import Any

import numpy as np

from streamjobs.core.messages import Report
from streamjobs.core.unlearned import Known


class Controls:
    """Errors of the controls over a replay."""

    def __init__(self, task: str, delay: float) -> None:
        """delay: seconds of event time until a label is known."""
        self.regression, self.delay = task == "regression", delay
        self.judged = self.last_wrong = self.majority_wrong = 0
        self.squared = 0.0
        self._keys: dict[str, Known] = defaultdict(Known)

    def add(self, report: Report) -> None:
        for batch in report.batches:
            for key, time, label in zip(batch.keys, batch.times.tolist(), batch.labels or (), strict=False):
                if label is not None and not (self.regression and not np.all(np.isfinite(label))):
                    self._judge(self._keys[key], label)
                    self._keys[key].add(time, label)
                if key in self._keys:
                    self._keys[key].learn(time - self.delay)

    def _judge(self, key: Known, label: Any) -> None:
        if key.last is None:
            return
        self.judged += 1
        if self.regression:
            self.squared += float(np.mean((np.asarray(label) - np.asarray(key.last)) ** 2))
        else:
            self.last_wrong += label != key.last
            self.majority_wrong += label != key.most

    def summary(self) -> dict[str, Any] | None:
        """Ready for JSON; None where nothing was judged."""
        if not self.judged:
            return None
        if self.regression:
            return {"judged": self.judged, "rmse_last_label": math.sqrt(self.squared / self.judged)}
        return {"judged": self.judged, "wrong_last_label": self.last_wrong, "wrong_majority": self.majority_wrong}
