"""Valid sections checked as a whole: the learners that they name, then what contradicts what."""

from collections.abc import Mapping, Set
from typing import Any

from algorithms import Learner
from streamjobs.settings.learners import PREDICTING, TASK, own_settings, read_learners
from streamjobs.settings.rules import contradictions
from streamjobs.settings.sections import HeadSection, LearnerSection
from streamjobs.settings.sentences import Path, Places, validated


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
        section = LearnerSection(name=section.name, freeze=section.freeze, input=section.input, task=learner.kind, **own)
        sections["learner"] = section
    stated = {name: value for name, value in own_settings(section).items() if name in TASK}
    task, refused = validated(HeadSection, "learner", {"name": section.name, **stated}, places)
    problems += [sentence for _, sentence in refused]
    sections["task"] = task
