"""Reads a key's stored snapshot for a job: its own, or one of another job where that may be read. Finds the samples in it.

What is read is checked against the job's stages: a checksum finds damage, but not values that no stage could have left.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import State
from streamjobs.core.job import Job
from streamjobs.core.state import held_stages, migration, snapshot
from streamjobs.core.state.snapshot import Offsets, Snapshot
from streamjobs.errors import ForeignStateError, SnapshotError
from streamjobs.stages.fill import FillState
from streamjobs.stages.names import ALARMS, COUNTERS, DRIFT_REFERENCE, FILL, LEARNER, MAP, ORDER, REFERENCE, SENSORS
from streamjobs.stages.order import OrderState
from streamjobs.stages.reference import OVER
from streamjobs.stages.sensors import SensorsState
from streamjobs.stages.stage import refuse

Decoded = tuple[dict[str, Any], list[str], Offsets]  # states by stage, class names, applied offsets
SAMPLES = ("prototypes", "samples", "landmarks", "support", "dictionary")  # of states, the first that is there


def decode_snapshot(job: Job, data: bytes, *, drift_anew: bool = False) -> Decoded:
    """The state in a snapshot. Raises SnapshotError for damaged bytes, ForeignStateError for another job's.

    drift_anew: a job with another [drift] may have written it; drift detection then starts again.
    """
    held = snapshot.decode(data)
    if held.fingerprint != job.fingerprint:
        snapshot.require_same_fields(snapshot.table_of(held.description), job.described, job.settings.source)
    fresh, stages = job.template, held_stages.of_description(held, job.fingerprint, job.described, job.own)
    if stages is None:
        return _of_another_job(job, held, fresh, drift_anew)
    behind = job.watches[-1].detector_stage if job.watches else None
    stages = held_stages.of_arrays(stages, fresh, len(held.arrays), job.shape, behind)
    states, likes, at = dict(fresh), {}, 0
    for name, stage in stages.items():
        likes[name] = fresh[name] if name in fresh else stage.begin(job.shape, 0)
    counts = snapshot.array_counts(likes.values())
    if sum(counts) != len(held.arrays):  # before any array is read as that of another field
        raise SnapshotError(
            f"snapshot holds {len(held.arrays)} arrays, which is not the number of this job: a stage or learner has other "
            "fields than when the state was written. Restore its fields; or give a learner of your own another "
            "persisted_name, with which it starts over."
        )
    for (name, like), count in zip(likes.items(), counts, strict=True):
        if name in fresh:
            states[name] = snapshot.unflatten(like, held.arrays[at : at + count])
        at += count
    states = {name: states[name] for name in fresh}
    written = job.described if held.fingerprint == job.fingerprint else snapshot.table_of(held.description)
    if written.get(DRIFT_REFERENCE) != job.described.get(DRIFT_REFERENCE):  # of another population
        states |= {watch.detector_stage: fresh[watch.detector_stage] for watch in job.watches}
    return _checked(job, held, states)


def load_snapshot(job: Job, data: bytes, *, drift_anew: bool = False) -> Decoded:
    """As `decode_snapshot`, for callers that have no live states: each stage loads its state. Raises SnapshotError."""
    states, names, offsets = decode_snapshot(job, data, drift_anew=drift_anew)
    _load(job, states)
    return states, names, offsets


def check_states(job: Job, states: dict[str, Any], names: list[str]) -> None:
    """Raise SnapshotError with the sentence of `load_snapshot` for states that it would not take, had they been stored."""
    _validate(job, states, names)
    _load(job, states)


def _load(job: Job, states: dict[str, Any]) -> None:
    for name, stage in job.own.items():
        try:
            stage.load(stage.workspace(states[name]), 0, states[name])
        except ValueError as problem:
            raise SnapshotError(f"the stored state contradicts itself: {problem}") from None


def last_event(job: Job, data: bytes) -> tuple[float, Offsets]:
    """Event time of the newest applied sample in a snapshot, -inf without one, and the last applied offsets.

    Raises SnapshotError.
    """
    held = snapshot.decode(data)
    known = held_stages.of_description(held, job.fingerprint, job.described, job.own)
    name, like = (SENSORS, SensorsState) if SENSORS in job.own else (ORDER, OrderState)
    at = like._fields.index("newest")
    if known is not None and COUNTERS in known:  # these come before them
        from streamjobs.stages.sensors.counters import CountersState

        at += len(CountersState._fields)
    if known is not None and FILL in known:
        at += len(FillState._fields)
    if known is None or len(held.arrays) <= at:
        raise SnapshotError("snapshot of another job.")
    newest = held.arrays[at]
    if newest.ndim != (name == SENSORS) or newest.dtype != np.float64 or not newest.size:
        what = "a number" if name == ORDER else "a number for each sensor"
        raise SnapshotError(f"snapshot field {name}.newest has shape {newest.shape}, expected {what}.")
    return float(newest.max()), held.offsets


def starting_from(job: Job, data: bytes) -> Job:
    """The job with new keys that start from an exported state. Raises SnapshotError.

    Of drift detection, new keys inherit only what [drift] reference_from asks for.
    """
    drift = job.settings.drift
    states, names, _ = load_snapshot(job, data, drift_anew=drift is None or drift.reference_from == "own")
    normal = _normal_for_others(job, states)
    inherited = {name: job.stages[name].inherit(state) for name, state in states.items()} | normal
    if job.classes is not None and names != job.classes:
        raise SnapshotError(f"the exported state has the classes {names}, this job declares {job.classes}.")
    start = {"states": {name: state for name, state in inherited.items() if state is not None}, "names": names}
    return job._replace(start=start)


def _normal_for_others(job: Job, states: dict[str, Any]) -> dict[str, Any]:
    """The reference of an exported state, where new keys are compared with it. Raises SnapshotError."""
    drift = job.settings.drift
    if drift is None or drift.reference_from == "own":
        return {}
    if states[REFERENCE].phase != OVER:
        raise SnapshotError(
            f"the exported state has {states[REFERENCE].rows} rows of its reference ({drift.reference}), which is not over."
        )
    if ALARMS in states and np.any(states[ALARMS].opened):
        raise SnapshotError(
            "the exported state is in alarm, so it cannot be the reference of others; export it when the alarm is over, or "
            "after 'streamjobs drift relearn' and a new reference."
        )
    return job.normal_of(states)


def _of_another_job(job: Job, held: Snapshot, fresh: dict[str, Any], drift_anew: bool) -> Decoded:
    """The state of a job with another [drift] or population, where it may be read. Raises SnapshotError."""
    written = snapshot.table_of(held.description)
    if not migration.differs(written, job.described):
        return _migrated(job, held, written, fresh)
    if drift_anew:
        return _checked(job, held, migration.kept(held, written, job.own, fresh, job.shape))
    raise ForeignStateError(f"{migration.RELEARN} {snapshot.differing(written, job.described)}")


def _migrated(job: Job, held: Snapshot, written: Mapping[str, Any], fresh: dict[str, Any]) -> Decoded:
    """The state of a key of another population, where this job's population replaces it. Raises SnapshotError."""
    old, population = written.get("population"), job.settings.population
    if population is None or old is None or old == job.described["population"]:
        raise ForeignStateError(snapshot.difference(written, job.described))
    if migration.survives(written, job.described, population.replaces or ()):
        assert job.population is not None
        try:
            names_known, room = job.population.names, job.targets
            states, names = migration.migrated(held, written, job.own, fresh, names_known, room, job.shape)
        except (IndexError, ValueError) as problem:
            raise SnapshotError(f"the stored state contradicts itself: {problem}.") from None
        _validate(job, states, names)
        return states, names, held.offsets
    if migration.survives(written, job.described, [old]):
        raise ForeignStateError(
            f"snapshot was written with population {old}; this job runs population {job.described['population']}. "
            f"Put the old file back, or set [population] replaces = [{old!r}]: then keys start over with the new "
            "population's head ('streamjobs state migrate JOB --population' shows what that means for how many)."
        )
    differ = [*written, *job.described]
    if old in (population.replaces or ()):  # all else may
        differ = migration.changed_signal(written, job.described)
    both = [{name: table[name] for name in table if name in differ} for table in (written, job.described)]
    raise ForeignStateError(snapshot.difference(*both))


def _checked(job: Job, held: Snapshot, states: dict[str, Any]) -> Decoded:
    """The states, if the stages could have left them. Raises SnapshotError."""
    states |= {name: job.own[name].with_bounds(states[name]) for name in job.check.bounded}
    _validate(job, states, held.names)
    return states, held.names, held.offsets


def _validate(job: Job, states: dict[str, Any], names: list[str]) -> None:
    """Raise SnapshotError with the name of a field that the stages could not have left so.

    Raises ForeignStateError for samples that wait, in a job where none does.
    """
    if ORDER in states and (waiting := len(states[ORDER].held_times)) and not job.own[ORDER].room("held_times"):
        raise ForeignStateError(
            f"{waiting} samples of a key wait because its state was written with [source] lateness, "
            "which this job does not have. Set lateness = '1ms': then the next sample of each key ends the wait."
        )
    classifies, least = job.task == "classification", job.given_names
    if names[: len(least)] != least:
        raise SnapshotError(f"snapshot has the classes {names!r:.200}, but this job's classes begin with {least!r:.200}.")
    if names and not classifies:
        refuse("names", "no classes in a regression", f"{len(names)}")
    if classifies and (len(names) > job.targets or len(set(names)) < len(names)):
        refuse("names", f"at most {job.targets} different classes", f"{len(names)}")
    job.check(states, len(names) if classifies else None)


class StoredSamples(NamedTuple):
    """Samples that a key's learner keeps: where they are in its state."""

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
    for field in SAMPLES:
        if hasattr(state, field) and hasattr(learner, "kernel"):
            if len(getattr(state, field)):
                yield StoredSamples(part, learner, state, field, width)
            return
    for name, inner in zip(state._fields, state, strict=True):
        if hasattr(inner, "_fields"):
            own = getattr(learner, name, None) or getattr(learner, "learner", None)
            yield from _within(f"{part}.{name}", own, inner, width)
