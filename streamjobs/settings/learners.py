"""The learners a job file names, each made once: every wrong setting shows before a record is read.

Also the detectors of [drift] false_alarms and reference: those that keep a stated number of false alarms of a key.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from algorithms import LEARNERS, Learner, SettingError, learner_from
from algorithms.chain import Chain
from algorithms.common.settings import suggestion
from streamjobs.settings.events import DriftSection
from streamjobs.settings.sections import HeadSection, LearnerSection, NamedSection, SinksSection, WindowSection
from streamjobs.settings.sentences import Places
from streamjobs.settings.types import POPULATION, SECONDS
from streamjobs.stages.population.reference import DIRECTIONS

# Of [head]; a predicting learner may have them.
TASK = ("task", "classes", "max_classes", "targets", "smooth", "filter", "lasts", "clip_target", "fallback", "reject")
PREDICTING = ("regression", "classification")
_FALLBACKS = ("last_label", "none")  # of [head]; an error for others is reported elsewhere
USUAL, OF_COLUMNS, THRESHOLDS = "conformal", "column_chart", "page_hinkley"
OF_EACH = "column_charts"  # with `each`; innovations do not wander, and rare counts had more false alarms with it
STANDING, STANDING_OF_COLUMNS = "reference_level", "reference_chart"  # with a reference
OF_POPULATION = "glr_chart"  # with the population's
FORESEEN = ("innovations", "rows")  # watches of what a forecast did not foresee
WITHOUT_RHYTHM = ("columns", "rows")  # for rows of which a forecast learns slowly, such as rare counts and smooth waves
OF_ROWS = "row_tail"
SOON = {"name": OF_COLUMNS, "learn": 300, "shares": True}  # the chart of innovations, and of columns next to them
NARROWEST = 0.06  # of rare counts the share is .02 to .05, of other rows above it (seeds 4000 and later)
HOLD = 500  # rows of an alarm, at most; or `learn`, because a lasting level is normal after it if so many rows were in it
_PER_ROWS = re.compile(r"^(\d+(?:\.\d+)?) per (\d+) rows$")
_PER_TIME = re.compile(r"^(\d+(?:\.\d+)?) ?/ ?(min|h|day|week)$")


def rows_between(text: str, hop: float | None) -> float:
    """Rows of a key from one false alarm to the next, on average at least; hop: seconds from row to row, None: unknown.

    Raises ValueError with what is expected.

    >>> rows_between("1 per 10000 rows", None), rows_between("6/h", 2.0)
    (10000.0, 300.0)
    """
    if of_rows := _PER_ROWS.match(text):
        alarms, rows = float(of_rows[1]), float(of_rows[2])
    elif of_time := _PER_TIME.match(text):
        if hop is None:
            raise ValueError(
                f"false_alarms = {text!r} needs a [window], because it is stated by time; add a [window], or state "
                "it by rows, such as '1 per 10000 rows'."
            )
        alarms, rows = float(of_time[1]), SECONDS[of_time[2]] / hop
    else:
        raise ValueError(f"false_alarms must be such as '1/day', '6/h' or '1 per 10000 rows'; got {text!r}.")
    if not 0 < alarms <= rows:
        raise ValueError(f"false_alarms must be above 0 and at most one a row; got {text!r}.")
    return rows / alarms


def tells_alarms(drift: DriftSection | None, sinks: SinksSection) -> bool:
    """Whether the job has the topic of alarms."""
    if drift is None or sinks.alarms == "":
        return False
    return sinks.alarms is not None or drift.false_alarms is not None


def detector_name(drift: DriftSection) -> str:
    """Name of the first detector that valid settings ask for."""
    given = _given(drift, drift.watch_names[0])
    return given if isinstance(given, str) else str(given["name"])


def _given(drift: DriftSection, watch: str) -> str | dict[str, Any]:
    if drift.detector is not None:
        return drift.detector
    if drift.reference == POPULATION:
        return OF_POPULATION
    if drift.reference is not None:
        return STANDING_OF_COLUMNS if watch == "columns" else STANDING
    if watch == "rows":
        return OF_ROWS if not drift.counts else {"name": OF_ROWS, "narrowest": NARROWEST}
    learn = {} if drift.learn is None else {"learn": drift.learn}
    if watch == "innovations" or (watch == "columns" and set(FORESEEN) & set(drift.watch_names)):
        cycle = {"reference": drift.cycle, "least": drift.cycle} if drift.cycle and watch == "innovations" else {}
        each = {"name": OF_EACH} if drift.each and watch == "columns" else {}
        return SOON | each | learn | cycle | {"hold": max(HOLD, drift.learn or 0)}
    if watch == "columns":
        return {"name": OF_EACH if drift.each else OF_COLUMNS, **learn}
    return USUAL if drift.false_alarms is not None else THRESHOLDS


def detector_of(drift: DriftSection, watch: str, hop: float | None) -> str | dict[str, Any]:
    """The detector of a watch as [drift] names it, with its number of rows where false_alarms states it, or the usual one.

    Several watches have equal shares of the number: alarms add up, so all together keep it. Raises ValueError for a
    statement that cannot be read, or that the detector cannot keep.
    """
    given = _given(drift, watch)
    if drift.false_alarms is None:
        return given
    table: Mapping[str, Any] = {"name": given} if isinstance(given, str) else given
    name = table.get("name")
    if drift.reference == POPULATION:
        return _of_population(table, drift.false_alarms, hop)
    if isinstance(name, str) and name in LEARNERS and "rows_between" not in LEARNERS[name].__dataclass_fields__:  # type: ignore[attr-defined]
        raise ValueError(
            f"false_alarms needs a detector that keeps to a number of false alarms, {USUAL!r} or {OF_COLUMNS!r}; "
            f"{name} has thresholds. Remove one of the two settings."
        )
    if "rows_between" in table:
        raise ValueError("false_alarms and the detector's rows_between set the same number; remove one of them.")
    if drift.reference is not None:
        if isinstance(name, str) and name in LEARNERS and name not in (STANDING, STANDING_OF_COLUMNS):
            raise ValueError(
                f"reference needs the detector {STANDING!r} or {STANDING_OF_COLUMNS!r}; {name} continues to learn."
            )
        if "rows" in table:
            raise ValueError("reference and the detector's rows set the same number; remove one of them.")
        table = {**table, "rows": 0}
    return {**table, "rows_between": rows_between(drift.false_alarms, hop) * max(1, len(drift.watch_names))}


def _of_population(table: Mapping[str, Any], stated: str, hop: float | None) -> dict[str, Any]:
    """The detector of reference = 'population', which gets rows that its limit of 1 is for."""
    rows_between(stated, hop)
    if table.get("name") != OF_POPULATION:
        raise ValueError(f"reference = 'population' needs the detector {OF_POPULATION!r}; got {table.get('name')!r}.")
    for setting in ("limit", "tested"):
        if setting in table:
            raise ValueError(f"reference = 'population' sets the detector's {setting}; remove {setting}.")
    return {**table, "limit": 1.0, "tested": DIRECTIONS}


def read_learners(sections: Mapping[str, Any], places: Places) -> tuple[dict[str, Learner], list[str]]:
    """The learners of [learner], [head] and [drift] that could be made, and every problem, one sentence each.

    By name: "learner", "head", the "chain" of both, "detector" (of further watches "detector loss"), "extractor",
    "beside 0" for the first control, "forecast". A section that is there but not valid is None.
    """
    read = _Learners(places)
    population = "population" in sections
    learner, head, drift = sections.get("learner"), sections.get("head"), sections.get("drift")
    if learner is not None:
        read.add("learner", "learner", *_of_learner(learner, alone="head" not in sections, population=population))
        if "head" in sections and "learner" in read.learners:
            read.learners["learner"] = read.learners["learner"].headless  # [head] takes the place of one it may bring
    if head is not None:
        read.add("head", "head", *_of_head(head, population))
        read.chain()
    if drift is not None:
        read.add_drift(drift, sections.get("window"))
    if (forecast := sections.get("forecast")) is not None and forecast.learner is not None:
        name, own = with_name(forecast.learner)
        if name in LEARNERS and "intercept" in _fields(name):
            own.setdefault("intercept", True)
        read.add("forecast", "forecast", name, own)
    return read.learners, read.problems


def own_settings(section: NamedSection) -> dict[str, Any]:
    return section.model_extra or {}


def with_name(one: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and settings of a learner given by its name, or by a table with the settings next to the name."""
    if isinstance(one, str):
        return one, {}
    return str(one.get("name")), {setting: value for setting, value in one.items() if setting != "name"}


def head_named(name: str, own: Mapping[str, Any], population: bool, fallback: str | None) -> tuple[str, dict[str, Any]]:
    """The registry's name and settings of a head as the job file names it: `rls` with a gate is gated_rls.

    >>> head_named("rls", {"boost": 10.0}, False, None)
    ('gated_rls', {'boost': 10.0})
    """
    if name == "rls" and (population or ((others := set(own) - _fields("rls")) and others & _fields("gated_rls"))):
        name = "gated_rls"
    return name, {**own, "fallback": fallback} if name == "gated_rls" and fallback is not None else dict(own)


def _fields(name: str) -> set[str]:
    return {field.name for field in dataclasses.fields(LEARNERS[name])}  # type: ignore[arg-type]


def _of_learner(section: LearnerSection, *, alone: bool, population: bool) -> tuple[str, dict[str, Any]]:
    """Name and settings of [learner]; alone, without a [head], it may be a head itself."""
    own = {name: value for name, value in own_settings(section).items() if name not in TASK}
    if not alone:
        return section.name, own
    fallback = own_settings(section).get("fallback")
    name, own = head_named(section.name, own, population, fallback if fallback in _FALLBACKS else None)
    return name, {"intercept": True, **own} if population and name == "gated_rls" else own


def _of_head(section: HeadSection, population: bool) -> tuple[str, dict[str, Any]]:
    name, own = head_named(section.name, own_settings(section), population, section.fallback)
    if name in LEARNERS and "intercept" in _fields(name):
        own.setdefault("intercept", True)  # features have no constant column of their own
    return name, own


def detector_roles(drift: DriftSection) -> list[tuple[str, str]]:
    """How `read_learners` calls the detector of each watch: "detector", of further ones "detector loss"."""
    return [(f"detector {watch}" if n else "detector", watch) for n, watch in enumerate(drift.watch_names)]


class _Learners:
    """The learners that could be made so far, and every problem."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.learners: dict[str, Learner] = {}
        self.problems: list[str] = []

    def chain(self) -> None:
        """Learner and head as one, unless the head cannot follow the learner's features. Roles are looked at elsewhere."""
        learner, head = self.learners.get("learner"), self.learners.get("head")
        if learner is None or head is None or learner.kind in PREDICTING or head.kind not in PREDICTING:
            return
        try:
            self.learners["chain"] = Chain(extractor=learner, head=head)
        except SettingError as error:
            self.problems.append(self.places.of(("head", "name")) + str(error))

    def add_drift(self, drift: DriftSection, window: WindowSection | None) -> None:
        given: dict[str, Any] = {"extractor": drift.extractor}
        try:
            for role, watch in detector_roles(drift):
                given[role] = detector_of(drift, watch, None if window is None else window.hop or window.length)
        except ValueError as problem:
            self.problems.append(self.places.of(("drift", "false_alarms")) + str(problem))
        given |= {f"beside {n}": control for n, control in enumerate(drift.beside)}
        for role, one in given.items():
            table = {"name": one} if isinstance(one, str) else one
            if table is None:
                continue
            if not isinstance(table.get("name"), str):
                setting = role.partition(" ")[0]
                what = "a table with a 'name'" if setting == "extractor" else "a name, or a table with a 'name'"
                named = "each of 'beside'" if setting == "beside" else setting
                self.problems.append(f"{self.places.of(('drift', setting))}{named} must be {what}.")
                continue
            self.add(role, "drift", *with_name(table))

    def add(self, role: str, section: str, name: str, settings: Mapping[str, Any]) -> None:
        """Make the learner, or tell every problem of its table (not only the first)."""
        if name not in LEARNERS:
            detects = role.startswith("detector")
            known_names = [other for other, made in LEARNERS.items() if (made.kind == "drift") == detects]
            what = "detector" if detects else "learner"
            place = self.places.of((section, "name"))
            self.problems.append(f"{place}unknown {what} {name!r}{suggestion(name, known_names)}")
            return
        known = {field.name: field for field in dataclasses.fields(LEARNERS[name])}  # type: ignore[arg-type]
        left = {setting: value for setting, value in settings.items() if setting in known}
        wrong: list[str] = []
        for setting in settings:
            if setting not in known:
                place = self.places.of((section, setting))
                wrong.append(f"{place}unknown setting {setting!r} for {name}{suggestion(setting, known)}")
        for _ in range(len(left) + 1):
            try:
                learner = learner_from(name, left)
            except SettingError as error:
                # The setting that the error is about: "Okfeb: rank must be ...".
                blamed = next((setting for setting in left if f": {setting} must be " in str(error)), None)
                of_its_own = str(error).startswith(f"{name}: ") and blamed is not None  # a wrong type, whatever else is set
                if of_its_own or not wrong:  # ranges may hang on a setting that was left out as wrong
                    wrong.append(self.places.of((section, blamed or "name")) + str(error))
                if not of_its_own or blamed is None or _is_bare(known[blamed]):
                    break
                del left[blamed]
            else:
                if not wrong:
                    self.learners[role] = learner
                break
        self.problems += wrong


def _is_bare(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
