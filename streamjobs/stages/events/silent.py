"""When a key was last heard of, and its newest alarm.

From these numbers follows, for all keys of a partition together, which are silent, and which alarm as a group.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.protocol import require
from streamjobs.stages.stage import LARGEST, JobStage, Shape


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
    ranges = (("clock", 0.0, LARGEST),)

    after: float = 1.0

    def __post_init__(self) -> None:
        require(self, "after", 0 < self.after < np.inf, "more than 0 seconds")

    def begin(self, shape: Shape, seed: int) -> Heard:
        return Heard(-np.inf, -np.inf, 0.0)

    def warm_up(self, state: Any, shape: Shape) -> None:
        """Nothing compiles."""


class Alarmed(NamedTuple):
    """The newest alarm of a key."""

    clock: float  # of the partition then (`Heard`), seconds; -1: no alarm yet
    start: float  # event time of the beginning of the group that it belongs to; 0: of none


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped(JobStage):
    """Keys are a group when `share` of all, and 5 or more, alarm within so many seconds; see `core.live.silence`."""

    persisted_name: ClassVar[str] = "Grouped"
    described = "name"
    signal = True
    survives = True
    times = ("start",)
    ranges = (("clock", -1.0, LARGEST),)

    share: float = 0.1
    within: float = 600.0

    def __post_init__(self) -> None:
        require(self, "share", 0 < self.share <= 1, "above 0, at most 1")
        require(self, "within", 0 < self.within < np.inf, "more than 0 seconds")

    def begin(self, shape: Shape, seed: int) -> Alarmed:
        return Alarmed(-1.0, 0.0)

    def warm_up(self, state: Any, shape: Shape) -> None:
        """Nothing compiles."""
