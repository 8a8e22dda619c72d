"""Drift of a key, and the same detector on simple controls beside it.

A detector watches an error of the job's learner, or of an extractor of its own that only follows the stream; each control
is a learner with a detector of its own too, so that every verdict can be held against what a few lines of code would
have said. Rows of an idle sensor are not watched, and extractor and controls do not learn them: when it wakes up, what
they know is what was there before. A gap is no row at all.
"""

from typing import Any, NamedTuple

import numpy as np

from algorithms import Learner, learner_from
from algorithms.common.protocol import Array, Outputs, Stage
from streamjobs.config import DriftSection
from streamjobs.core.idle import Idle
from streamjobs.core.rows import Rows, Watched

EXTRACTOR, DETECTOR, BESIDE = "drift_extractor", "drift", "beside_"


class Watch(NamedTuple):
    """A learner whose error a detector watches, both by the names of their stages."""

    name: str  # of the learner, as outputs and metrics show it
    learner: str | None  # None: the job's own
    detector: str


def named(one: str | dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and settings of a learner given by its name, or by a table with the settings beside the name."""
    if isinstance(one, str):
        return one, {}
    return str(one.get("name")), {setting: value for setting, value in one.items() if setting != "name"}


def idle_stage(drift: DriftSection | None) -> dict[str, Stage]:
    """The stage that tells idle samples, where a job watches for drift."""
    return {"idle": Idle(after=drift.idle)} if drift is not None and drift.idle else {}


def drift_stages(drift: DriftSection | None) -> dict[str, Stage]:
    """Extractor, detector and controls by name; raises SettingError for what they refuse."""
    if drift is None:
        return {}
    stages: dict[str, Stage] = {}
    if drift.extractor is not None:
        stages[EXTRACTOR] = learner_from(*named(drift.extractor))
    stages[DETECTOR] = learner_from(*named(drift.detector))
    for control in drift.beside:
        name, settings = named(control)
        stages[BESIDE + name] = learner_from(name, settings)
        stages[f"{BESIDE}{name}_drift"] = stages[DETECTOR]
    return stages


def watches(drift: DriftSection | None, model: str) -> tuple[Watch, ...]:
    """What is watched: first what the job goes by, then the controls. model: name of the job's own learner."""
    if drift is None:
        return ()
    own = Watch(model, None, DETECTOR) if drift.extractor is None else Watch(named(drift.extractor)[0], EXTRACTOR, DETECTOR)
    names = [named(control)[0] for control in drift.beside]
    return (own, *(Watch(name, BESIDE + name, f"{BESIDE}{name}_drift") for name in names))


def watched(
    watch: Watch, stages: dict[str, Stage], work: dict[str, Any], slots: Array, X: Array, rows: Rows, value: Array
) -> Watched:
    """The rows through one watch: scaled X (n, width); value (n,) is the error of the job's own learner."""
    n, learn, nothing = len(slots), rows.learn, np.zeros((len(slots), 0))
    idle = None if rows.awake is None or rows.awake.all() else ~rows.awake
    if watch.learner is not None:
        learner = stages[watch.learner]
        assert isinstance(learner, Learner)
        followed = learner.outputs(n, X.shape[1], 0)
        learner.advance(
            work[watch.learner], slots, X, nothing, followed, learn if idle is None else np.where(idle, 0, learn)
        )
        value = followed.ls_error
    if idle is not None:
        value = np.where(idle, np.nan, value)
    detector = stages[watch.detector]
    assert isinstance(detector, Learner)
    found = detector.outputs(n, 1, 0)
    detector.advance(work[watch.detector], slots, value.reshape(n, 1).copy(), nothing, found, learn)
    return Watched(value, found.features)


def error_of(out: Outputs, drift: DriftSection) -> Array:
    """The error (n,) of the job's own learner that the detector watches."""
    return out.loss if drift.watch == "loss" else out.ls_error
