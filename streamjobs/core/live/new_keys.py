"""States of new keys, many at once: keys begin alike but for their seed, so a state made once is copied to their slots."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.head_rows import HeadRows
from algorithms.common.protocol import Array
from streamjobs.core.job import Job


class NewKeys(NamedTuple):
    """What every slot of a new key holds, array by array, and which arrays hold its seed instead."""

    arrays: dict[str, list[tuple[Array, bool]]]  # of a stage: (the array of one slot, it is the seed)

    @classmethod
    def of(cls, job: Job, work: dict[str, Any]) -> "NewKeys | None":
        """None where a seed decides more than a number of its own: such states are made one by one."""
        first, second, third = (_slot_of(job, seed) for seed in (0, 1, 2))
        arrays: dict[str, list[tuple[Array, bool]]] = {}
        for name in first:
            if isinstance(work[name], HeadRows):
                continue
            arrays[name] = []
            for one, two, three in zip(first[name], second[name], third[name], strict=True):
                same = one.tobytes() == two.tobytes() == three.tobytes()
                seed = one.shape == (1,) and (one[0], two[0], three[0]) == (0, 1, 2)
                if not (same or seed):
                    return None
                arrays[name].append((one, not same))
            if any(mine[0].shape[1:] != of.shape[1:] for mine, of in zip(arrays[name], work[name].arrays, strict=True)):
                return None
        return cls(arrays)

    def begin(self, work: dict[str, Any], slots: Sequence[int], seeds: Sequence[int]) -> None:
        at = np.array(slots, np.int64)
        for one in work.values():
            if isinstance(one, HeadRows):
                one.begin(at)
        for name, arrays in self.arrays.items():
            for (one, is_seed), array in zip(arrays, work[name].arrays, strict=True):
                array[at] = seeds if is_seed else one


def _slot_of(job: Job, seed: int) -> dict[str, tuple[Array, ...]]:
    states = job.init_from(seed)
    arrays: dict[str, tuple[Array, ...]] = {}
    for name, stage in job.own.items():
        arrays[name] = tuple(stage.holding(states[name]).arrays)
    return arrays
