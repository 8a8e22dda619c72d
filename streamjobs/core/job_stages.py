"""The stages of a job, in the order rows pass them, and the description its snapshots belong to."""

from typing import Any

from algorithms import Learner
from algorithms.drift.report import watches_columns
from streamjobs.core.state.population import Population, begin_head
from streamjobs.settings.composition import Composition, Watch
from streamjobs.stages.alarms import Alarms
from streamjobs.stages.class_counts import ClassCounts
from streamjobs.stages.fallback import Fallback
from streamjobs.stages.idle import Idle
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.names import (
    ALARMS,
    CLASS_COUNTS,
    CLIP,
    DRIFT_REFERENCE,
    FILL,
    IDLE,
    LEARNER,
    MAP,
    ORDER,
    REFERENCE,
    REFERENCE_SCALING,
    SCALING,
    SENSORS,
)
from streamjobs.stages.order import Order
from streamjobs.stages.population.reference import DIRECTIONS
from streamjobs.stages.stage import JobStage


def stages_of(composition: Composition, population: Population | None, targets: int, known: int) -> dict[str, JobStage]:
    """The stages of a job by name, in the order rows pass them. A new stage is a line here and a line in `core.advance`.

    targets: columns of a prediction; known: classes that a new key knows from the population.
    """
    source, drift, sensors = composition.settings.source, composition.settings.drift, composition.sensors
    start = None if population is None else begin_head(population, composition.learner, targets)
    in_order: dict[str, JobStage | None] = {
        FILL: composition.fill,
        SENSORS: sensors,
        ORDER: Order(policy=source.late, lateness=0.0 if sensors else source.lateness, duplicates=source.duplicates),
        IDLE: Idle(after=drift.idle) if drift is not None and drift.idle else None,
        "windows": composition.windows,
        "waiting": composition.waiting,
        CLIP: composition.clip,
        SCALING: _learner(composition.scaling, population and population.scaling),
        MAP: _learner(composition.map, population and population.map),
        LEARNER: LearnerStage(learner=composition.learner, predicts=True, start=start),
        REFERENCE: composition.reference,
        REFERENCE_SCALING: _reference_scaling(composition, population),
        **_drift(composition.watches, DIRECTIONS if composition.between is not None else 0),
        ALARMS: _alarms(composition) if "alarms" in composition.sinks else None,
        "smoothing": composition.smoothing,
        "fallback": Fallback() if composition.falls_back else None,
        CLASS_COUNTS: ClassCounts(classes=targets if composition.task == "classification" else 0, given=known),
    }
    return {name: stage for name, stage in in_order.items() if stage is not None}


def _learner(learner: Learner | None, taught: Any) -> LearnerStage | None:
    """A stage of each key, or where the population taught it one of all keys together."""
    return None if learner is None else LearnerStage(learner=learner, shared=None if taught is None else taught.state)


def _reference_scaling(composition: Composition, population: Population | None) -> LearnerStage | None:
    """The scale of the rows that an extractor sees, which stands still with it; a population's stands still anyway."""
    follows = any(watch.learner is not None for watch in composition.watches)
    if composition.reference is None or composition.scaling is None or not follows or (population and population.scaling):
        return None
    return LearnerStage(learner=composition.scaling, watches=True)


def _alarms(composition: Composition) -> Alarms:
    watches = sum(not watch.control for watch in composition.watches)
    return Alarms(watches=watches, columns=composition.width)


def _drift(watches: tuple[Watch, ...], before_row: int) -> dict[str, JobStage]:
    """Extractor, detector and controls. before_row: numbers that a detector of columns gets before those of a row."""
    stages: dict[str, JobStage] = {}
    for watch in watches:
        if watch.learner is not None:
            stages[watch.learner_stage] = LearnerStage(learner=watch.learner, watches=True)
        one_number = not watches_columns(watch.detector)
        stages[watch.detector_stage] = LearnerStage(
            learner=watch.detector, watches=True, reads_error=one_number, before_row=before_row
        )
    return stages


def described_by(
    stages: dict[str, JobStage], composition: Composition, targets: int, population: Population | None
) -> dict[str, str]:
    """What a job's snapshots belong to: all that decides what their arrays mean, by name, as people read it."""
    described = {"dim": str(composition.dim), "labels": str(targets)}
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
