"""The stages rows pass on their way, made from the settings, and how snapshots say which they were."""

from algorithms.common.protocol import Stage
from streamjobs.config import Settings
from streamjobs.core.books import Books
from streamjobs.core.drifting import drift_stages, idle_stage
from streamjobs.core.fallback import Fallback
from streamjobs.core.order import Order
from streamjobs.core.parts import Parts, describe
from streamjobs.core.population import Population

SIGNAL = ("order", "idle", "windows", "waiting")  # of a key's signal: fresh for a new key, also after a warm start
_UNTOLD = ("order", "books", "fallback")  # of these no setting changes what the arrays of a snapshot mean


def stages_of(settings: Settings, parts: Parts, targets: int, known: int) -> dict[str, Stage]:
    """Stages by name: order, idle?, windows?, waiting?, scaling?, map?, learner, of drift, smoothing?, fallback?, books.

    targets: columns of a prediction; known: classes that a new key knows from the population.
    """
    source = settings.source
    stages: dict[str, Stage] = {"order": Order(policy=source.late, lateness=source.lateness, duplicates=source.duplicates)}
    stages |= idle_stage(settings.drift)
    if parts.windows is not None:
        stages["windows"] = parts.windows
    if parts.waiting is not None:
        stages["waiting"] = parts.waiting
    if parts.scaling is not None:
        stages["scaling"] = parts.scaling
    if parts.map is not None:
        stages["map"] = parts.map
    stages["learner"] = parts.learner
    stages |= drift_stages(settings.drift)
    if parts.smoothing is not None:
        stages["smoothing"] = parts.smoothing
    if parts.falls_back:
        stages["fallback"] = Fallback()
    stages["books"] = Books(classes=targets if parts.task == "classification" else 0, given=known)
    return stages


def described_by(stages: dict[str, Stage], parts: Parts, targets: int, population: Population | None) -> dict[str, str]:
    """What a job's snapshots belong to: all that decides what their arrays mean, by name, as people read it."""
    described = {"dim": str(parts.dim), "labels": str(targets)}
    described |= {name: describe(stage) for name, stage in stages.items() if name not in _UNTOLD}
    if parts.facts["mirror"] != "none":
        described["mirror"] = parts.facts["mirror"]
    if parts.classes is not None:
        described["classes"] = ",".join(parts.classes)
    if parts.falls_back:
        described["fallback"] = "last_label"
    if population is not None:
        described["population"] = population.fingerprint.hex()
    return described
