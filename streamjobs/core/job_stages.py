"""The stages of a job, in the order rows pass them, and the description its snapshots belong to."""

from typing import TYPE_CHECKING, Any, NamedTuple

from algorithms import Learner
from algorithms.drift.report import watches_columns
from streamjobs.core.state.population import Population, begin_head
from streamjobs.core.state.snapshot import FIELDS, hashes_of_fields
from streamjobs.settings.composition import Composition
from streamjobs.settings.composition.watches import INNOVATIONS, Watch
from streamjobs.settings.times import zone_of
from streamjobs.stages.alarms import Alarms
from streamjobs.stages.class_counts import ClassCounts, Fallback
from streamjobs.stages.clip_targets import ClipTargets
from streamjobs.stages.fill import Fill
from streamjobs.stages.idle import Idle
from streamjobs.stages.late_labels import LateLabels
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.names import DRIFT_REFERENCE, STORED
from streamjobs.stages.order import Order
from streamjobs.stages.population.reference import DIRECTIONS
from streamjobs.stages.reference import Reference
from streamjobs.stages.sensors import Sensors
from streamjobs.stages.smoothing import Elapsed, Refuted, Smoothing, Transitions
from streamjobs.stages.stage import JobStage
from streamjobs.stages.windows import Windows

if TYPE_CHECKING:
    from streamjobs.stages.events.bouts import Bouts
    from streamjobs.stages.events.forecasts import Forecasts
    from streamjobs.stages.events.pauses import Pauses
    from streamjobs.stages.events.rhythm import Rhythm
    from streamjobs.stages.events.silent import Grouped, SilentKeys
    from streamjobs.stages.events.slopes import Slopes
    from streamjobs.stages.events.stuck import StuckSensors
    from streamjobs.stages.sensors.counters import Counters


class WatchSteps(NamedTuple):
    """The stages of one watch for drift."""

    watch: Watch
    follower: LearnerStage | None  # an extractor or control that only follows the stream; None: the job's own learner
    detector: LearnerStage
    columns: bool  # the detector watches columns of rows, not an error


class Steps(NamedTuple):
    """A job's stages in the order rows pass them; None: the job has no such stage. A new stage needs a field here.

    A field's name is the name by which stored states know the stage, but for three: see `stages.names.STORED`.
    """

    counters: "Counters | None"
    fill: Fill | None
    sensors: Sensors | None
    order: Order
    idle: Idle | None
    windows: Windows | None
    waiting: LateLabels | None
    clip: ClipTargets | None
    scaling: LearnerStage | None
    map: LearnerStage | None
    learner: LearnerStage
    reference: Reference | None
    reference_scaling: LearnerStage | None
    slopes: "Slopes | None"
    rhythm: "Rhythm | None"
    watches: tuple[WatchSteps, ...]
    alarms: Alarms | None
    smoothing: Smoothing | Transitions | None
    fallback: Fallback | None
    class_counts: ClassCounts
    bouts: "Bouts | None"
    stuck: "StuckSensors | None"
    silent: "SilentKeys | None"
    group: "Grouped | None"
    forecasts: "Forecasts | None"
    pauses: "Pauses | None"
    refuted: Refuted | None
    elapsed: Elapsed | None

    def by_name(self) -> dict[str, JobStage]:
        """The stages in their order by the names that stored states know."""
        stages: dict[str, JobStage] = {}
        for field, step in zip(self._fields, self, strict=True):
            if field == "watches":
                for watch in self.watches:
                    if watch.follower is not None:
                        stages[watch.watch.learner_stage] = watch.follower
                    stages[watch.watch.detector_stage] = watch.detector
            elif isinstance(step, JobStage):
                stages[STORED.get(field, field)] = step
        return stages


def steps_of(composition: Composition, population: Population | None, targets: int, known: int) -> Steps:
    """The stages of a job.

    targets: columns of a prediction; known: classes that a new key knows from the population.
    """
    source, drift, sensors = composition.settings.source, composition.settings.drift, composition.sensors
    start = None if population is None else begin_head(population, composition.learner, targets, composition.boosts)
    alarming, watched = sum(not watch.control for watch in composition.watches), len(composition.watches)
    smoothing = composition.smoothing and composition.smoothing.taught(population and population.transitions)
    filtering = smoothing if smoothing is not None and smoothing.probabilities else None
    return Steps(
        counters=composition.counters,
        fill=composition.fill,
        sensors=sensors,
        order=Order(policy=source.late, lateness=0.0 if sensors else source.lateness, duplicates=source.duplicates),
        idle=Idle(after=drift.idle) if drift is not None and drift.idle else None,
        windows=composition.windows,
        waiting=composition.waiting,
        clip=composition.clip,
        scaling=_learner(composition.scaling, population and population.scaling),
        map=_learner(composition.map, population and population.map),
        learner=LearnerStage(learner=composition.learner, predicts=True, start=start),
        reference=composition.reference,
        reference_scaling=_reference_scaling(composition, population),
        slopes=composition.slopes,
        rhythm=_rhythm(composition),
        watches=_watches(composition.watches, DIRECTIONS if composition.between is not None else 0),
        alarms=Alarms(watches=alarming, columns=composition.width) if watched and "alarms" in composition.sinks else None,
        smoothing=smoothing,
        fallback=Fallback() if composition.falls_back else None,
        class_counts=ClassCounts(classes=targets if composition.task == "classification" else 0, given=known),
        bouts=composition.bouts,
        stuck=composition.stuck,
        silent=composition.silent,
        group=composition.group,
        forecasts=composition.forecasts,
        pauses=_pauses(composition),
        refuted=Refuted() if filtering and composition.waiting is not None else None,  # labels come later than their rows
        elapsed=None if filtering is None else _elapsed(composition, filtering.hop),
    )


def _elapsed(composition: Composition, hop: float) -> Elapsed:
    """In front of a filter, which follows rows of one key in time. hop: seconds between the rows that taught it."""
    timed, windows = composition.settings.source.time is not None, composition.windows
    return Elapsed(hop=windows.hop if windows is not None else hop if timed else 0.0)


def _learner(learner: Learner | None, taught: Any) -> LearnerStage | None:
    """A stage of each key, or where the population taught it one of all keys together."""
    return None if learner is None else LearnerStage(learner=learner, shared=None if taught is None else taught.state)


def _reference_scaling(composition: Composition, population: Population | None) -> LearnerStage | None:
    """The scale of the rows that an extractor sees, which stands still with it; a population's stands still anyway."""
    follows = any(watch.learner is not None for watch in composition.watches)
    if composition.reference is None or composition.scaling is None or not follows or (population and population.scaling):
        return None
    return LearnerStage(learner=composition.scaling, watches=True)


def _rhythm(composition: Composition) -> "Rhythm | None":
    """With [drift] daily, which watches of columns alone allow."""
    drift = composition.settings.drift
    if drift is None or not drift.daily:
        return None
    from streamjobs.stages.events.rhythm import Rhythm

    zone = composition.settings.source.time_zone
    return Rhythm(week=drift.week or "", zone=None if zone is None else zone_of(zone))


def _pauses(composition: Composition) -> "Pauses | None":
    """Where the rows before are what a row is compared with."""
    if not any(watch.learner_stage == INNOVATIONS for watch in composition.watches):
        return None
    from streamjobs.stages.events.pauses import Pauses

    return Pauses()


def _watches(watches: tuple[Watch, ...], before_row: int) -> tuple[WatchSteps, ...]:
    """before_row: numbers that a detector of columns gets before those of a row."""
    followers = {
        watch.learner_stage: LearnerStage(learner=watch.learner, watches=True)
        for watch in watches
        if watch.learner is not None
    }
    steps = []
    for watch in watches:
        columns = watches_columns(watch.detector)
        detector = LearnerStage(learner=watch.detector, watches=True, reads_error=not columns, before_row=before_row)
        steps.append(WatchSteps(watch, followers.get(watch.learner_stage), detector, columns))
    return tuple(steps)


def described_by(
    stages: dict[str, JobStage], composition: Composition, targets: int, population: Population | None
) -> dict[str, str]:
    """What a job's snapshots belong to: all that decides what their arrays mean, by name, as people read it."""
    described = {"dim": str(composition.dim), "labels": str(targets)}
    if names := hashes_of_fields(composition.settings.source).rstrip(":"):
        described[FIELDS] = names
    described |= {name: text for name, stage in stages.items() if (text := stage.description()) is not None}
    if composition.facts["mirror"] != "none":
        described["mirror"] = composition.facts["mirror"]
    if composition.classes is not None:
        described["classes"] = ",".join(composition.classes)
    if composition.falls_back:
        described["fallback"] = "last_label"
    if population is not None:
        described["population"] = population.fingerprint.hex()
        if composition.between is not None and population.compared_with is not None:
            described[DRIFT_REFERENCE] = population.compared_with
    return described
