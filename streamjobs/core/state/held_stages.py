"""The stages with a state in a snapshot: the present job may have stages that the writing job did not have."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from streamjobs.core.state.snapshot import FIELDS, Snapshot, array_counts, described_by, table_of
from streamjobs.stages.alarms import Alarms
from streamjobs.stages.clip_targets import ClipTargets
from streamjobs.stages.fill import Fill
from streamjobs.stages.idle import Idle
from streamjobs.stages.names import (
    ALARMS,
    BOUTS,
    CLIP,
    COUNTERS,
    DRIFT_REFERENCE,
    ELAPSED,
    FILL,
    FORECASTS,
    GROUP,
    IDLE,
    LEARNER,
    ORDER,
    PAUSES,
    REFUTED,
    SCALING,
    SILENT,
    STUCK,
)
from streamjobs.stages.stage import JobStage, Shape

BEHIND = (BOUTS, STUCK, SILENT, GROUP, FORECASTS, PAUSES, REFUTED, ELAPSED)  # stages that come last, in their order
EITHER = (FIELDS, FILL, CLIP, *BEHIND)  # states are read whether or not they have these
SECTIONS = {BOUTS: "[bouts]", STUCK: "[alarms]", SILENT: "[alarms]", GROUP: "[alarms]", FORECASTS: "[forecast]"}
SETTINGS = {**SECTIONS, STUCK: "[alarms] stuck", SILENT: "[alarms] silent", GROUP: "[alarms] group"}


def of_description(
    held: Snapshot, fingerprint: bytes, described: Mapping[str, str], own: dict[str, JobStage]
) -> dict[str, JobStage] | None:
    """The stages of a snapshot in order: this job's `own`, with or without EITHER; None: another job wrote it.

    Missing numbers may be filled or not as [source] missing says, targets clipped as [head] clip_target does (none were up
    to 0.2.0), and sections added that need BEHIND: a key that had no such state begins it, one that needs none any more
    drops it. What the population's reference of [drift] was does not matter either: its detector starts over.
    """
    if held.fingerprint == fingerprint:
        return own
    written = table_of(held.description)
    return front_as_written(own, written) | behind_as_written(own, written) if of_same_job(written, described) else None


def of_same_job(written: Mapping[str, Any], described: Mapping[str, Any]) -> bool:
    """Whether two jobs differ only in what `of_description` allows."""
    either = dict.fromkeys((*EITHER, DRIFT_REFERENCE), "")
    return {**written, **either} == {**described, **either}


def starting_over(stages: Mapping[str, JobStage], described: Mapping[str, Any], state: bytes) -> str:
    """Which sections a state has with other settings, or alone, and what happens; "" if none. Raises SnapshotError."""
    written = described_by(state)
    held = [name for name in SECTIONS if name in written]
    changed = {SECTIONS[name] for name in held if name in stages and written[name] != stages[name].description()}
    dropped = {SETTINGS[name] for name in held if name not in stages}
    sentences = []
    go_on = ", and models continue" if written.get("population") == described.get("population") else ""
    if changed:
        starts = "it starts" if len(changed) == 1 else "they start"
        sentences.append(
            f"{', '.join(sorted(changed))}: the states have other settings. With this job file {starts} over for each key "
            f"at its next record{go_on}. If this is another job, give it another [job] name."
        )
    if dropped:
        sentences.append(
            f"{', '.join(sorted(dropped))}: in the states, but not in this job file. The state of each key drops this part "
            f"when it is next written{go_on}. If you add the setting again later, such keys start it over."
        )
    return " ".join(sentences)


def front_as_written(own: Mapping[str, JobStage], written: Mapping[str, Any]) -> dict[str, JobStage]:
    """Those before BEHIND."""
    stages: dict[str, JobStage] = {}
    for name, stage in own.items():
        if name != COUNTERS and FILL in written and FILL not in stages:
            stages[FILL] = Fill(policies=())
        if CLIP not in own and CLIP in written and name in (SCALING, LEARNER) and CLIP not in stages:
            stages[CLIP] = ClipTargets()
        if name not in BEHIND and (name not in (FILL, CLIP, IDLE) or name in written):
            stages[name] = stage
        if name == ORDER and IDLE not in own and IDLE in written:
            stages[IDLE] = Idle(after=1)
    return stages


def behind_as_written(own: Mapping[str, JobStage], written: Mapping[str, Any]) -> dict[str, JobStage]:
    """Those of BEHIND that a snapshot's description has; with other settings it is another job's, which is left out."""
    stages: dict[str, JobStage] = {}
    for name in BEHIND:
        if name in own and written.get(name) == own[name].description():
            stages[name] = own[name]
        elif name in written:
            stages[f"{name} of others"] = _of_others(name, written[name])
    return stages


def _of_others(name: str, description: Any) -> JobStage:
    """A stage of BEHIND that this job has not, or not as a snapshot describes it."""
    from streamjobs.stages.events.bouts import Bouts  # few jobs have them
    from streamjobs.stages.events.pauses import Pauses
    from streamjobs.stages.events.silent import Grouped, SilentKeys
    from streamjobs.stages.events.stuck import StuckSensors, StuckWithoutRests
    from streamjobs.stages.smoothing import Elapsed, Refuted

    if name == FORECASTS:
        from algorithms.forecast.forecast import Forecast
        from streamjobs.stages.events.forecasts import Forecasts

        arrays = re.search(r" of (\d{1,5}) arrays$", str(description))  # `Forecasts.description`
        return OtherForecasts(int(arrays[1])) if arrays else Forecasts(learner=Forecast())
    if name == STUCK:
        former = StuckWithoutRests()
        return former if description == former.description() else StuckSensors()
    others: dict[str, JobStage] = {BOUTS: Bouts(shortest=0.0), SILENT: SilentKeys(), GROUP: Grouped()}
    others |= {PAUSES: Pauses(), REFUTED: Refuted(), ELAPSED: Elapsed()}
    return others[name]


class OtherForecasts(JobStage):
    """In a snapshot, so many arrays that this job does not read."""

    persisted_name: ClassVar[str] = "OtherForecasts"  # never stored

    def __init__(self, arrays: int) -> None:
        self.arrays = arrays

    def begin(self, shape: Shape, seed: int) -> Any:
        return (0,) * self.arrays


def of_arrays(
    stages: dict[str, JobStage], fresh: Mapping[str, Any], arrays: int, shape: Shape, behind: str | None
) -> dict[str, JobStage]:
    """These stages with ALARMS, or without, as the number of a snapshot's arrays tells: no setting describes it.

    behind: the stage that ALARMS comes after, None in a job that watches nothing.
    So the topic of alarms can be turned on and off: a key that kept none begins, one that needs none any more drops them.
    """
    without = {name: stage for name, stage in stages.items() if name != ALARMS}
    states = [fresh[name] if name in fresh else stage.begin(shape, 0) for name, stage in without.items()]
    least = sum(array_counts(states))
    if arrays == least:
        return without
    if ALARMS in stages or behind is None:
        return stages
    items, at = list(without.items()), list(without).index(behind) + 1
    return dict([*items[:at], (ALARMS, Alarms(columns=shape.width)), *items[at:]])
