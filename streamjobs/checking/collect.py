"""The whole job file in one pass: sections, then the learners they name, then what contradicts what."""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from algorithms import LEARNERS, Learner
from algorithms.common.settings import suggestion
from streamjobs.checking.consistency import PREDICTING, contradictions
from streamjobs.checking.learners import TASK, made
from streamjobs.checking.overrides import overridden, section_model
from streamjobs.checking.places import Path, Places
from streamjobs.checking.sentences import validated
from streamjobs.config import HeadSection, LearnerSection, Settings


def check(table: Mapping[str, Any], env: Mapping[str, str], origin: str) -> tuple[Settings | None, list[str]]:
    """The settings, or None and one sentence per problem."""
    table, variables, problems = overridden(table, env)
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
        return None, problems
    return Settings(**{section: parts[section] for section in Settings.model_fields}), []


def _meant(path: Path, model: type[BaseModel]) -> Path:
    """The setting an unknown name most likely stands for: no second sentence about its absence."""
    near = difflib.get_close_matches(path[1], model.model_fields, n=1)
    return (path[0], near[0]) if near else path


def _learners(parts: dict[str, Any], table: Mapping[str, Any], places: Places, problems: list[str]) -> dict[str, Learner]:
    """The learners of [learner], [head] and [drift] that could be made, by section; adds `task` to the parts."""
    wanted: dict[str, tuple[str, dict[str, Any]]] = {}
    learner, head, drift = parts.get("learner"), parts.get("head"), parts.get("drift")
    if learner is not None:
        if "head" not in table:
            learner = parts["learner"] = _tasked(learner)
            stated = {name: value for name, value in _extra(learner).items() if name in TASK}
            parts["task"], found = validated(HeadSection, "learner", {"name": learner.name, **stated}, places)
            problems += [sentence for _, sentence in found]
        own = {name: value for name, value in _extra(learner).items() if name not in TASK}
        wanted["learner"] = learner.name, own
    if head is not None:
        wanted["head"] = head.name, _extra(head)
        parts["task"] = head
    if drift is not None:
        detector = drift.detector
        if isinstance(detector, str):
            wanted["drift"] = detector, {}
        elif isinstance(detector.get("name"), str):
            wanted["drift"] = detector["name"], {name: value for name, value in detector.items() if name != "name"}
        else:
            problems.append(f"{places.of(('drift', 'detector'))}detector must be a name, or a table with a 'name'.")
    learners = {}
    for section, (name, settings) in wanted.items():
        made_one, more = made(section, name, settings, places)
        problems += more
        if made_one is not None:
            learners[section] = made_one
    return learners


def _tasked(section: LearnerSection) -> LearnerSection:
    """A learner that predicts by itself says what labels are: by its kind where [learner] does not."""
    kind = LEARNERS[section.name].kind if section.name in LEARNERS else "features"
    if kind not in PREDICTING or "task" in _extra(section):
        return section
    return LearnerSection(name=section.name, task=kind, **_extra(section))


def _extra(section: LearnerSection) -> dict[str, Any]:
    """The learner's own settings, which stand beside its name."""
    return section.model_extra or {}
