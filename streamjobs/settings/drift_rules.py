"""[drift]: its learners, and the settings that contradict one another."""

from collections.abc import Iterator, Mapping
from typing import Any

from algorithms import Learner
from streamjobs.settings.composition import PREDICTING
from streamjobs.settings.learners import is_bounded, made
from streamjobs.settings.sections import DriftSection, HeadSection
from streamjobs.settings.sentences import Places

SECTION = "drift"


def drift_learners(drift: DriftSection, places: Places) -> tuple[dict[str, Learner], list[str]]:
    """The valid learners by setting ("drift" is the detector, "beside 0" the first control), and every problem."""
    stated = {SECTION: drift.detector, "extractor": drift.extractor}
    stated |= {f"beside {n}": control for n, control in enumerate(drift.beside)}
    learners: dict[str, Learner] = {}
    problems: list[str] = []
    for place, value in stated.items():
        table = {"name": value} if isinstance(value, str) else value
        if table is None:
            continue
        if not isinstance(table.get("name"), str):
            setting = "detector" if place == SECTION else place.partition(" ")[0]
            expected = "a table with a 'name'" if setting == "extractor" else "a name, or a table with a 'name'"
            subject = "each of beside" if setting == "beside" else setting
            problems.append(f"{places.of((SECTION, setting))}{subject} must be {expected}.")
            continue
        own = {name: value for name, value in table.items() if name != "name"}
        learner, wrong = made(SECTION, table["name"], own, places)
        problems += wrong
        if learner is not None:
            learners[place] = learner
    return learners, problems


def drift_contradictions(
    drift: DriftSection, head: HeadSection | None, learners: Mapping[str, Learner]
) -> Iterator[tuple[tuple[str, str], str]]:
    """Each contradiction with its setting. `learners` are those of `drift_learners`, and the job's own as "learner"."""
    detector, job_learner, extractor = learners.get(SECTION), learners.get("learner"), learners.get("extractor")
    if detector is not None and detector.kind != "drift":
        yield (SECTION, "detector"), "detector must be a drift detector, such as 'page_hinkley'."
    if drift.watch == "loss" and drift.extractor is not None:
        yield (
            (SECTION, "watch"),
            "watch = 'loss' uses the [learner]'s predictions; remove extractor, or watch 'ls_error'.",
        )
    elif drift.watch == "loss" and head is None and job_learner is not None and job_learner.kind not in PREDICTING:
        yield (SECTION, "watch"), "watch = 'loss' needs predictions; add a [head], or watch 'ls_error'."
    if drift.watch == "loss" and drift.beside:
        yield (SECTION, "beside"), "controls have an LS error but no loss; remove beside, or watch 'ls_error'."
    if extractor is not None:
        yield from _without_ls_error("extractor", str((drift.extractor or {}).get("name")), extractor)
    names = [_name(control) for control in drift.beside]
    for n, name in enumerate(names):
        control = learners.get(f"beside {n}")
        if control is not None:
            yield from _without_ls_error("beside", name, control)
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield (SECTION, "beside"), f"beside: controls must differ; {name!r} is named {names.count(name)} times."


def _without_ls_error(setting: str, name: str, learner: Learner) -> Iterator[tuple[tuple[str, str], str]]:
    if learner.kind != "features":
        yield (SECTION, setting), f"{setting} must be a learner with an LS error, such as 'okfeb'; {name} has none."
    elif not is_bounded(learner):
        yield (SECTION, setting), f"{setting}: {name} with these settings stores every sample; set a budget."


def _name(control: str | dict[str, Any]) -> str:
    return control if isinstance(control, str) else str(control.get("name"))
