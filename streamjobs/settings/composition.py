"""What a job is made of, from its settings alone: its learners and windows, who shares them, and what labels are.

With [population] the scale and the map are shared by all keys and stand still, and a key's learner is the head alone.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from algorithms import LEARNERS, Learner, learner_from
from algorithms.common.kernels import Kernel
from algorithms.common.protocol import SettingError, Stage
from algorithms.heads.gated import GatedRls
from algorithms.heads.smoothing import Smoothing
from streamjobs.settings.sections import DriftSection, HeadSection, ScalingSection, Settings
from streamjobs.stages.idle import Idle
from streamjobs.stages.late_labels import Waiting
from streamjobs.stages.windows import Windows

TASK = ("task", "classes", "max_classes", "targets", "smooth", "fallback")  # of [head]; a predicting learner may have them
MOST_WAITING = 100_000  # rows of a key
PREDICTING = ("regression", "classification")
_TAUGHT = ("forgetting", "delta", "intercept")  # settings in which a person's head and the population's must agree
EXTRACTOR, DETECTOR, BESIDE = "drift_extractor", "drift", "beside_"


class Parts(NamedTuple):
    """Learners and windows as the settings name them; nothing has been learned yet."""

    dim: int  # of a sample
    width: int  # of what scaling and map see: dim, or the statistics of a window
    windows: Windows | None
    waiting: Waiting | None  # where labels may come later
    scaling: Learner | None
    map: Learner | None  # with [population]: shared by all keys; None where x goes straight into the head
    learner: Learner  # a key's own: with [population] the head, else everything
    teacher: Learner | None  # with [population]: the head that learns from other people
    smoothing: Smoothing | None
    task: str  # classification | regression | none (the learner predicts nothing)
    classes: list[str] | None  # declared ones
    max_classes: int | None  # None: a population's
    targets: int  # of a regression
    falls_back: bool  # on the last label, where a row has no scores
    facts: dict[str, str]  # what a population of this job belongs to

    @property
    def predicts(self) -> bool:
        return self.task != "none"


class Watch(NamedTuple):
    """A learner whose error a detector watches, both by the names of their stages."""

    name: str  # of the learner, as outputs and metrics show it
    learner: str | None  # None: the job's own
    detector: str


def parts_of(settings: Settings) -> Parts:
    """Raises SettingError for what the learners refuse, ValueError where the length of x is not stated."""
    source = settings.source
    dim = len(source.fields) if source.fields else source.dim
    if dim is None:
        raise ValueError("[source]: state `fields = [...]`, or `dim` beside `x`.")
    population = settings.population is not None
    mapping, learner = _learners(settings)
    head = settings.head or HeadSection(name=settings.learner.name, **_task_of(settings, learner))
    task = head.task if learner.kind in PREDICTING else "none"
    if population and task != "classification":
        raise SettingError("[population] needs a head that classifies; set [head] name = 'rls', task = 'classification'.")
    classifies = task == "classification"
    windows = _windows(settings, "mean" if task == "regression" else "majority")
    own_most = population and "max_classes" not in head.model_fields_set
    gated = isinstance(getattr(learner, "head", learner), GatedRls)
    return Parts(
        dim=dim,
        width=windows.width_for(dim) if windows else dim,
        windows=windows,
        waiting=_waiting(settings),
        scaling=_scaling(settings),
        map=mapping,
        learner=learner,
        teacher=learner_from("rls", {name: getattr(learner, name) for name in _TAUGHT}) if population else None,
        smoothing=Smoothing(smooth=head.smooth) if classifies and head.smooth > 0 else None,
        task=task,
        classes=list(head.classes) if head.classes and classifies else None,
        max_classes=None if own_most and not head.classes else len(head.classes or ()) or head.max_classes,
        targets=head.targets,
        falls_back=classifies and (head.fallback == "last_label" or (gated and head.fallback is None)),
        facts=_facts(settings, windows),
    )


def sinks_of(settings: Settings, parts: Parts) -> dict[str, str]:
    """sink -> topic of those a job uses."""
    base, chosen = settings.source.topic, settings.sinks
    gives_features = parts.map is not None or parts.learner.kind == "features" or settings.head is not None
    wanted = {
        "features": gives_features,
        "predictions": parts.predicts,
        "drift": settings.drift is not None,
        "dlq": True,
    }
    sinks = {}
    for sink, on in wanted.items():
        topic = getattr(chosen, sink)
        if on and (topic != "" or sink == "dlq"):
            sinks[sink] = topic or f"{base}.{sink}"
    return sinks


def without_population(settings: Settings) -> Settings:
    """The job before anything was fitted: every key learns its own scale and map."""
    scaling = ScalingSection(**{**settings.scaling.model_dump(), "from": None})
    learner = settings.learner.model_copy(update={"freeze": None})
    return settings.model_copy(update={"population": None, "scaling": scaling, "learner": learner})


def head_named(name: str, own: Mapping[str, Any], population: bool, fallback: str | None) -> tuple[str, dict[str, Any]]:
    """The registry's name and settings of a head as the job file names it: `rls` with a gate is gated_rls.

    >>> head_named("rls", {"boost": 10.0}, False, None)
    ('gated_rls', {'boost': 10.0})
    """
    gated = {field.name for field in dataclasses.fields(LEARNERS["gated_rls"])} - {  # type: ignore[arg-type]
        field.name
        for field in dataclasses.fields(LEARNERS["rls"])  # type: ignore[arg-type]
    }
    if name == "rls" and (population or gated & set(own)):
        name = "gated_rls"
    return name, {**own, "fallback": fallback} if name == "gated_rls" and fallback is not None else dict(own)


def describe(stage: Stage) -> str:
    """A stage as people write it: its name and the settings that are not their defaults.

    >>> describe(learner_from("lms", {"step_size": 0.5}))
    'Lms(step_size=0.5)'

    The text is part of the fingerprint of every stored state, so it is made of persisted names, not of Python's.
    """
    assert dataclasses.is_dataclass(stage)
    shown = []
    for field in dataclasses.fields(stage):
        value = getattr(stage, field.name)
        if value != field.default:
            shown.append(f"{field.name}={_shown(value)}")
    return f"{stage.persisted_name}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, Stage):
        return repr(describe(value))  # in quotes, as it was first stored
    if isinstance(value, Kernel):
        numbers = [f"{field.name}={getattr(value, field.name)!r}" for field in dataclasses.fields(value)]
        return f"{value.persisted_name}({', '.join(numbers)})"
    return repr(value)


def _learners(settings: Settings) -> tuple[Learner | None, Learner]:
    """The map all keys share (None without [population], or where there is none), and a key's own learner."""
    extra, population = settings.learner.model_extra or {}, settings.population is not None
    own = {name: value for name, value in extra.items() if name not in TASK}
    if settings.head is None:
        name, own = head_named(settings.learner.name, own, population, extra.get("fallback"))
        made = learner_from(name, {"intercept": True, **own} if population and name == "gated_rls" else own)
        if population and not isinstance(made, GatedRls):
            raise SettingError(f"[population] needs a head such as 'rls' behind {settings.learner.name}.")
        return None, made
    head_extra = settings.head.model_extra or {}
    name, head = head_named(settings.head.name, head_extra, population, settings.head.fallback)
    made_of = LEARNERS.get(name)
    if made_of is not None and any(field.name == "intercept" for field in dataclasses.fields(made_of)):  # type: ignore[arg-type]
        head.setdefault("intercept", True)  # features have no constant column of their own
    if not population:
        table = {"extractor": {"name": settings.learner.name, **own}, "head": {"name": name, **head}}
        return None, learner_from("chain", table)
    made = learner_from(name, head)
    if not isinstance(made, GatedRls):
        raise SettingError(
            f"[population] needs the head 'rls' (or 'gated_rls'); {settings.head.name} cannot begin from one."
        )
    return learner_from(settings.learner.name, own).headless, made


def _task_of(settings: Settings, learner: Learner) -> dict[str, Any]:
    """What [head] would say of a learner that predicts by itself."""
    extra = settings.learner.model_extra or {}
    usual = "classification" if settings.population is not None else "regression"
    return {"task": usual, **{name: extra[name] for name in TASK if name in extra}}


def _scaling(settings: Settings) -> Learner | None:
    scaling = settings.scaling
    if scaling.method == "none" and not scaling.unit_norm and not scaling.clip:
        return None
    return learner_from("scaling", scaling.model_dump(exclude={"from"}))


def _windows(settings: Settings, label: str) -> Windows | None:
    window = settings.window
    if window is None:
        return None
    return Windows(
        length=window.length,
        hop=window.hop or window.length,
        label=label,
        rate=window.rate,
        gap=window.gap,
        statistics=window.statistics,
    )


def _waiting(settings: Settings) -> Waiting | None:
    labels, window = settings.labels, settings.window
    if labels.wait <= 0 and labels.delay <= 0:
        return None
    hop = (window.hop or window.length) if window else None
    within, most = labels.within, labels.most
    if within is None:
        within = hop / 2 if hop else 0.0
    if most is None:
        most = math.ceil(min(max(labels.wait, labels.delay) / hop, MOST_WAITING - 1)) + 1 if hop else 1000
    return Waiting(wait=labels.wait, delay=labels.delay, within=within, most=most)


def _facts(settings: Settings, windows: Windows | None) -> dict[str, str]:
    source, mirror = settings.source, settings.window.mirror if settings.window else None
    facts = {"x": ",".join(source.fields) if source.fields else f"{source.dim} numbers"}
    facts["windows"] = describe(windows) if windows else "none"
    facts["mirror"] = f"{','.join(mirror.columns)} where {mirror.field} = {mirror.when!r}" if mirror else "none"
    return facts


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
