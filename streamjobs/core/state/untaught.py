"""What snapshots leave out: the head of a key that has had no label, see `algorithms.common.head_rows`, and what labels
do not change of a head.
"""

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
    persisted_name = "Seen"


class Untaught(NamedTuple):
    """The arrays of a new key's head that no row without a label changes."""

    first: int  # place of the first among the arrays of a snapshot
    arrays: list[Array]
    left_out: dict[int, LeftOut]  # by place
    constant: dict[int, LeftOut]  # those that a label does not change either

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
        left_out = {first + n: LeftOut.of(array) for n, array in enumerate(arrays)}
        fields = template[LEARNER]._fields
        stays = [first + fields.index(field) for field in own[LEARNER].codec.constant(template[LEARNER])]
        return cls(first, arrays, left_out, {at: left_out[at] for at in sorted(stays)})

    @property
    def nbytes(self) -> int:
        """What a first label adds to a snapshot."""
        return sum(array.nbytes for array in self.arrays) - self.constant_nbytes

    @property
    def constant_nbytes(self) -> int:
        return sum(self.arrays[at - self.first].nbytes for at in self.constant)

    def without(self, arrays: list[Any]) -> list[Any]:
        """The arrays of a snapshot, without those of a head that are a new key's."""
        equal = {at for at, own in enumerate(self.arrays, self.first) if arrays[at].tobytes() == own.tobytes()}
        left = self.left_out if len(equal) == len(self.arrays) else self.constant if equal >= self.constant.keys() else {}
        return [left.get(at, array) for at, array in enumerate(arrays)]
