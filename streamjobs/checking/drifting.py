"""[drift]: its extractor, detector and controls really made, and what contradicts what."""

from collections.abc import Iterator, Mapping
from typing import Any

from algorithms import Learner
from streamjobs.checking.learners import is_bounded, made
from streamjobs.checking.places import Places
from streamjobs.config import DriftSection, HeadSection
from streamjobs.core.parts import PREDICTING

SECTION = "drift"


def drift_learners(drift: DriftSection, places: Places) -> tuple[dict[str, Learner], list[str]]:
    """Those that could be made, by setting ("drift" is the detector, "beside 0" the first control), and every problem."""
    given = {SECTION: drift.detector, "extractor": drift.extractor}
    given |= {f"beside {n}": control for n, control in enumerate(drift.beside)}
    learners: dict[str, Learner] = {}
    problems: list[str] = []
    for place, one in given.items():
        table = {"name": one} if isinstance(one, str) else one
        if table is None:
            continue
        if not isinstance(table.get("name"), str):
            setting = "detector" if place == SECTION else place.partition(" ")[0]
            what = "a table with a 'name'" if setting == "extractor" else "a name, or a table with a 'name'"
            said = "each of beside" if setting == "beside" else setting
            problems.append(f"{places.of((SECTION, setting))}{said} must be {what}.")
            continue
        own = {name: value for name, value in table.items() if name != "name"}
        learner, found = made(SECTION, table["name"], own, places)
        problems += found
        if learner is not None:
            learners[place] = learner
    return learners, problems


def drift_contradictions(
    drift: DriftSection, head: HeadSection | None, learners: Mapping[str, Learner]
) -> Iterator[tuple[tuple[str, str], str]]:
    """`learners` are those of `drift_learners`, and the job's own as "learner"."""
    detector, one, extractor = learners.get(SECTION), learners.get("learner"), learners.get("extractor")
    if detector is not None and detector.kind != "drift":
        yield (SECTION, "detector"), "detector must be a drift detector, such as 'page_hinkley'."
    if drift.watch == "loss" and drift.extractor is not None:
        yield (SECTION, "watch"), "watch = 'loss' is of the [learner]'s predictions; remove extractor, or watch 'ls_error'."
    elif drift.watch == "loss" and head is None and one is not None and one.kind not in PREDICTING:
        yield (SECTION, "watch"), "watch = 'loss' needs predictions; add a [head], or watch 'ls_error'."
    if drift.watch == "loss" and drift.beside:
        yield (SECTION, "beside"), "controls have an LS error and no loss; remove beside, or watch 'ls_error'."
    if extractor is not None:
        yield from _follows("extractor", str((drift.extractor or {}).get("name")), extractor)
    names = [_name(control) for control in drift.beside]
    for n, name in enumerate(names):
        control = learners.get(f"beside {n}")
        if control is not None:
            yield from _follows("beside", name, control)
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield (SECTION, "beside"), f"beside: controls must differ; {name!r} stands there {names.count(name)} times."


def _follows(setting: str, name: str, learner: Learner) -> Iterator[tuple[tuple[str, str], str]]:
    if learner.kind != "features":
        yield (SECTION, setting), f"{setting} must be a learner with an LS error, such as 'okfeb'; {name} has none."
    elif not is_bounded(learner):
        yield (SECTION, setting), f"{setting}: {name} with these settings keeps every sample it has seen; set a budget."


def _name(one: str | dict[str, Any]) -> str:
    return one if isinstance(one, str) else str(one.get("name"))
