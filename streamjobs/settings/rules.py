"""Settings that are each valid and contradict one another; every rule needs only the sections it names."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from algorithms import Learner
from algorithms.common.settings import suggestion
from algorithms.heads.gated import GatedRls
from streamjobs.settings.broker_rules import access_contradictions
from streamjobs.settings.composition import PREDICTING, TASK
from streamjobs.settings.learners import is_bounded, made
from streamjobs.settings.sections import (
    DriftSection,
    HeadSection,
    JobSection,
    LabelsSection,
    LearnerSection,
    ScalingSection,
    Settings,
    SinksSection,
    SourceSection,
    StateSection,
    WindowSection,
)
from streamjobs.settings.sentences import Places

MOST_SAMPLES = 100_000  # of one window, as in streamjobs.stages.windows
LONGEST_TRANSACTION = 60.0  # seconds; a third of TRANSACTION_TIMEOUT of streamjobs.worker.changelog
Found = Iterator[tuple[tuple[str, str], str]]  # (section, setting) and the sentence about it


def contradictions(parts: Mapping[str, Any], learners: Mapping[str, Learner]) -> Found:
    """Each contradiction with the setting it is about. `parts` has the valid sections, `learners` those made."""
    rules: list[Found] = []
    if source := parts.get("source"):
        rules.append(_source(source))
    if broker := parts.get("broker"):
        rules.append(access_contradictions(broker))
    if window := parts.get("window"):
        rules.append(_window(window))
        if source:
            rules.append(_windowed(window, source))
    if state := parts.get("state"):
        rules.append(_state(state))
        if job := parts.get("job"):
            rules.append(_once(job, state))
        if source and state.ttl is not None:
            rules.append(_ttl(state.ttl, source, parts.get("labels")))
    if learner := parts.get("learner"):
        rules.append(_roles(learner, parts.get("head"), learners))
    if task := parts.get("task"):
        rules.append(_task("head" if parts.get("head") else "learner", task))
    if drift := parts.get("drift"):
        rules.append(drift_contradictions(drift, parts.get("head"), learners))
    rules.append(_population(parts, learners))
    if (labels := parts.get("labels")) and source:
        rules.append(_labels(labels, source, parts, learners))
    if (sinks := parts.get("sinks")) and source:
        rules.append(_sinks(sinks, source, parts, learners))
    return itertools.chain.from_iterable(rules)


def _source(source: SourceSection) -> Found:
    if source.topic in ("", ".", ".."):
        yield ("source", "topic"), f"topic must be a topic's name; got {source.topic!r}."
    if source.format == "raw":
        for name in ("time", "label"):
            if getattr(source, name) is not None:
                yield ("source", name), f"{name} has no meaning in raw records: it comes in the header streamjobs-{name}."
    fields = source.fields
    if fields is None and source.dim is None:
        example = '\'fields = ["ax", "ay", "az"]\''
        yield (
            ("source", "fields"),
            f"the length of x is unknown; state the numbers of a record, such as {example}, "
            f"or 'dim = 3' where field {source.x!r} holds them as a list.",
        )
    named = fields if fields is not None else [source.x]
    for other in ("time", "label"):
        if getattr(source, other) in named:
            yield ("source", other), f"{other} must be a field of its own; {getattr(source, other)!r} is part of x already."
    if source.time is not None and source.time == source.label:
        yield ("source", "label"), f"label must be a field of its own; {source.label!r} is the time already."
    if fields is None:
        return
    if not fields:
        yield ("source", "fields"), "fields must name at least one number of a record; got an empty list."
    for name in sorted({name for name in fields if fields.count(name) > 1}):
        yield ("source", "fields"), f"fields must differ; {name!r} stands there {fields.count(name)} times."
    if source.dim is not None and source.dim != len(fields):
        yield ("source", "dim"), f"dim must be the number of fields ({len(fields)}), or absent; got {source.dim}."


def _window(window: WindowSection) -> Found:
    samples, period = window.length * window.rate, 1 / window.rate
    if not 4 <= samples <= MOST_SAMPLES:
        yield ("window", "length"), f"length must hold 4 to {MOST_SAMPLES} samples at {window.rate:g} Hz; got {samples:g}."
    if window.hop is not None and not period <= window.hop <= window.length:
        expected = f"from one sample period ({period:g} s) to the length ({window.length:g} s)"
        yield ("window", "hop"), f"hop must be {expected}; got {window.hop:g} s."
    if window.gap is not None and window.gap < period:
        yield ("window", "gap"), f"gap must be at least one sample period ({period:g} s); got {window.gap:g} s."


def _windowed(window: WindowSection, source: SourceSection) -> Found:
    mirror, fields = window.mirror, source.fields
    channels = len(fields) if fields is not None else source.dim
    if window.statistics == "gravity" and channels is not None and channels < 3:
        expected = "needs three fields of acceleration first"
        yield ("window", "statistics"), f"statistics = 'gravity' {expected}; [source] has {channels}. Choose 'rich'."
    if mirror is None:
        return
    place = ("window", "mirror")
    if source.format == "raw":
        yield (
            place,
            f"mirror has no meaning in raw records: there is no field {mirror.field!r} in them; use json or msgpack.",
        )
    elif fields is None:
        yield place, "mirror names columns, so the numbers of a record must be named too; state them as [source] fields."
    else:
        if not mirror.columns:
            yield place, "mirror: columns must name at least one of [source] fields; got none."
        for column in dict.fromkeys(mirror.columns):
            if column not in fields:
                yield place, f"mirror: {column!r} is not one of [source] fields{suggestion(column, fields)}"
            elif mirror.columns.count(column) > 1:
                yield place, f"mirror: columns must differ; {column!r} stands there {mirror.columns.count(column)} times."
        if mirror.field in (*fields, source.time, source.label):
            yield place, f"mirror: field must be a field of its own; {mirror.field!r} has another meaning in [source]."


def _state(state: StateSection) -> Found:
    if state.checkpoint <= 0:
        yield ("state", "checkpoint"), f"checkpoint must be above 0; got {state.checkpoint:g} s."


def _once(job: JobSection, state: StateSection) -> Found:
    if job.guarantee == "exactly_once" and state.checkpoint > LONGEST_TRANSACTION:
        expected = f"must be {LONGEST_TRANSACTION:g} s or less: a transaction is open for so long"
        got = f"got {state.checkpoint:g} s, and the broker would end it"
        yield ("state", "checkpoint"), f"with [job] guarantee = 'exactly_once' checkpoint {expected}; {got}."


def _ttl(ttl: float, source: SourceSection, labels: LabelsSection | None) -> Found:
    waits = max(source.lateness, labels.wait if labels else 0.0, labels.delay if labels else 0.0)
    if ttl <= waits or ttl <= 0:
        expected = "must be longer than what waits in a key's state ([source] lateness, [labels] wait and delay: "
        yield ("state", "ttl"), f"ttl {expected}{waits:g} s); got {ttl:g} s."


def _roles(learner: LearnerSection, head: HeadSection | None, learners: Mapping[str, Learner]) -> Found:
    one, head_one = learners.get("learner"), learners.get("head")
    if one is not None and one.kind == "drift":
        yield ("learner", "name"), f"{learner.name} is a drift detector; it belongs into [drift] as 'detector'."
    if one is not None and one.kind == "features" and one.width_for(8) == 0:
        yield ("learner", "name"), f"{learner.name} gives no features; it belongs into [drift] as one of 'beside'."
    if one is not None and not is_bounded(one):
        yield (
            ("learner", "name"),
            f"{learner.name} with these settings keeps every sample it has seen; a job runs bounded learners only. "
            "Set a budget, or choose another learner.",
        )
    if head is None:
        if one is not None and one.kind == "features":
            for name in sorted(set(TASK) & set(learner.model_extra or {})):
                yield ("learner", name), f"{name} belongs into [head]: {learner.name} gives features and predicts nothing."
        return
    if one is not None and "head" in (learner.model_extra or {}):
        yield ("learner", "head"), "head has no meaning beside a [head] section; remove one of the two."
    if one is not None and one.kind in PREDICTING:
        yield (
            ("head", "name"),
            f"{learner.name} predicts by itself and takes no head; remove [head], or choose a learner that gives features.",
        )
    else:
        for name in sorted(set(TASK) & set(learner.model_extra or {})):
            yield ("learner", name), f"{name} belongs into [head], where the predictions are made."
    if head_one is not None and head_one.kind not in PREDICTING:
        yield ("head", "name"), f"a head must predict; {head.name} gives {head_one.kind}. Choose one such as 'rls'."


def _task(section: str, task: HeadSection) -> Found:
    stated = {name for name, field in HeadSection.model_fields.items() if getattr(task, name) != field.default}
    if task.task == "regression":
        for name in ("classes", "max_classes", "smooth", "fallback"):
            if name in stated:
                yield (section, name), f"{name} has no meaning in a regression; remove it, or set task = 'classification'."
        return
    if "targets" in stated:
        yield (section, "targets"), "targets has no meaning in a classification; remove it, or set task = 'regression'."
    if task.classes is None:
        return
    if len(task.classes) < 2 or len(set(task.classes)) < len(task.classes) or "" in task.classes:
        yield (section, "classes"), f"classes must be two or more different texts; got {task.classes!r}."
    if "max_classes" in stated and task.max_classes < len(task.classes):
        got = task.max_classes
        yield (
            (section, "max_classes"),
            f"max_classes must be at least the number of classes ({len(task.classes)}); got {got}.",
        )


def _population(parts: Mapping[str, Any], learners: Mapping[str, Learner]) -> Found:
    population, scaling, learner = parts.get("population"), parts.get("scaling"), parts.get("learner")
    if population is None:
        if isinstance(scaling, ScalingSection) and scaling.shared:
            yield ("scaling", "from"), "from = 'population' needs a [population] with the file that 'streamjobs fit' writes."
        if learner is not None and learner.freeze:
            yield ("learner", "freeze"), "freeze = true needs a [population]: without one the map would never learn."
        return
    if isinstance(scaling, ScalingSection) and scaling.shared is False:
        yield ("scaling", "from"), "from must be 'population' or absent: the population's map knows only its own scale."
    if learner is not None and learner.freeze is False:
        yield (
            ("learner", "freeze"),
            "freeze must be true or absent with [population]; [state] start_from gives each key a map that learns on.",
        )
    state, head = parts.get("state"), parts.get("head")
    if state is not None and state.start_from is not None:
        yield ("state", "start_from"), "start_from and [population] both say how new keys begin; remove one."
    name = "learner" if head is None else "head"
    one = learners.get(name)
    if one is not None and not isinstance(one, GatedRls) and (head is not None or one.kind in PREDICTING):
        got = (head or parts["learner"]).name
        yield (name, "name"), f"{got} cannot begin from a [population]; the head must be 'rls' (or 'gated_rls')."
    elif head is None and one is not None and one.kind not in PREDICTING:
        yield (
            ("population", "file"),
            f"{parts['learner'].name} gives features only; a [population] needs [head] name = 'rls'.",
        )
    task = parts.get("task")
    if task is not None and task.task != "classification" and isinstance(one, GatedRls):
        yield (name, "task"), "task must be 'classification' with [population]."


def _labels(
    labels: LabelsSection, source: SourceSection, parts: Mapping[str, Any], learners: Mapping[str, Learner]
) -> Found:
    on = next((name for name in ("wait", "delay") if getattr(labels, name) > 0), None)
    if on is None:
        for name in ("within", "most"):
            if getattr(labels, name) is not None:
                yield ("labels", name), f"{name} has no meaning without wait or delay; state how long rows wait."
        return
    if source.format == "raw" and labels.wait > 0:
        yield ("labels", "wait"), "wait has no meaning in raw records: a label cannot come without x; use json or msgpack."
    elif source.label is None and source.format != "raw":
        yield ("labels", on), f"{on} needs the name of the field with the label; state [source] label."
    elif source.time is None and source.format != "raw":
        yield ("labels", on), f"{on} needs the name of the field with the event time; state [source] time."
    one, drift = learners.get("learner"), parts.get("drift")
    if parts.get("head") is None and one is not None and one.kind not in PREDICTING:
        yield ("labels", on), f"{on} has nobody who learns labels; add a [head]."
    if drift is not None and drift.watch == "loss":
        yield ("drift", "watch"), "watch = 'loss' misses labels that are learned later; with [labels] watch 'ls_error'."


def _sinks(sinks: SinksSection, source: SourceSection, parts: Mapping[str, Any], learners: Mapping[str, Learner]) -> Found:
    users = {source.topic: "the input topic"}
    for name in SinksSection.model_fields:
        stated = getattr(sinks, name)
        if name == "dlq" and stated == "":
            yield ("sinks", "dlq"), "dlq cannot be off: a record that cannot be used must go somewhere."
            continue
        if stated in (".", ".."):
            yield ("sinks", name), f"{name} must be a topic's name; got {stated!r}."
        topic = f"{source.topic}.{name}" if stated is None else stated
        if topic and topic in users:
            yield ("sinks", name), f"{name} must be a topic of its own; {topic!r} is {users[topic]} already."
        elif topic:
            users[topic] = f"the topic of {name}"
    one, head = learners.get("learner"), parts.get("head")
    if sinks.features and one is not None and one.kind in PREDICTING:
        yield ("sinks", "features"), "features will never come: the learner predicts and gives none. Remove the setting."
    if sinks.predictions and head is None and one is not None and one.kind == "features":
        yield ("sinks", "predictions"), "predictions will never come without a [head]. Add one, or remove the setting."
    if sinks.drift and parts.get("drift") is None:
        yield ("sinks", "drift"), "drift will never come without a [drift] section. Add one, or remove the setting."


def advice(settings: Settings) -> list[str]:
    """One sentence each, with its section."""
    return list(_spoken(settings))


def _spoken(settings: Settings) -> Iterator[str]:
    source, state = settings.source, settings.state
    predicts = settings.head is not None or "task" in (settings.learner.model_extra or {})  # see _tasked
    if predicts and source.label is None and source.format != "raw":
        yield "[source]: no label is named, so nothing is ever learned to predict; predictions stay null until labels come."
    if not predicts and source.label is not None:
        yield f"[source]: label {source.label!r} is read and nobody learns it; add a [head]."
    if source.time is None and (settings.window or source.lateness):
        yield "[source]: no time is named; windows and order go by the records' own timestamps."
    if source.lateness and source.late != "learn":
        yield f"[source]: samples later than {source.lateness:g} s are not learned (late = {source.late!r})."
    if settings.broker.session_timeout < 6:
        yield "[broker]: session_timeout below 6 s is refused by a broker with its default group.min.session.timeout.ms."
    if settings.job.guarantee == "exactly_once":
        yield (
            "[job]: with guarantee = 'exactly_once' an output is seen when its checkpoint is over (every "
            f"{state.checkpoint:g} s here), and only readers with isolation.level=read_committed see each one once."
        )
    if state.store == "memory":
        yield "[state]: store = 'memory' reads the whole changelog at every start; it is meant for tests."
    if settings.scaling.method == "none":
        yield "[scaling]: x reaches the learner unscaled; kernels and step sizes have defaults for scaled x."


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
