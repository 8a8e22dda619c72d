"""A key's state that was learned on another population, or under another [drift]: what it keeps, and what begins fresh.

On another population it keeps offsets, the signal (order, idleness, windows), rows that wait for labels, and the number of
its rows. Fresh: the head, which cannot be carried to another map, and all that followed it: gate, smoothing, drift, the last
label, and the count of classes labelled. The key is then as new to the new population, in the middle of its stream.

Under another [drift] all but drift detection is kept. Only what watches for drift, the reference and the open alarms stand
between the rest in a snapshot, so their arrays are found without knowing what lies between.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from streamjobs.core.state.held_stages import BEHIND, EITHER, behind_as_written, front_as_written
from streamjobs.core.state.snapshot import FIELDS, Snapshot, array_counts, flatten, unflatten
from streamjobs.errors import SnapshotError
from streamjobs.stages.names import ALARMS, COUNTERS, DRIFT_REFERENCE, IDLE, LEARNER, REFERENCE, SENSORS
from streamjobs.stages.stage import JobStage, Shape

# Of a snapshot's description, next to the stages that survive; few jobs have the last two, or load their code.
SIGNAL_FACTS = ("dim", "mirror", SENSORS, COUNTERS)
RELEARN = (
    "[drift] was changed: undo that in the job file, or run 'streamjobs drift relearn JOB --all', which keeps all "
    "models and begins drift detection again. The"
)


def survives(written: Mapping[str, Any], now: Mapping[str, Any], replaced: Sequence[str]) -> bool:
    """Whether the job that wrote a snapshot had a population that this job's replaces, and the same signal."""
    return written.get("population") in replaced and not changed_signal(written, now)


def changed_signal(written: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Names of what must be the same in both jobs, and is not.

    BEHIND may differ: as in a job with the same population, a key begins such a state or drops it.
    """
    changed = [name for name in {**written, **now} if written.get(name) != now.get(name) and name not in (FIELDS, *BEHIND)]
    return [
        name
        for name in changed
        if name in SIGNAL_FACTS or _of_surviving_stage(written.get(name)) or _of_surviving_stage(now.get(name))
    ]


def _of_surviving_stage(description: Any) -> bool:
    """Whether a text such as "Windows(length=2.0, ...)" describes a stage with `survives`."""
    return isinstance(description, str) and description.partition("(")[0] in {
        stage.persisted_name for stage in JobStage.__subclasses__() if stage.survives
    }


def migrated(
    held: Snapshot,
    written: Mapping[str, Any],
    stages: Mapping[str, JobStage],
    fresh: Mapping[str, Any],
    names: Sequence[str],
    room: int,
    shape: Shape,
) -> tuple[dict[str, Any], list[str]]:
    """The key's states and class names in this job.

    fresh: states of a new key; names: the population's classes; room: most classes of a key. Stages that survive come first
    or last in a snapshot, before BEHIND only. Therefore their arrays are found without the other stages. Raises
    SnapshotError if the key has more classes than `room`.
    """
    surviving = [name for name in stages if name not in BEHIND]
    first = list(takewhile(lambda name: stages[name].survives, surviving))
    last = list(takewhile(lambda name: stages[name].survives, reversed(surviving)))
    taken, place = _taken({name: stages[name] for name in first}, held, 0, fresh, shape)
    at_end = {name: stages[name] for name in reversed(last)} | behind_as_written(stages, written)
    taken |= _taken_last(at_end, held, place, fresh, shape)[0]
    kept = {name: state for name, state in taken.items() if stages[name].survives}
    used = {int(code) for code in _codes(stages, kept)}
    known = [*names, *(held.names[code] for code in sorted(used) if held.names[code] not in names)]
    if len(known) > room:
        own = ", ".join(known[len(names) :])
        raise SnapshotError(
            f"the key has labels of {len(known)} classes waiting ({own} beyond the population's), "
            f"this job has room for {room}; raise [head] max_classes."
        )
    column = [known.index(name) if name in known else -1 for name in held.names]
    moved = {name: stages[name].migrate(state, fresh[name], column) for name, state in kept.items()}
    return {**fresh, **moved}, known


def _codes(stages: Mapping[str, JobStage], states: Mapping[str, Any]) -> Iterable[float]:
    """Columns of the classes with waiting labels."""
    for name, state in states.items():
        for field in stages[name].label_codes:
            codes = getattr(state, field)
            yield from codes[np.isfinite(codes)].tolist()


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
    behind, end = _taken_last(last, held, place, fresh, shape)
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


def _taken_last(
    stages: Mapping[str, JobStage], held: Snapshot, place: int, fresh: Mapping[str, Any], shape: Shape
) -> tuple[dict[str, Any], int]:
    """As `_taken`, of the last arrays, which begin at `place` or later; and where they begin."""
    states = [fresh[name] if name in fresh else stage.begin(shape, 0) for name, stage in stages.items()]
    begin = len(held.arrays) - sum(array_counts(states))
    if begin < place:
        raise SnapshotError(f"snapshot holds {len(held.arrays)} arrays, this job expects {place - begin} more.")
    return _taken(stages, held, begin, fresh, shape)[0], begin
