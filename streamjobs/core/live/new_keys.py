"""States of new keys, many at once: keys begin alike but for their seed, so a state made once is copied to their slots."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.head_rows import HeadRows
from algorithms.common.protocol import Array
from streamjobs.core.job import Job

SEEDS = 0, 1, (1 << 62) - 1  # the last one tells exclusive-or from a sum


class NewKeys(NamedTuple):
    """What every slot of a new key holds, array by array, and of which arrays it is the exclusive-or with its seed."""

    arrays: dict[str, list[tuple[Array, bool]]]  # of a stage: (the array of one slot with seed 0, the seed changes it)

    @classmethod
    def of(cls, job: Job, work: dict[str, Any]) -> "NewKeys | None":
        """None where a seed decides more than numbers of its own: such states are made one by one."""
        of_seeds = []
        for states in map(job.init_from, SEEDS):
            of_seeds.append({name: stage.holding(states[name]).arrays for name, stage in job.own.items()})
        first, second, third = of_seeds
        arrays: dict[str, list[tuple[Array, bool]]] = {}
        for name in first:
            if isinstance(work[name], HeadRows):
                continue
            arrays[name] = []
            for one, two, three in zip(first[name], second[name], third[name], strict=True):
                same = one.tobytes() == two.tobytes() == three.tobytes()
                if not same and not _exclusive_or(one, [two, three]):
                    return None
                arrays[name].append((one, not same))
            if any(mine[0].shape[1:] != of.shape[1:] for mine, of in zip(arrays[name], work[name].arrays, strict=True)):
                return None
        return cls(arrays)

    def begin(self, work: dict[str, Any], slots: Sequence[int], seeds: Sequence[int]) -> None:
        at, numbers = np.array(slots, np.int64), np.array(seeds, np.int64)
        for one in work.values():
            if isinstance(one, HeadRows):
                one.begin(at)
        for name, arrays in self.arrays.items():
            for (one, is_seed), array in zip(arrays, work[name].arrays, strict=True):
                array[at] = one ^ numbers.reshape(-1, *[1] * (one.ndim - 1)) if is_seed else one


def _exclusive_or(one: Array, others: list[Array]) -> bool:
    """Whether the arrays with the other seeds are the one with seed 0, exclusive-or the seed."""
    of_seeds = zip(SEEDS[1:], others, strict=True)
    return one.dtype == np.int64 and all(np.array_equal(other, one ^ seed) for seed, other in of_seeds)
