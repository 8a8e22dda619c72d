"""[drift] false_alarms and reference: a stated number of false alarms of a key, and the detector that keeps it."""

import re
from collections.abc import Mapping
from typing import Any

from algorithms import LEARNERS
from streamjobs.settings.events import DriftSection
from streamjobs.settings.sections import SinksSection
from streamjobs.settings.types import POPULATION, SECONDS
from streamjobs.stages.population.reference import DIRECTIONS

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
