"""Metrics that are not kept one observation at a time: a histogram fed by batches, and gauges looked up at a scrape."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.samples import Exemplar

from streamjobs.core.messages import Worst
from streamjobs.core.standing import Standing


class Many:
    """A histogram that takes a batch of values at once: one observe per value would cost more than the value did."""

    def __init__(self, name: str, text: str, buckets: Sequence[float]) -> None:
        self.name, self.text = name, text
        self._edges = np.asarray(buckets)
        self._counts = np.zeros(len(buckets) + 1, np.int64)
        self._sum = 0.0
        self._exemplars: list[Exemplar | None] = [None] * (len(buckets) + 1)

    def observe(self, values: Sequence[float], worst: Worst | None = None) -> None:
        """worst: the largest of the values, the exemplar of its bucket until the next one there."""
        found = np.searchsorted(self._edges, values)
        self._counts += np.bincount(found, minlength=len(self._counts))
        self._sum += float(np.sum(values))
        if worst is not None:
            self._exemplars[int(found.max())] = Exemplar({"key_hash": worst.key_hash}, worst.ls_error, worst.time)

    def collect(self) -> list[HistogramMetricFamily]:
        reached = np.cumsum(self._counts).tolist()
        names = [repr(edge) for edge in self._edges.tolist()] + ["+Inf"]
        buckets = [
            (name, count) if exemplar is None else (name, count, exemplar)
            for name, count, exemplar in zip(names, reached, self._exemplars, strict=True)
        ]
        return [HistogramMetricFamily(self.name, self.text, buckets, self._sum)]


class Standings:
    """Gauges of how the live keys stand, all of one look at them."""

    NAMES: ClassVar = ("worst_ls_error_ratio", "keys_active", "keys_in_drift", "model_budget_used_ratio", "model_rank")

    def __init__(self, told: Mapping[str, tuple[str, str]], look: Callable[[], Standing]) -> None:
        """told: (name, help) by each of NAMES."""
        self._told, self._look = told, look

    def describe(self) -> list[GaugeMetricFamily]:
        return [GaugeMetricFamily(*self._told[name]) for name in self.NAMES]

    def collect(self) -> list[GaugeMetricFamily]:
        now = self._look()
        worst = GaugeMetricFamily(*self._told["worst_ls_error_ratio"], labels=("rank",))
        for rank, error in enumerate(now.worst, 1):
            worst.add_metric([str(rank)], error)
        values = (now.active, now.drifting, now.budget_used, now.rank)
        plain = zip(self.NAMES[1:], values, strict=True)
        return [worst, *(GaugeMetricFamily(*self._told[name], value=value) for name, value in plain)]
