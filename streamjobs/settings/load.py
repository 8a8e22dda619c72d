"""The whole job file in one pass: sections, then the learners they name, then what contradicts what."""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from algorithms import Learner, SettingError
from algorithms.common.settings import suggestion
from streamjobs.errors import ConfigError
from streamjobs.settings.composition import Composition, compose
from streamjobs.settings.environment import PREFIX, beyond, overridden, oversized, section_model
from streamjobs.settings.learners import PREDICTING, TASK, own_settings, read_learners
from streamjobs.settings.presets import filled
from streamjobs.settings.rules import contradictions
from streamjobs.settings.rules.broker import written_secrets
from streamjobs.settings.sections import HeadSection, LearnerSection, Settings
from streamjobs.settings.sentences import Path, Places, validated


def settings_from(table: Mapping[str, Any], env: Mapping[str, str] | None = None, origin: str = "job.toml") -> Settings:
    """The settings alone, where nothing is to be run. Raises ConfigError as `composition_from` does."""
    return composition_from(table, env, origin).settings


def composition_from(
    table: Mapping[str, Any], env: Mapping[str, str] | None = None, origin: str = "job.toml"
) -> Composition:
    """A job file's contents, with STREAMJOBS_SECTION__NAME of `env` in place of its settings, made into a job's parts.

    Every learner is made here, once, so what it refuses shows here.
    Raises ConfigError with every problem, one sentence each, that begins with `origin` and the section.
    """
    if odd := beyond(table):
        raise ConfigError(f"{origin}: holds {odd}; no setting does.")
    if large := oversized(table):
        raise ConfigError(f"{origin} {large}")
    written = written_secrets(table, origin)
    table, variables, problems = overridden(table, env or {})
    if odd := beyond(table):
        raise ConfigError(f"environment {PREFIX}SECTION__NAME: one holds {odd}; no setting does.")
    if large := oversized(table):
        raise ConfigError(f"environment {PREFIX}SECTION__NAME of {large}")
    problems += written
    if isinstance(source := table.get("source"), Mapping):
        table = {**table, "source": {**source, **filled(source)}}
    places = Places(origin, variables)
    for section in table:
        if section not in Settings.model_fields:
            problems.append(f"{origin}: unknown section [{section}]{suggestion(section, Settings.model_fields)}")
    sections: dict[str, Any] = {}
    blamed: set[Path] = set()
    for name, field in Settings.model_fields.items():
        if name in table:
            model = section_model(name)
            assert model is not None
            sections[name], refused = validated(model, name, table[name], places)
            for path, sentence in refused:
                problems.append(sentence)
                blamed |= {path, _meant(path, model)}
        elif field.is_required():
            problems.append(f"{origin}: section [{name}] is missing; a job needs [source] and [learner].")
        elif (default := field.get_default(call_default_factory=True)) is not None:
            sections[name] = default
    if ("source", "sensors") in blamed:
        blamed.add(("source", "fields"))  # which sensors stand in for
    learners, wrong = read_learners(sections, places)
    problems += wrong
    _predicting(sections, learners, places, problems)
    unknown = {"registry": None} if "registry" in table and sections.get("registry") is None else {}
    valid = {name: section for name, section in sections.items() if section is not None}
    for path, sentence in contradictions({**valid, **unknown}, learners):
        if path not in blamed:
            problems.append(places.of(path) + sentence)
    if problems:
        raise ConfigError(problems)
    try:
        return compose(Settings(**{name: sections.get(name) for name in Settings.model_fields}), learners)
    except (SettingError, ValueError) as error:
        raise ConfigError(f"{origin}: {error}") from None


def _meant(path: Path, model: type[BaseModel]) -> Path:
    """The setting an unknown name most likely stands for: no second sentence about its absence."""
    near = difflib.get_close_matches(path[1], model.model_fields, n=1)
    return (path[0], near[0]) if near else path


def _predicting(sections: dict[str, Any], learners: Mapping[str, Learner], places: Places, problems: list[str]) -> None:
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
        section = LearnerSection(name=section.name, freeze=section.freeze, task=learner.kind, **own)
        sections["learner"] = section
    stated = {name: value for name, value in own_settings(section).items() if name in TASK}
    task, refused = validated(HeadSection, "learner", {"name": section.name, **stated}, places)
    problems += [sentence for _, sentence in refused]
    sections["task"] = task
