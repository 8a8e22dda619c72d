"""Drive a stage with samples of several keys: in batches of any size, saved and loaded again where asked."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamjobs.stages.stage import Shape


def fresh(stage: Any, dim: int, labels: int) -> Any:
    """The state of a new key, whose rows are its samples."""
    return stage.begin(Shape(dim=dim, width=dim, label_width=labels, targets=1), seed=0)


def drive(
    stage: Any, samples: tuple[np.ndarray, ...], *, keys: int, cuts: Sequence[int] = (), reload: bool = False
) -> tuple[list[np.ndarray], list[Any]]:
    """The columns a stage gives for samples (slots, times, X, L, ...), batch by batch joined, and the keys' last states.

    cuts: where one batch ends and the next begins; reload: every key is saved and loaded into fresh arrays after each.
    """
    start = fresh(stage, samples[2].shape[1], samples[3].shape[1])
    work = stage.workspace(start, slots=keys)
    for slot in range(keys):
        stage.load(work, slot, start)
    edges = [0, *sorted(cuts), len(samples[0])]
    parts = []
    for begin, end in itertools.pairwise(edges):
        parts.append(stage.advance(work, *(column[begin:end] for column in samples)))
        if reload:
            states = [stage.save(work, slot, start) for slot in range(keys)]
            work = stage.workspace(start, slots=keys)
            for slot, state in enumerate(states):
                stage.load(work, slot, state)
    columns = [np.concatenate(column) for column in zip(*(part[:6] for part in parts), strict=True)]
    if any(isinstance(part[6], np.ndarray) for part in parts):
        columns.append(np.concatenate([part[6] for part in parts]))
    else:
        totals: dict[str, int] = {}
        for part in parts:
            for reason, n in part[6].items():
                totals[reason] = totals.get(reason, 0) + n
        columns.append(np.array(sorted(totals.items())))
    return columns, [stage.save(work, slot, start) for slot in range(keys)]


def in_parts(stage: Any, start: Any, cuts: Sequence[int], slots: Any, *inputs: Any) -> list[Any]:
    """What `advance` gives of rows of two keys, as one, with the states saved and loaded at each cut."""

    def loaded(states: Sequence[Any]) -> Any:
        work = stage.workspace(start, slots=len(states))
        for slot, state in enumerate(states):
            stage.load(work, slot, state)
        return work

    work, made = loaded([start, start]), []
    for begin, end in zip([0, *cuts], [*cuts, len(slots)], strict=True):
        made.append(stage.advance(work, slots[begin:end], *(one[begin:end] for one in inputs)))
        work = loaded([stage.save(work, slot, start) for slot in range(2)])
    return [np.concatenate(part) for part in zip(*made, strict=True)]


def same_bits(a: Any, b: Any) -> bool:
    """Arrays, numbers and nested lists or states equal to the bit (NaN equals NaN)."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same_bits(x, y) for x, y in zip(a, b, strict=True))
    x, y = np.asarray(a), np.asarray(b)
    return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
