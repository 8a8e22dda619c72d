"""The samples that a key's learner keeps: where they are in its state."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from algorithms.common.protocol import State
from streamjobs.core.job import Job
from streamjobs.stages.names import LEARNER, MAP

FIELDS = ("prototypes", "samples", "landmarks", "support", "dictionary")  # of states, the first that is there


class StoredSamples(NamedTuple):
    part: str  # stage, and part of its learner, such as "learner.extractor"
    learner: Any
    state: Any
    field: str  # of the state
    width: float  # the stored samples are divided by it


def stored_samples(job: Job, states: Mapping[str, State]) -> list[StoredSamples]:
    """One entry for each part of the learner, or of its map, that stores samples."""
    held = list(_within(LEARNER, job.learner, states[LEARNER], 1.0))
    if not held and job.steps.map is not None:
        held = list(_within(MAP, job.steps.map.learner, job.shared.get(MAP) or states[MAP], 1.0))
    return held


def _within(part: str, learner: Any, state: Any, width: float) -> Iterator[StoredSamples]:
    chosen = getattr(getattr(state, "choice", None), "bandwidth", None)
    if chosen is not None:  # a learner with a width chosen from the first rows
        if chosen:
            yield from _within(f"{part}.learner", learner.learner, state.learner, float(chosen))
        return
    for field in FIELDS:
        if hasattr(state, field) and hasattr(learner, "kernel"):
            if len(getattr(state, field)):
                yield StoredSamples(part, learner, state, field, width)
            return
    for name, inner in zip(state._fields, state, strict=True):
        if hasattr(inner, "_fields"):
            own = getattr(learner, name, None) or getattr(learner, "learner", None)
            yield from _within(f"{part}.{name}", own, inner, width)
