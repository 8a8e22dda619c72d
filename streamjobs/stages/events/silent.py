"""When a key was last heard of: three numbers from which follows, for all keys of a partition together, which are silent."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.demands import Demand
from algorithms.common.protocol import Array, require
from algorithms.common.workspace import Workspace
from streamjobs.stages.stage import JobStage, Shape


class Heard(NamedTuple):
    """Of a key's newest sample; all in seconds."""

    newest: float  # its event time, -inf: none yet
    time: float  # newest event time of the partition then
    clock: float  # of the partition then: as its event time, but a pause of the whole partition counts in part


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentKeys(JobStage):
    """A key is silent when it is not heard of for `after` seconds of its partition's clock; see `core.live.silence`."""

    persisted_name: ClassVar[str] = "SilentKeys"
    described = "name"
    signal = True
    survives = True
    times = ("newest", "time")

    after: float = 1.0

    def __post_init__(self) -> None:
        require(self, "after", 0 < self.after < np.inf, "more than 0 seconds")

    def begin(self, shape: Shape, seed: int) -> Heard:
        return Heard(-np.inf, -np.inf, 0.0)

    def warm_up(self, state: Any, shape: Shape) -> None:
        """Nothing compiles."""

    def demands(self, work: Workspace, slots: Array, classes: Array | None = None) -> Iterator[Demand]:
        clock = work["clock"][slots]
        yield Demand("clock", "a number from 0", np.isfinite(clock) & (clock >= 0.0))
