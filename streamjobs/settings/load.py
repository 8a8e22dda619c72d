"""The whole job file in one pass: sections, then the learners they name, then what contradicts what."""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from algorithms import Learner, SettingError
from algorithms.chain import Chain
from algorithms.common.settings import suggestion
from streamjobs.errors import ConfigError
from streamjobs.settings.broker_rules import written_secrets
from streamjobs.settings.composition import PREDICTING, TASK, head_named
from streamjobs.settings.drift_rules import drift_learners
from streamjobs.settings.environment import PREFIX, beyond, overridden, section_model
from streamjobs.settings.learners import made
from streamjobs.settings.rules import contradictions
from streamjobs.settings.sections import HeadSection, LearnerSection, NamedSection, Settings
from streamjobs.settings.sentences import Path, Places, validated


def settings_from(table: Mapping[str, Any], env: Mapping[str, str] | None = None, origin: str = "job.toml") -> Settings:
    """A job file's contents, with STREAMJOBS_SECTION__NAME of `env` in place of its settings.

    Learners, head and detector are really made once, so what they refuse shows here.
    Raises ConfigError with every problem, one sentence each, that begins with `origin` and the section.
    """
    if odd := beyond(table):
        raise ConfigError(f"{origin}: holds {odd}; no setting does.")
    written = written_secrets(table, origin)
    table, variables, problems = overridden(table, env or {})
    if odd := beyond(table):
        raise ConfigError(f"environment {PREFIX}SECTION__NAME: one holds {odd}; no setting does.")
    problems += written
    places = Places(origin, variables)
    for section in table:
        if section not in Settings.model_fields:
            problems.append(f"{origin}: unknown section [{section}]{suggestion(section, Settings.model_fields)}")
    parts: dict[str, Any] = {}
    blamed: set[Path] = set()
    for section, field in Settings.model_fields.items():
        if section in table:
            model = section_model(section)
            assert model is not None
            part, found = validated(model, section, table[section], places)
            for path, sentence in found:
                problems.append(sentence)
                blamed |= {path, _meant(path, model)}
            if part is not None:
                parts[section] = part
        elif field.is_required():
            problems.append(f"{origin}: section [{section}] is missing; a job needs [source] and [learner].")
        else:
            parts[section] = field.get_default(call_default_factory=True)
    learners = _learners(parts, table, places, problems)
    for path, sentence in contradictions(parts, learners):
        if path not in blamed:
            problems.append(places.of(path) + sentence)
    if problems:
        raise ConfigError(problems)
    return Settings(**{section: parts[section] for section in Settings.model_fields})


def _meant(path: Path, model: type[BaseModel]) -> Path:
    """The setting an unknown name most likely stands for: no second sentence about its absence."""
    near = difflib.get_close_matches(path[1], model.model_fields, n=1)
    return (path[0], near[0]) if near else path


def _learners(parts: dict[str, Any], table: Mapping[str, Any], places: Places, problems: list[str]) -> dict[str, Learner]:
    """The learners of [learner], [head] and [drift] that could be made, by section; adds `task` to the parts."""
    learners: dict[str, Learner] = {}
    learner, head, drift = parts.get("learner"), parts.get("head"), parts.get("drift")
    population = "population" in table
    if learner is not None:
        own = {name: value for name, value in _extra(learner).items() if name not in TASK}
        name = learner.name
        if "head" not in table:
            name, own = head_named(name, own, population, None)
        _make("learner", name, own, places, learners, problems)
        if "head" in table and "learner" in learners:
            learners["learner"] = learners["learner"].headless  # [head] takes the place of one it may bring
        if "head" not in table:
            learner = parts["learner"] = _tasked(learner, learners.get("learner"))
            stated = {name: value for name, value in _extra(learner).items() if name in TASK}
            parts["task"], found = validated(HeadSection, "learner", {"name": learner.name, **stated}, places)
            problems += [sentence for _, sentence in found]
    if head is not None:
        name, own = head_named(head.name, _extra(head), population, None)
        _make("head", name, own, places, learners, problems)
        parts["task"] = head
        problems += _misfits(places, learners.get("learner"), learners.get("head"))
    if drift is not None:
        of_drift, wrong = drift_learners(drift, places)
        learners |= of_drift
        problems += wrong
    return learners


def _make(
    section: str, name: str, settings: dict[str, Any], places: Places, learners: dict[str, Learner], problems: list[str]
) -> None:
    learner, found = made(section, name, settings, places)
    problems += found
    if learner is not None:
        learners[section] = learner


def _misfits(places: Places, learner: Learner | None, head: Learner | None) -> list[str]:
    """A head that cannot follow this learner's features; roles are looked at elsewhere."""
    if learner is None or head is None or learner.kind in PREDICTING or head.kind not in PREDICTING:
        return []
    try:
        Chain(extractor=learner, head=head)
    except SettingError as error:
        return [places.of(("head", "name")) + str(error)]
    return []


def _tasked(section: LearnerSection, learner: Learner | None) -> LearnerSection:
    """A learner that predicts by itself says what labels are: by its kind where [learner] does not."""
    if learner is None or learner.kind not in PREDICTING or "task" in _extra(section):
        return section
    return LearnerSection(name=section.name, freeze=section.freeze, task=learner.kind, **_extra(section))


def _extra(section: NamedSection) -> dict[str, Any]:
    """The learner's own settings, which stand beside its name."""
    return section.model_extra or {}
