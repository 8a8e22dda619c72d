"""The head of a key that has had no label, which its snapshot leaves out: see `algorithms.common.head_rows`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array, Stage
from streamjobs.core.state.snapshot import LeftOut, flatten
from streamjobs.stages.names import LEARNER
from streamjobs.stages.stage import JobStage

LEAST_BYTES = 2048  # of a head; smaller ones are stored whole


class Seen(NamedTuple):
    """What a snapshot has of a head that it leaves out."""

    seen: int


class SeenStage(Stage):
    """Moves `Seen`."""

    persisted_name = "Seen"


class Untaught(NamedTuple):
    """The arrays of a new key's head that no row without a label changes."""

    first: int  # place of the first among the arrays of a snapshot
    arrays: list[Array]
    left_out: dict[int, LeftOut]  # by place

    @classmethod
    def of(cls, own: Mapping[str, JobStage], template: Mapping[str, Any]) -> "Untaught | None":
        """Of a job with a learner that is `label_taught`; None for a small head. template: states of a new key."""
        arrays = [np.asarray(array) for array in flatten(template[LEARNER])[:-1]]
        if sum(array.nbytes for array in arrays) < LEAST_BYTES:
            return None
        first = 0
        for name in own:
            if name == LEARNER:
                break
            first += len(flatten(template[name]))
        return cls(first, arrays, {first + n: LeftOut.of(array) for n, array in enumerate(arrays)})

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def without(self, arrays: list[Any]) -> list[Any]:
        """The arrays of a snapshot, without those of a head that is a new key's."""
        end = self.first + len(self.arrays)
        if any(one.tobytes() != other.tobytes() for one, other in zip(arrays[self.first : end], self.arrays, strict=True)):
            return arrays
        return [*arrays[: self.first], *self.left_out.values(), *arrays[end:]]
