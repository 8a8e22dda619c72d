"""[drift], [sinks] and [alarms]: settings that contradict one another, or the rest of the job."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from algorithms import Learner
from algorithms.drift.report import watches_columns
from algorithms.drift.standing import LEAST_ROWS
from streamjobs.settings.events import DriftSection
from streamjobs.settings.learners import FORESEEN, PREDICTING, tells_alarms, with_name
from streamjobs.settings.sections import SINKS, HeadSection, SinksSection, StateSection
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import POPULATION, Problems, reference

SUBSPACES = ("okfe", "okfeb", "wrkpca")  # learners with a kernel's subspace of `rank` features
OF_COLUMNS = ("columns", *FORESEEN)
DAYS_OF_WEEK = 7
OF_SECTIONS = {"bouts": "bouts", "forecasts": "forecast"}  # sinks of optional sections
LONGEST_TOPIC = 249  # characters of a name, to the broker


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


def sinks_contradictions(
    sinks: SinksSection, source: SourceSection, parts: Mapping[str, Any], learners: Mapping[str, Learner]
) -> Problems:
    """Each contradiction with its setting. `learners` are those of `read_learners`."""
    users = {source.topic: "the input topic", source.base_topic: "the input topic"}
    asked = parts.get("alarms") is not None
    for name in SINKS:
        stated = getattr(sinks, name)
        if name == "dlq" and stated == "":
            yield "sinks.dlq", "dlq cannot be off; name a topic for records that cannot be used, or remove it."
            continue
        if stated in (".", ".."):
            yield f"sinks.{name}", f"{name} must be a topic's name; got {stated!r}."
        if name == "alarms" and stated is None and not asked and not tells_alarms(parts.get("drift"), sinks):
            continue
        if stated is None and (name == "features" or (name in OF_SECTIONS and parts.get(OF_SECTIONS[name]) is None)):
            continue
        topic = f"{source.base_topic}.{name}" if stated is None else stated
        if topic and topic in users:
            yield f"sinks.{name}", f"{name} must be a topic of its own; {topic!r} is already {users[topic]}."
        elif topic:
            users[topic] = f"the topic of {name}"
        if len(topic) > LONGEST_TOPIC:
            yield (
                f"sinks.{name}",
                f"{name} must be a topic's name of at most {LONGEST_TOPIC} characters; {topic!r:.60}... has {len(topic)}.",
            )
    learner, head = learners.get("learner"), parts.get("head")
    if sinks.features and learner is not None and learner.kind in PREDICTING:
        yield "sinks.features", "no features would be sent: the learner predicts and has no features. Remove the setting."
    if sinks.predictions and head is None and learner is not None and learner.kind == "features":
        yield "sinks.predictions", "no predictions would be sent without a [head]. Add one, or remove the setting."
    if sinks.scores and sinks.predictions == "":
        yield "sinks.scores", "scores are a field of predictions, which are off. Remove one of the two settings."
    elif sinks.scores and learner is not None and not _classifies(parts, learner):
        yield "sinks.scores", "scores need a classification; this job has none. Remove the setting."
    for name, what in (("drift", "drift events"), ("alarms", "alarms")):
        if getattr(sinks, name) and parts.get("drift") is None and not (name == "alarms" and asked):
            yield f"sinks.{name}", f"no {what} would be sent without a [drift] section. Add one, or remove the setting."
    if asked and sinks.alarms == "":
        yield "sinks.alarms", "[alarms] sends to the topic of alarms, which is off. Remove one of the two settings."
    if asked and not parts["alarms"].kinds:
        yield "alarms.stuck", "[alarms] asks for no alarm. Set stuck = true or silent = '10m', or remove the section."
    for name, section in OF_SECTIONS.items():
        if getattr(sinks, name) and parts.get(section) is None:
            without = f"no {name} would be sent without a [{section}] section"
            yield f"sinks.{name}", f"{without}. Add one, or remove the setting."
    if parts.get("bouts") is not None and learner is not None and not _classifies(parts, learner):
        yield "bouts.shortest", "bouts need a classification; this job has none. Remove [bouts]."
    yield from _of_sensors(parts.get("alarms"), source, parts.get("state"))
    if sinks.alarms == "" and getattr(parts.get("drift"), "relearn_after", None) is not None:
        yield (
            "sinks.alarms",
            "relearn_after needs open alarms, which are kept only if their topic is on; remove one of the two settings.",
        )


def _of_sensors(alarms: Any, source: SourceSection, state: Any) -> Problems:
    """[alarms] and what contradicts it; alarms, state: their sections, or None."""
    expected = alarms.expected if alarms is not None else []
    if source.key is None and not expected and source.partitioner != SourceSection.model_fields["partitioner"].default:
        lacks = "partitioner has no meaning without key and without [alarms] expected"
        yield "source.partitioner", f"{lacks}; set one of them, or remove partitioner."
    if alarms is None:
        return
    if alarms.group is not None and alarms.silent is None:
        yield "alarms.group", "group needs silent, which compares the event time of a partition's keys. Add silent = '1h'."
    if expected and alarms.silent is None:
        yield "alarms.expected", "expected needs silent, the time after which a key is missing. Add silent = '1h'."
    if "" in expected or len(set(expected)) < len(expected):
        twice = next((key for key, times in Counter(expected).items() if times > 1), "")
        yield "alarms.expected", f"expected must name different keys, each with a character or more; got {twice!r:.80}."
    if alarms.silent is not None and state is not None and state.ttl:
        yield (
            "alarms.silent",
            "silent cannot be used with [state] ttl, because it needs the states of all keys. Remove one of the two.",
        )


def _classifies(parts: Mapping[str, Any], learner: Learner) -> bool:
    """Whether the job's head, or its learner that predicts by itself, has classes."""
    task = parts.get("task")
    return task is None or (task.task == "classification" and ("head" in parts or learner.kind in PREDICTING))
