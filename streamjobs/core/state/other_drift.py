"""A key's state that was learned under another [drift]: all but drift detection is kept.

Models, offsets and the signal are those of any [drift]. Only what watches for drift, the reference and the open alarms stand
between them in a snapshot, so their arrays are found without knowing what lies between.
"""

from collections.abc import Mapping
from typing import Any

from streamjobs.core.state.held_stages import BEHIND, EITHER, behind_as_written, front_as_written
from streamjobs.core.state.snapshot import Snapshot, array_counts, flatten, unflatten
from streamjobs.errors import SnapshotError
from streamjobs.stages.names import ALARMS, DRIFT_REFERENCE, IDLE, LEARNER, REFERENCE
from streamjobs.stages.stage import JobStage, Shape

RELEARN = (
    "[drift] was changed: undo that in the job file, or run 'streamjobs drift relearn JOB --all', which keeps all "
    "models and begins drift detection again. The"
)


def of_drift(name: str) -> bool:
    """Whether [drift] decides what a name of a snapshot's description says."""
    return name in (IDLE, REFERENCE, DRIFT_REFERENCE) or name == "drift" or name.startswith(("drift_", "beside_"))


def differs(written: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the job that wrote a snapshot had another [drift], or none, and all else the same."""

    def rest(table: Mapping[str, Any]) -> dict[str, Any]:
        return {name: text for name, text in table.items() if not of_drift(name) and name not in EITHER}

    return bool(written) and rest(written) == rest(now)


def kept(
    held: Snapshot, written: Mapping[str, Any], own: Mapping[str, JobStage], fresh: Mapping[str, Any], shape: Shape
) -> dict[str, Any]:
    """The states of the job's `own` stages; those of drift detection are as `fresh` has them.

    An alarm that is open stays so where the same number of watches can raise one. Raises SnapshotError.
    """
    names = list(own)
    at = names.index(LEARNER) + 1
    first = front_as_written({name: own[name] for name in names[:at]}, written)
    last = {name: own[name] for name in names[at:] if not of_drift(name) and name not in (ALARMS, *BEHIND)}
    last |= behind_as_written(own, written)
    taken, place = _taken(first, held, 0, fresh, shape)
    states = [fresh[name] if name in fresh else stage.begin(shape, 0) for name, stage in last.items()]
    end = len(held.arrays) - sum(array_counts(states))
    if end < place:
        raise SnapshotError(f"snapshot holds {len(held.arrays)} arrays, this job expects {place - end} more.")
    behind, _ = _taken(last, held, end, fresh, shape)
    made = {**fresh, **taken, **behind}
    if ALARMS in own:
        like = flatten(fresh[ALARMS])
        alarms = held.arrays[max(place, end - len(like)) : end]
        if [(array.shape, array.dtype) for array in alarms] == [(array.shape, array.dtype) for array in like]:
            made[ALARMS] = unflatten(fresh[ALARMS], alarms)
    return {name: made[name] for name in fresh}


def _taken(
    stages: Mapping[str, JobStage], held: Snapshot, at: int, fresh: Mapping[str, Any], shape: Shape
) -> tuple[dict[str, Any], int]:
    """Their states, of the arrays from `at` on, without those of stages that this job has not; and where they end."""
    states = {}
    for name, stage in stages.items():
        like = fresh[name] if name in fresh else stage.begin(shape, 0)
        count = len(flatten(like))
        if at + count > len(held.arrays):
            raise SnapshotError(f"snapshot holds {len(held.arrays)} arrays, this job expects more.")
        if name in fresh:
            states[name] = unflatten(like, held.arrays[at : at + count])
        at += count
    return states, at
