"""Learners named in a job file, really made, so that every wrong setting shows before a record is read."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from algorithms import LEARNERS, Learner, SettingError, learner_from
from algorithms.common.settings import suggestion
from streamjobs.settings.sentences import Places


def made(section: str, name: str, settings: Mapping[str, Any], places: Places) -> tuple[Learner | None, list[str]]:
    """The learner, or every problem of its table (not only the first)."""
    if name not in LEARNERS:
        return None, [f"{places.of((section, 'name'))}unknown learner {name!r}{suggestion(name, LEARNERS)}"]
    problems: list[str] = []
    known = {field.name: field for field in dataclasses.fields(LEARNERS[name])}  # type: ignore[arg-type]
    left = {setting: value for setting, value in settings.items() if setting in known}
    for setting in settings:
        if setting not in known:
            place = places.of((section, setting))
            problems.append(f"{place}unknown setting {setting!r} for {name}{suggestion(setting, known)}")
    for _ in range(len(left) + 1):
        try:
            learner = learner_from(name, left)
        except SettingError as error:
            blamed = _blamed(str(error), left)
            of_its_own = str(error).startswith(f"{name}: ") and blamed is not None  # a wrong type, whatever else is set
            if of_its_own or not problems:  # ranges may hang on a setting that was left out as wrong
                problems.append(places.of((section, blamed or "name")) + str(error))
            if not of_its_own or blamed is None or _is_bare(known[blamed]):
                break
            del left[blamed]
        else:
            return None if problems else learner, problems
    return None, problems


def _blamed(message: str, settings: Mapping[str, Any]) -> str | None:
    """The setting an error is about: "Okfeb: rank must be ..."."""
    for setting in settings:
        if f": {setting} must be " in message:
            return setting
    return None


def _is_bare(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def is_bounded(learner: Learner) -> bool:
    """A key's state has a limit: every field that holds stored samples says how many."""
    parts = [learner]
    if dataclasses.is_dataclass(learner):
        parts += [value for f in dataclasses.fields(learner) if isinstance(value := getattr(learner, f.name), Learner)]
    return all(part.room(field) is not None for part in parts for field in part.stored)
