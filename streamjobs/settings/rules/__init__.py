"""Valid sections checked as a whole: the learners that they name, then what contradicts what.

A rule needs only the sections that it names.
"""

import dataclasses
from collections.abc import Mapping, Set
from typing import Any

from algorithms import Learner
from algorithms.common.kernels import Kernel
from streamjobs.settings import sections as models
from streamjobs.settings.learners import PREDICTING, TASK, own_settings, read_learners
from streamjobs.settings.rules import broker as of_broker
from streamjobs.settings.rules import drift as of_drift
from streamjobs.settings.rules import source as of_source
from streamjobs.settings.sentences import Path, Places, validated
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import Problems
from streamjobs.stages.statistics import CONVOLVED
from streamjobs.stages.windows import MOST_SAMPLES

LONGEST_TRANSACTION = 60.0  # seconds; a third of the broker's timeout, TRANSACTION_TIMEOUT of worker.changelog


def check_sections(
    sections: dict[str, Any], places: Places, blamed: Set[Path] = frozenset(), unknown: Set[str] = frozenset()
) -> tuple[dict[str, Learner], list[str]]:
    """The learners as `read_learners` gives them, and every problem, one sentence each. Adds `task` to the sections.

    sections: by name; a section that is there but not valid is None. blamed: settings with an error that was reported
    already; unknown: sections with mistakes of their own.
    """
    learners, problems = read_learners(sections, places)
    _add_task(sections, learners, places, problems)
    valid = {name: section for name, section in sections.items() if section is not None}
    for place, sentence in contradictions(valid | dict.fromkeys(unknown), learners):
        path = tuple(place.split("."))
        if path not in blamed:
            problems.append(places.of(path) + sentence)
    return learners, problems


def _add_task(sections: dict[str, Any], learners: Mapping[str, Learner], places: Places, problems: list[str]) -> None:
    """Where no [head] says what labels are, [learner] does: adds `task` to the sections.

    A learner that predicts by itself says what labels are by its kind where [learner] does not.
    """
    if "head" in sections:
        if sections["head"] is not None:
            sections["task"] = sections["head"]
        return
    section, learner = sections.get("learner"), learners.get("learner")
    if section is None:
        return
    own = own_settings(section)
    if learner is not None and learner.kind in PREDICTING and "task" not in own:
        section = models.LearnerSection(
            name=section.name, freeze=section.freeze, input=section.input, task=learner.kind, **own
        )
        sections["learner"] = section
    stated = {name: value for name, value in own_settings(section).items() if name in TASK}
    task, refused = validated(models.HeadSection, "learner", {"name": section.name, **stated}, places)
    problems += [sentence for _, sentence in refused]
    sections["task"] = task


def contradictions(parts: Mapping[str, Any], learners: Mapping[str, Learner]) -> Problems:
    """Each contradiction with its setting. parts: the valid sections by name; learners: the valid learners by section."""
    if (job := parts.get("job")) and job.name in (".", ".."):
        yield "job.name", f"name must be a valid name of a folder and of a topic; got {job.name!r}."
    if source := parts.get("source"):
        yield from of_source.source_contradictions(source)
        yield from of_source.format_contradictions(source, parts.get("registry"), "registry" in parts)
        if source.sensors is not None:
            yield from of_source.sensor_contradictions(source, source.sensors, parts.get("window"))
    if broker := parts.get("broker"):
        yield from of_broker.access_contradictions(broker)
    if registry := parts.get("registry"):
        yield from of_broker.registry_contradictions(registry)
    if window := parts.get("window"):
        yield from _window(window)
        if source:
            yield from of_source.window_contradictions(window, source)
    if metrics := parts.get("metrics"):
        yield from of_broker.secrets_given_twice("metrics", metrics)
    if state := parts.get("state"):
        yield from _state(state, job)
        if source and state.ttl is not None:
            yield from _ttl(state.ttl, source, parts.get("labels"))
    if learner := parts.get("learner"):
        yield from _roles(learner, parts.get("head"), learners)
    if task := parts.get("task"):
        section = "head" if parts.get("head") else "learner"
        yield from _task(section, task)
        yield from _learned_by_fit(section, task, parts)
    if drift := parts.get("drift"):
        yield from of_drift.drift_contradictions(drift, parts.get("head"), learners, parts.get("population") is not None)
        if source and source.width == 1 and parts.get("window") is None:
            yield from of_drift.one_number_contradictions(drift, learners)
        if state := parts.get("state"):
            yield from of_drift.start_contradictions(drift, state)
    yield from _population(parts, learners)
    if scaling := parts.get("scaling"):
        yield from _codes(scaling, learners)
    if (labels := parts.get("labels")) and source:
        yield from _labels(labels, source, parts, learners)
    if (forecast := parts.get("forecast")) and source:
        from streamjobs.settings.rules.forecast import forecast_contradictions  # few jobs have it

        if forecast.learner is None or "forecast" in learners:
            yield from forecast_contradictions(forecast, source, parts.get("window"), learners.get("forecast"))
    if (sinks := parts.get("sinks")) and source:
        yield from of_drift.sinks_contradictions(sinks, source, parts, learners)


def _codes(scaling: models.ScalingSection, learners: Mapping[str, Learner]) -> Problems:
    """Codes are equal or not; scaled by a mean that moves, no code equals a stored one."""
    if scaling.method != "none" and any(_compares_codes(learner) for learner in learners.values()):
        expected = "must be 'none' with the kernel 'overlap', which compares codes"
        yield "scaling.method", f"method {expected}; got {scaling.method!r}. Set [scaling] method = 'none'."


def _compares_codes(part: Any) -> bool:
    if isinstance(part, Kernel):
        return part.name == "overlap"
    held = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    return any(_compares_codes(getattr(part, one.name)) for one in held)


def _window(window: models.WindowSection) -> Problems:
    samples, period = window.length * window.rate, 1 / window.rate
    if not 4 <= samples <= MOST_SAMPLES:
        yield "window.length", f"length must hold 4 to {MOST_SAMPLES} samples at {window.rate:g} Hz; got {samples:g}."
    if window.hop is not None and not period <= window.hop <= window.length:
        expected = f"from one sample period ({period:g} s) to the length ({window.length:g} s)"
        yield "window.hop", f"hop must be {expected}; got {window.hop:g} s."
    least, most = CONVOLVED
    if window.convolutions and not least <= window.length * window.rate <= most:
        yield "window.convolutions", f"convolutions need windows of {least} to {most} samples; got {samples:g}. Remove it."
    if window.gap is not None and window.gap < period:
        yield "window.gap", f"gap must be at least one sample period ({period:g} s); got {window.gap:g} s."


def _state(state: models.StateSection, job: models.JobSection | None) -> Problems:
    if state.checkpoint is None:
        return
    if state.checkpoint <= 0:
        yield "state.checkpoint", f"checkpoint must be above 0; got {state.checkpoint:g} s."
    if job is not None and job.guarantee == "exactly_once" and state.checkpoint > LONGEST_TRANSACTION:
        expected = f"must be {LONGEST_TRANSACTION:g} s or less, or the broker ends the transaction"
        yield "state.checkpoint", f"with [job] guarantee = 'exactly_once' checkpoint {expected}; got {state.checkpoint:g} s."


def _ttl(ttl: float, source: SourceSection, labels: models.LabelsSection | None) -> Problems:
    waits = 0.0 if source.sensors is None else source.sensors.patience
    longest_wait = max(source.lateness + waits, labels.wait if labels else 0.0, labels.delay if labels else 0.0)
    if ttl <= longest_wait or ttl <= 0:
        settings = "[source] lateness, [source.sensors] wait, [labels] wait and delay"
        expected = f"must be longer than the time that samples and labels wait ({settings}: "
        yield "state.ttl", f"ttl {expected}{longest_wait:g} s); got {ttl:g} s."


def _roles(learner: models.LearnerSection, head: models.HeadSection | None, learners: Mapping[str, Learner]) -> Problems:
    main, head_learner = learners.get("learner"), learners.get("head")
    if main is not None and main.kind == "drift":
        yield "learner.name", f"{learner.name} is a drift detector; it belongs in [drift] as 'detector'."
    if main is not None and main.kind == "features" and main.width_for(8) == 0:
        yield "learner.name", f"{learner.name} gives no features; it belongs in the list [drift] 'beside'."
    if main is not None and not main.bounded:
        yield (
            "learner.name",
            f"{learner.name} with these settings stores every sample; a job runs bounded learners only. "
            "Set a budget (max_terms of some learners), or choose another learner.",
        )
    placed = sorted(set(TASK) & set(learner.model_extra or {}))
    if head is None:
        if main is not None and main.kind == "features":
            for name in placed:
                yield f"learner.{name}", f"{name} belongs in [head]: {learner.name} gives features and predicts nothing."
        return
    if main is not None and "head" in (learner.model_extra or {}):
        yield "learner.head", "head has no meaning in a job with a [head] section; remove one of the two."
    if main is not None and main.kind in PREDICTING:
        yield (
            "head.name",
            f"{learner.name} predicts by itself and takes no head; remove [head], or choose a learner that gives features.",
        )
    else:
        for name in placed:
            yield f"learner.{name}", f"{name} belongs in [head], which makes the predictions."
    if head_learner is not None and head_learner.kind not in PREDICTING:
        yield "head.name", f"a head must predict; {head.name} gives {head_learner.kind}. Choose a head such as 'rls'."
    if head_learner is not None and not head_learner.bounded:
        yield (
            "head.name",
            f"{head.name} with these settings stores every sample; a job runs bounded learners only. "
            "Set a budget, or choose another head.",
        )


def _learned_by_fit(section: str, task: models.HeadSection, parts: Mapping[str, Any]) -> Problems:
    population, window = parts.get("population"), parts.get("window")
    if task.task != "classification":
        return
    if task.reject is not None and population is None:
        yield (
            f"{section}.reject",
            "reject needs a [population]: 'streamjobs fit' learns from people left out which scores are usual. "
            "Add one, or remove the setting.",
        )
    if task.filter is None:
        if task.lasts is not None:
            yield f"{section}.lasts", "lasts is a setting of filter = 'hmm'; add that, or remove it."
        return
    if population is None:
        yield (
            f"{section}.filter",
            "filter = 'hmm' needs a [population]: 'streamjobs fit' learns it from people left out. Add one, or set smooth.",
        )
    if task.smooth:
        yield f"{section}.smooth", f"smooth and filter = 'hmm' exclude each other; got smooth = {task.smooth:g}. Remove one."
    if task.lasts is not None and isinstance(window, models.WindowSection) and task.lasts <= (window.hop or window.length):
        hop = window.hop or window.length
        yield f"{section}.lasts", f"lasts must be longer than the hop of windows ({hop:g} s); got {task.lasts:g} s."


def _task(section: str, task: models.HeadSection) -> Problems:
    stated = {name for name, field in models.HeadSection.model_fields.items() if getattr(task, name) != field.default}
    if task.task == "regression":
        for name in ("classes", "max_classes", "smooth", "filter", "lasts", "fallback", "reject"):
            if name in stated:
                yield (
                    f"{section}.{name}",
                    f"{name} has no meaning in a regression; remove it, or set task = 'classification'.",
                )
        return
    for name in ("targets", "clip_target"):
        if name in stated:
            yield f"{section}.{name}", f"{name} has no meaning in a classification; remove it, or set task = 'regression'."
    if task.classes is None:
        return
    if len(task.classes) < 2 or len(set(task.classes)) < len(task.classes) or "" in task.classes:
        yield f"{section}.classes", f"classes must be two or more different texts; got {task.classes!r}."
    if "max_classes" in stated and task.max_classes < len(task.classes):
        got = task.max_classes
        yield (
            f"{section}.max_classes",
            f"max_classes must be at least the number of classes ({len(task.classes)}); got {got}.",
        )


def _population(parts: Mapping[str, Any], learners: Mapping[str, Learner]) -> Problems:
    population, scaling, learner = parts.get("population"), parts.get("scaling"), parts.get("learner")
    if population is None:
        if isinstance(scaling, models.ScalingSection) and scaling.shared:
            yield "scaling.from", "from = 'population' needs a [population] with the file that 'streamjobs fit' writes."
        if learner is not None and learner.freeze:
            yield "learner.freeze", "freeze = true needs a [population]: without one, the map would never learn."
        if learner is not None and learner.input:
            yield "learner.input", "input = true needs a [population] and a [head]; add them, or remove it."
        if (window := parts.get("window")) is not None and window.convolutions:
            yield "window.convolutions", "convolutions need a [population], because its file has them; add it, or set 0."
        return
    if isinstance(scaling, models.ScalingSection) and scaling.shared is False:
        yield "scaling.from", "from must be 'population' or absent: the population's map was learned at its scale."
    if learner is not None and learner.input and parts.get("head") is None:
        yield "learner.input", "input = true needs a [head] that sees the map's features; add one, or remove it."
    if learner is not None and learner.freeze is False:
        yield (
            "learner.freeze",
            "freeze must be true or absent with [population]; use [state] start_from to give each key a map that learns.",
        )
    state, head = parts.get("state"), parts.get("head")
    if (source := parts.get("source")) and source.counters:
        yield "source.counters", "counters cannot be used with [population]: 'streamjobs fit' reads x as it is; remove one."
    if state is not None and state.start_from is not None:
        yield "state.start_from", "start_from and [population] both set how new keys start; remove one."
    name = "learner" if head is None else "head"
    predictor = learners.get(name)
    begins = predictor is not None and predictor.begins_from_population
    if predictor is not None and not begins and (head is not None or predictor.kind in PREDICTING):
        got = (head or parts["learner"]).name
        yield f"{name}.name", f"{got} cannot start from a [population]; the head must be 'rls' (or 'gated_rls')."
    elif head is None and predictor is not None and predictor.kind not in PREDICTING:
        yield (
            "population.file",
            f"a [population] needs a head, and {parts['learner'].name} only gives features; add [head] name = 'rls'.",
        )
    task = parts.get("task")
    if task is not None and task.task != "classification" and begins:
        yield f"{name}.task", "task must be 'classification' with [population]."


def _labels(
    labels: models.LabelsSection, source: SourceSection, parts: Mapping[str, Any], learners: Mapping[str, Learner]
) -> Problems:
    on = next((name for name in ("wait", "delay") if getattr(labels, name) > 0), None)
    if on is None:
        for name in ("within", "most"):
            if getattr(labels, name) is not None:
                yield f"labels.{name}", f"{name} has no meaning without wait or delay; set one of them, or remove {name}."
        return
    if source.format == "raw" and labels.wait > 0:
        yield "labels.wait", "wait has no meaning in raw records: their labels always come with x; use json or msgpack."
    elif source.label is None and source.format != "raw":
        yield f"labels.{on}", f"{on} needs the field with the label; set [source] label."
    elif source.time is None and source.format != "raw":
        yield f"labels.{on}", f"{on} needs the field with the event time; set [source] time."
    learner, drift = learners.get("learner"), parts.get("drift")
    if parts.get("head") is None and learner is not None and learner.kind not in PREDICTING:
        yield f"labels.{on}", f"{on} needs something that learns labels; add a [head]."
    if drift is not None and "loss" in drift.watch_names:
        yield "drift.watch", "watch = 'loss' misses labels that are learned later; with [labels], watch 'ls_error'."
