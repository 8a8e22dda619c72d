"""[drift]: settings that contradict one another."""

from collections.abc import Mapping

from algorithms import Learner
from algorithms.drift.report import watches_columns
from algorithms.drift.standing import LEAST_ROWS
from streamjobs.settings.events import DriftSection
from streamjobs.settings.false_alarms import FORESEEN
from streamjobs.settings.learners import PREDICTING, with_name
from streamjobs.settings.sections import HeadSection, StateSection
from streamjobs.settings.types import POPULATION, Problems, reference

SUBSPACES = ("okfe", "okfeb", "wrkpca")  # learners with a kernel's subspace of `rank` features
OF_COLUMNS = ("columns", *FORESEEN)
DAYS_OF_WEEK = 7


def drift_contradictions(
    drift: DriftSection, head: HeadSection | None, learners: Mapping[str, Learner], population: bool = False
) -> Problems:
    """Each contradiction with its setting. learners: those of `read_learners`; population: there is a [population]."""
    detector, job_learner, extractor = learners.get("detector"), learners.get("learner"), learners.get("extractor")
    if detector is not None and detector.kind != "drift":
        yield "drift.detector", "detector must be a drift detector, such as 'page_hinkley'."
    elif isinstance(drift.watch, list):
        yield from _several(drift)
    elif detector is not None and watches_columns(detector) != (drift.watch in OF_COLUMNS):
        fits = f"watches one number a row, not watch = {drift.watch!r}"
        if watches_columns(detector):
            fits = "is for watch = 'columns'"
        yield "drift.detector", f"detector: {type(detector).name} {fits}; change one of the two."
    if drift.watch in OF_COLUMNS:
        for setting, given in (("extractor", drift.extractor), ("beside", drift.beside)):
            if given:
                yield f"drift.{setting}", f"watch = {drift.watch!r} has no LS error; remove {setting}, or watch 'ls_error'."
    if drift.reference is not None or not set(drift.watch_names) <= set(OF_COLUMNS):
        without = "for watch 'columns', 'innovations' and 'rows' without a reference"
        for setting in ("daily", "slopes"):
            if getattr(drift, setting):
                yield f"drift.{setting}", f"{setting} is {without}; remove {setting}, or change these."
    if drift.week is not None and not (len(drift.week) == DAYS_OF_WEEK and drift.week.isascii() and drift.week.isalnum()):
        yield "drift.week", f"week must have 7 letters, for Monday to Sunday, such as 'aaaaabb'; got {drift.week!r}."
    elif drift.week is not None and not drift.daily:
        yield "drift.week", "week compares the same time on days of the same kind; add daily = true, or remove week."
    if drift.learn is not None:
        yield from _learn(drift)
    yield from _of_usual_detectors(drift)
    if drift.reference is not None and (foreseen := next((one for one in drift.watch_names if one in FORESEEN), None)):
        yield "drift.watch", f"watch {foreseen!r} keeps learning what is normal; remove reference, or watch 'columns'."
    elif drift.reference == POPULATION:
        yield from _of_population(drift, population)
    elif drift.reference is not None:
        yield from _reference(drift)
    elif drift.reference_from != "own":
        yield (
            "drift.reference_from",
            "reference_from needs the reference of the job that exported the state, such as 'first 400 rows'. Add it.",
        )
    elif drift.relearn_after is not None:
        yield (
            "drift.relearn_after",
            "relearn_after needs a reference, such as 'first 400 rows', to learn again; detectors without a reference "
            "continue to learn. Add it, or remove relearn_after.",
        )
    several, loss = isinstance(drift.watch, list), "loss" in drift.watch_names
    if loss and not several and drift.extractor is not None:
        yield "drift.watch", "watch = 'loss' uses the [learner]'s predictions; remove extractor, or watch 'ls_error'."
    elif loss and head is None and job_learner is not None and job_learner.kind not in PREDICTING:
        yield "drift.watch", "watch = 'loss' needs predictions; add a [head], or watch 'ls_error'."
    if loss and not several and drift.beside:
        yield "drift.beside", "controls have an LS error but no loss; remove 'beside', or watch 'ls_error'."
    if extractor is not None:
        yield from _without_ls_error("extractor", with_name(drift.extractor or {})[0], extractor)
    names = [with_name(control)[0] for control in drift.beside]
    for n, name in enumerate(names):
        control = learners.get(f"beside {n}")
        if control is not None:
            yield from _without_ls_error("beside", name, control)
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield "drift.beside", f"the controls in 'beside' must differ; {name!r} is named {names.count(name)} times."


def _of_usual_detectors(drift: DriftSection) -> Problems:
    names, own = set(drift.watch_names), drift.detector is not None
    fits = "with the usual detector; remove {0}, or change these."
    if drift.cycle is not None and (own or "innovations" not in names):
        yield "drift.cycle", f"cycle is for watch 'innovations' {fits.format('cycle')}"
    if drift.each and (own or drift.reference is not None or "columns" not in names):
        yield "drift.each", f"each is for watch 'columns' without a reference, {fits.format('each')}"
    if drift.counts and (own or not set(FORESEEN) & names):
        yield "drift.counts", f"counts is for watch 'innovations' and 'rows' {fits.format('counts')}"


def _learn(drift: DriftSection) -> Problems:
    """`learn` next to a setting that has these rows, or without a chart."""
    if drift.detector is not None:
        yield "drift.learn", "learn is for the usual detectors; remove it, or set learn in the detector's table."
    elif drift.reference is not None:
        yield "drift.learn", "reference sets the normal rows; remove learn."
    elif not {"columns", "innovations"} & set(drift.watch_names):
        yield "drift.learn", "learn is for watch 'columns' and 'innovations'; remove it."


def one_number_contradictions(drift: DriftSection, learners: Mapping[str, Learner]) -> Problems:
    """Of rows of one number: a subspace of several features represents it up to rounding, which no stated number fits."""
    follower = learners.get("learner" if drift.extractor is None else "extractor")
    rank, name = getattr(follower, "rank", 1), getattr(follower, "name", "")
    if drift.false_alarms and "ls_error" in drift.watch_names and name in SUBSPACES and rank > 1:
        yield (
            "drift.watch",
            f"watch = 'ls_error': rows have one number, and {name} with rank = {rank} has only rounding as its LS error; "
            "set rank = 1, or watch ['columns', 'innovations', 'rows'].",
        )


def start_contradictions(drift: DriftSection, state: StateSection) -> Problems:
    if drift.reference_from == "start_from" and state.start_from is None:
        yield (
            "drift.reference_from",
            "reference_from = 'start_from' needs [state] start_from, a file that 'streamjobs state export' or "
            "'streamjobs replay --pool --export' writes. Add it, or remove reference_from.",
        )


def _several(drift: DriftSection) -> Problems:
    names = drift.watch_names
    if not names or len(set(names)) < len(names):
        yield "drift.watch", f"watch must name one or more different watches; got {names!r}."
    for setting, given in (("detector", drift.detector), ("beside", drift.beside)):
        if given:
            yield f"drift.{setting}", f"{setting} has no meaning with a list of watches; remove it, or name one watch."
    if drift.false_alarms is None:
        yield "drift.watch", "a list of watches shares one limit of false alarms; add false_alarms, or name one watch."
    if drift.extractor is not None and "ls_error" not in names:
        yield "drift.extractor", "the LS error of extractor is not watched; add 'ls_error' to watch, or remove extractor."


def _reference(drift: DriftSection) -> Problems:
    rows, _ = reference(drift.reference or "")
    one_number = drift.watch_names != ["columns"]
    least = 2 * LEAST_ROWS if one_number else LEAST_ROWS
    if 0 < rows < least:
        halves = ", half of them for the extractor" if one_number else ""
        yield "drift.reference", f"reference must have {least} rows or more{halves}; got {drift.reference!r}."
    if drift.false_alarms is None:
        yield (
            "drift.reference",
            "reference needs false_alarms, such as '1 per 10000 rows', which sets how far from normal an alarm is. Add it.",
        )
    if drift.extractor is None and "ls_error" in drift.watch_names:
        yield (
            "drift.reference",
            "reference with watch = 'ls_error' needs an extractor, which stops learning after the reference; the "
            "[learner] continues to learn. Add an extractor, or watch 'columns'.",
        )


def _of_population(drift: DriftSection, population: bool) -> Problems:
    if not population:
        yield (
            "drift.reference",
            "reference = 'population' needs a [population] with a file of 'streamjobs fit'; add it, or state which rows "
            "of each key are normal, such as 'first 400 rows'.",
        )
    if drift.false_alarms is None:
        yield "drift.reference", "reference = 'population' needs false_alarms, such as '6/h'. Add it."
    if drift.watch_names != ["columns"]:
        yield "drift.watch", "reference = 'population' is about the columns; set watch = 'columns'."
    if drift.reference_from != "own":
        yield (
            "drift.reference_from",
            "reference_from has no meaning with reference = 'population', because every key has that reference; remove it.",
        )
    if drift.relearn_after is not None:
        yield (
            "drift.relearn_after",
            "relearn_after has no meaning with reference = 'population', because its alarms do not last; remove it.",
        )


def _without_ls_error(setting: str, name: str, learner: Learner) -> Problems:
    if learner.kind != "features":
        yield f"drift.{setting}", f"{setting} must be a learner with an LS error, such as 'okfeb'; {name} has none."
    elif not learner.bounded:
        yield f"drift.{setting}", f"{setting}: {name} with these settings stores every sample; set a budget."
