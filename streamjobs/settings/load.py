"""The whole job file in one pass: sections, then the learners they name, then what contradicts what."""

import difflib
from collections.abc import Mapping
from typing import Any

from algorithms.common.settings import suggestion
from streamjobs.errors import ConfigError
from streamjobs.settings.composition import Composition, compose
from streamjobs.settings.environment import PREFIX, SECTION_MODELS, overridden, require_usual
from streamjobs.settings.presets import filled
from streamjobs.settings.rules import check_sections
from streamjobs.settings.rules.broker import written_secrets
from streamjobs.settings.sections import Settings
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
    require_usual(table, f"{origin}: contains", origin)
    written = written_secrets(table, origin)
    table, variables, problems = overridden(table, env or {})
    variable = f"environment {PREFIX}SECTION__NAME"
    require_usual(table, f"{variable}: one of them contains", f"{variable} of")
    problems += written
    if isinstance(source := table.get("source"), Mapping):
        table = {**table, "source": {**source, **filled(source)}}
    if "forecast" in table and "learner" not in table:
        table = {**table, "learner": {"name": "scaling", "method": "none"}}  # learns nothing and costs little
    places = Places(origin, variables)
    for section in table:
        if section not in Settings.model_fields:
            problems.append(f"{origin}: unknown section [{section}]{suggestion(section, Settings.model_fields)}")
    sections: dict[str, Any] = {}
    blamed: set[Path] = set()
    for name, field in Settings.model_fields.items():
        if name in table:
            model = SECTION_MODELS[name]
            sections[name], refused = validated(model, name, table[name], places)
            for path, sentence in refused:
                problems.append(sentence)
                near = difflib.get_close_matches(path[1], model.model_fields, n=1)  # no second sentence about its absence
                blamed |= {path, *((path[0], other) for other in near)}
        elif field.is_required():
            problems.append(f"{origin}: section [{name}] is missing; a job needs [source], and [learner] or [forecast].")
        elif (default := field.get_default(call_default_factory=True)) is not None:
            sections[name] = default
    if {("source", "sensors"), ("source", "dim")} & blamed:
        blamed.add(("source", "fields"))  # which sensors and dim stand in for
    unknown = {"registry"} if "registry" in table and sections.get("registry") is None else set()
    learners, wrong = check_sections(sections, places, blamed, unknown)
    problems += wrong
    if problems:
        raise ConfigError(problems)
    return compose(Settings(**{name: sections.get(name) for name in Settings.model_fields}), learners, origin)
