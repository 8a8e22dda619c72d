"""What a job is composed of: its settings read into learners, windows and sizes, once, for check, run, replay and fit alike.

With [population] the scale and the map are shared by all keys and stand still, and a key's learner is the head alone.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from algorithms import Learner, learner_from
from algorithms.common.protocol import SettingError
from streamjobs.errors import ConfigError
from streamjobs.settings.composition import watches
from streamjobs.settings.composition.watches import PER_HOUR, Watch
from streamjobs.settings.events import AlarmsSection
from streamjobs.settings.learners import PREDICTING, TASK, read_learners, tells_alarms
from streamjobs.settings.rules import check_sections
from streamjobs.settings.sections import MOST_WAITING, SINKS, HeadSection, MirrorSection, Settings, WindowSection
from streamjobs.settings.sentences import Places
from streamjobs.settings.source import sensors_of
from streamjobs.settings.times import zone_of
from streamjobs.stages.alarms import Lasting
from streamjobs.stages.clip_targets import ClipTargets
from streamjobs.stages.fill import Fill
from streamjobs.stages.late_labels import LateLabels
from streamjobs.stages.reference import Reference
from streamjobs.stages.sensors import Sensors
from streamjobs.stages.smoothing import Smoothing, Transitions
from streamjobs.stages.stage import describe
from streamjobs.stages.statistics import names as statistic_names
from streamjobs.stages.windows import FULL, POPULATED, Windows

if TYPE_CHECKING:
    from streamjobs.stages.events.bouts import Bouts
    from streamjobs.stages.events.forecasts import Forecasts
    from streamjobs.stages.events.silent import Grouped, SilentKeys
    from streamjobs.stages.events.slopes import Slopes
    from streamjobs.stages.events.stuck import StuckSensors
    from streamjobs.stages.sensors.counters import Counters

CLIP_TARGET = 10.0  # running deviations, where [head] does not say
_BY_HAND = Places("settings", {})
_TAUGHT = ("forgetting", "delta", "intercept")  # settings in which a person's head and the population's must agree
SENT_WITH = {  # outputs that need no name of a topic
    "predictions": "a [head], or with a learner that predicts,",
    "alarms": "[drift] false_alarms or with [alarms]",
    "bouts": "[bouts]",
    "forecasts": "[forecast]",
}


class Composition(NamedTuple):
    """Learners, windows and sizes as the settings name them; nothing has been learned yet."""

    settings: Settings
    dim: int  # of a sample
    width: int  # of what scaling and map see: dim, or the statistics of a window
    counters: "Counters | None"  # where readings become rates
    fill: Fill | None  # where numbers may be missing
    sensors: Sensors | None  # where samples are of several sensors
    windows: Windows | None
    mirror: MirrorSection | None  # of a sensor that may be worn on either side
    waiting: LateLabels | None  # where labels may come later
    clip: ClipTargets | None  # of a regression
    scaling: Learner | None
    keeps_input: bool  # the head sees what the map sees, and then its features
    map: Learner | None  # with [population]: shared by all keys; None where x goes straight into the head
    learner: Learner  # a key's own: with [population] the head, else everything
    teacher: Learner | None  # with [population]: the head that learns from other people
    smoothing: Smoothing | Transitions | None
    boosts: bool  # with [population]: the job does not state boost, so that the population's file may
    watches: tuple[Watch, ...]  # for drift: first those the job uses, then the controls
    reference: Reference | None  # of the watches: which rows are normal
    between: float | None  # with the population's reference: rows from one false alarm of a key to the next, at least
    relearn_after: Lasting | None  # a key with an alarm that has lasted so long begins a new reference
    task: str  # classification | regression | none (the learner predicts nothing)
    classes: list[str] | None  # declared ones
    max_classes: int | None  # None: a population's
    targets: int  # of a regression
    reject: float | None  # with [population]: most of the rows of known classes that may be unknown
    falls_back: bool  # on the last label, where a row has no scores
    bouts: "Bouts | None"  # of a classification
    stuck: "StuckSensors | None"  # with [alarms] stuck
    silent: "SilentKeys | None"  # with [alarms] silent
    group: "Grouped | None"  # with [alarms] group
    forecasts: "Forecasts | None"  # with [forecast]
    facts: dict[str, str]  # what a population of this job belongs to
    model: str  # how outputs and metrics name learner and head
    sinks: dict[str, str]  # sink -> topic, those that are on
    columns: tuple[str, ...]  # what each number of a row is called: a field, the statistic of one in a window, a place in x
    slopes: "Slopes | None"  # with [drift] slopes

    @property
    def predicts(self) -> bool:
        return self.task != "none"

    @property
    def watched(self) -> tuple[str, ...]:
        """What each number of a row is called where [drift] watches it."""
        if self.slopes is None:
            return self.columns
        levels = self.slopes.columns
        return tuple(name + PER_HOUR if n in levels else name for n, name in enumerate(self.columns))


def composition_of(settings: Settings) -> Composition:
    """Of settings made by hand, checked as those of a job file are. Raises ConfigError with every problem."""
    sections = sections_of(settings)
    learners, problems = check_sections(sections, _BY_HAND)
    if problems:
        raise ConfigError(problems)
    return compose(Settings(**{name: sections.get(name) for name in Settings.model_fields}), learners, _BY_HAND.origin)


def derived(settings: Settings) -> Composition:
    """Of settings made of a job's for a part of its work, which need not be a job of their own.

    Raises ConfigError for what learners refuse, or does not fit together.
    """
    learners, problems = read_learners(sections_of(settings), _BY_HAND)
    if problems:
        raise ConfigError(problems)
    return compose(settings, learners, _BY_HAND.origin)


def sections_of(settings: Settings) -> dict[str, Any]:
    """Those that there are, by name."""
    return {name: section for name in Settings.model_fields if (section := getattr(settings, name)) is not None}


def compose(settings: Settings, learners: Mapping[str, Learner], origin: str) -> Composition:
    """The job of valid settings and the learners that `read_learners` made of them.

    Raises ConfigError for what does not fit together, or where the length of x is not stated.
    """
    try:
        return _composed(settings, learners)
    except (SettingError, ValueError) as error:
        raise ConfigError(f"{origin}: {error}") from None


def _composed(settings: Settings, learners: Mapping[str, Learner]) -> Composition:
    source = settings.source
    dim = source.width
    if dim is None:
        raise ValueError("[source]: the length of x is unknown; set `fields = [...]`, or `dim` together with `x`.")
    population = settings.population is not None
    mapping, learner = _map_and_learner(settings, learners)
    head = settings.head or HeadSection(name=settings.learner.name, **_task_of(settings))
    kind = learner.kind
    task = head.task if kind in PREDICTING else "none"
    if population and task != "classification":
        raise SettingError("[population] needs a head that classifies; set [head] name = 'rls', task = 'classification'.")
    classifies = task == "classification"
    windows = _windows(settings, "mean" if task == "regression" else "majority")
    width = windows.row_width(dim, fitted=settings.population is not None) if windows else dim
    model = settings.learner.name + (f"+{settings.head.name}" if settings.head else "")
    clip = CLIP_TARGET if head.clip_target is None else head.clip_target
    own_most = population and "max_classes" not in head.model_fields_set
    return Composition(
        settings=settings,
        dim=dim,
        width=width,
        counters=_counters(settings),
        fill=_fill(settings, dim),
        sensors=_sensors(settings),
        windows=windows,
        mirror=settings.window.mirror if settings.window else None,
        waiting=_waiting(settings),
        clip=ClipTargets(clip=clip) if task == "regression" and clip > 0 else None,
        scaling=_scaling(settings),
        keeps_input=mapping is not None and settings.learner.input,
        map=mapping,
        learner=learner,
        teacher=learner_from("rls", {name: getattr(learner, name) for name in _TAUGHT}) if population else None,
        smoothing=_smoothing(head, windows) if classifies else None,
        boosts=population and "boost" not in ((settings.head or settings.learner).model_extra or {}),
        watches=watches.watches_of(settings, learners, model),
        reference=watches.reference_of(settings, width),
        between=watches.between_of(settings, windows),
        relearn_after=watches.relearn_after_of(settings),
        task=task,
        classes=list(head.classes) if head.classes and classifies else None,
        max_classes=None if own_most and not head.classes else len(head.classes or ()) or head.max_classes,
        targets=head.targets,
        reject=head.reject if classifies and population else None,
        falls_back=classifies and (head.fallback == "last_label" or (learner.falls_back and head.fallback is None)),
        bouts=_bouts(settings, windows) if classifies else None,
        **_alarms(settings.alarms),
        forecasts=None if settings.forecast is None else _forecasts(settings, learners.get("forecast")),
        facts=_facts(settings, windows),
        model=model,
        sinks=_sinks(settings, gives_features=kind == "features" or settings.head is not None, predicts=task != "none"),
        columns=(columns := _columns(settings, dim, windows, width)),
        slopes=watches.slopes_of(settings, columns),
    )


def _smoothing(head: HeadSection, windows: Windows | None) -> Smoothing | Transitions | None:
    if head.filter is None:
        return Smoothing(smooth=head.smooth) if head.smooth > 0 else None
    if head.lasts is None:
        return Transitions()
    return Transitions(lasts=head.lasts) if windows is None else Transitions(switch=windows.hop / head.lasts)


def _map_and_learner(settings: Settings, learners: Mapping[str, Learner]) -> tuple[Learner | None, Learner]:
    """The map all keys share (None without [population], or where there is none), and a key's own learner."""
    learner, head, population = learners["learner"], learners.get("head"), settings.population is not None
    if settings.head is None:
        if population and not learner.begins_from_population:
            raise SettingError(f"[population] needs a head such as 'rls' behind {settings.learner.name}.")
        return None, learner
    assert head is not None
    if not population:
        return None, learners["chain"]
    if not head.begins_from_population:
        raise SettingError(
            f"[population] needs the head 'rls' (or 'gated_rls'); {settings.head.name} cannot start from a population."
        )
    return learner, head


def _task_of(settings: Settings) -> dict[str, Any]:
    """What [head] would say of a learner that predicts by itself."""
    extra = settings.learner.model_extra or {}
    usual = "classification" if settings.population is not None else "regression"
    return {"task": usual, **{name: extra[name] for name in TASK if name in extra}}


def _columns(settings: Settings, dim: int, windows: Windows | None, width: int) -> tuple[str, ...]:
    fields = settings.source.column_names(dim)
    if windows is None:
        return tuple(fields)
    names = statistic_names(fields, windows.statistics)
    return (*names, *(f"convolution_{n}" for n in range(1, width - len(names) + 1)))


def not_sent(sink: str, sinks: Mapping[str, str], doing: str) -> str:
    """What to tell who wants to read outputs that the job does not send; doing: what they want, such as "export"."""
    begin = f"{doing}: this job sends no {sink}; it has {', '.join(sinks)}."
    if sink in SENT_WITH:
        return f"{begin} A job with {SENT_WITH[sink]} sends them, unless [sinks] {sink} is ''."
    return (
        f"{begin} To {doing} what it could send, name a topic in "
        f"[sinks] {sink}, or in the environment: STREAMJOBS_SINKS__{sink.upper()}=NAME."
    )


def _sinks(settings: Settings, *, gives_features: bool, predicts: bool) -> dict[str, str]:
    base, chosen = settings.source.base_topic, settings.sinks
    alarms = tells_alarms(settings.drift, chosen)
    every_row = settings.drift is not None and (chosen.drift is not None or not alarms)
    features = gives_features and chosen.features is not None
    wanted = {"features": features, "predictions": predicts, "drift": every_row, "alarms": alarms, "dlq": True}
    wanted["bouts"] = settings.bouts is not None and predicts
    wanted["forecasts"] = settings.forecast is not None
    wanted["alarms"] = alarms or settings.alarms is not None
    sinks = {}
    for sink in SINKS:
        topic = getattr(chosen, sink)
        if wanted[sink] and (topic != "" or sink == "dlq"):
            sinks[sink] = topic or f"{base}.{sink}"
    return sinks


def _scaling(settings: Settings) -> Learner | None:
    scaling = settings.scaling
    if scaling.method == "none" and not scaling.unit_norm and not scaling.clip:
        return None
    return learner_from("scaling", scaling.model_dump(exclude={"from"}))


def _counters(settings: Settings) -> "Counters | None":
    named = settings.source.counters
    if not named:
        return None
    from streamjobs.stages.sensors.counters import Counters

    return Counters(columns=tuple(n for n, (_, field) in enumerate(settings.source.columns) if field in named))


def _fill(settings: Settings, dim: int) -> Fill | None:
    policies, hold_for = settings.source.policies(dim), settings.source.hold_for
    if set(policies) <= {"dlq"} or settings.source.sensors is not None:
        return None  # the sensors' own stage fills in between their samples
    return Fill(policies=policies, hold_for=math.inf if hold_for is None else hold_for)


def _sensors(settings: Settings) -> Sensors | None:
    section, window = settings.source.sensors, settings.window
    if section is None:
        return None
    sensors = sensors_of(section)
    rate = section.rate if window is None else window.rate
    if rate is None:
        raise SettingError("[source.sensors]: set `rate`, the rows a second, because the job has no [window].")
    return Sensors(
        names=tuple(one.name for one in sensors),
        rate=rate,
        wait=section.patience,
        lateness=settings.source.lateness,
        widths=tuple(len(one.columns) for one in sensors),
        rates=tuple(one.section.rate for one in sensors),
        between=tuple(one.section.between for one in sensors),
        gaps=tuple(one.section.pause for one in sensors),
    )


def fewest_of(settings: Settings, window: WindowSection) -> float:
    """Share of a window's samples that it needs: a population's people have sensors of several rates."""
    return window.fewest or (FULL if settings.population is None else POPULATED)


def _windows(settings: Settings, label: str) -> Windows | None:
    window = settings.window
    if window is None:
        return None
    return Windows(
        length=window.length,
        hop=window.hop or window.length,
        label=label,
        rate=window.rate,
        gap=window.gap,
        statistics=window.statistics,
        convolutions=window.convolutions,
        fewest=fewest_of(settings, window),
    )


def _waiting(settings: Settings) -> LateLabels | None:
    labels, window = settings.labels, settings.window
    if labels.wait <= 0 and labels.delay <= 0:
        return None
    hop = (window.hop or window.length) if window else None
    within, most = labels.within, labels.most
    if within is None:
        within = hop / 2 if hop else 0.0
    if most is None:
        most = math.ceil(min(max(labels.wait, labels.delay) / hop, MOST_WAITING - 1)) + 1 if hop else 1000
    return LateLabels(wait=labels.wait, delay=labels.delay, within=within, most=most)


def _bouts(settings: Settings, windows: Windows | None) -> "Bouts | None":
    if settings.bouts is None or settings.sinks.bouts == "":
        return None
    from streamjobs.stages.events.bouts import Bouts

    waiting, zone = _waiting(settings), zone_of(settings.source.time_zone or "UTC")
    return Bouts(
        shortest=settings.bouts.shortest,
        hop=0.0 if windows is None else windows.hop,
        length=0.0 if windows is None else windows.length,
        wait=0.0 if waiting is None else max(waiting.wait, waiting.delay),
        most=0 if waiting is None else waiting.most + 2,
        zone=zone,
    )


def _forecasts(settings: Settings, learner: Learner | None) -> "Forecasts | None":
    if settings.forecast is None or settings.sinks.forecasts == "":
        return None
    from streamjobs.settings.rules.forecast import forecasts_of

    return forecasts_of(settings.forecast, settings.source, settings.window, learner)


def _alarms(alarms: AlarmsSection | None) -> dict[str, Any]:
    """The stages of [alarms] by name, None for those that the job does not have: these are not imported."""
    stuck = silent = group = None
    if alarms is not None and alarms.stuck is not False:
        from streamjobs.stages.events.stuck import StuckSensors

        stuck = StuckSensors(after=0.0 if alarms.stuck is True else alarms.stuck)
    if alarms is not None and alarms.silent is not None:
        from streamjobs.stages.events.silent import SilentKeys

        silent = SilentKeys(after=alarms.silent)
    if alarms is not None and alarms.group is not None:
        from streamjobs.stages.events.silent import Grouped

        group = Grouped(share=alarms.group, within=alarms.group_within)
    return {"stuck": stuck, "silent": silent, "group": group}


def _facts(settings: Settings, windows: Windows | None) -> dict[str, str]:
    source, mirror = settings.source, settings.window.mirror if settings.window else None
    facts = {"x": ",".join(source.learned_columns) or f"{source.dim} numbers"}
    facts["windows"] = describe(windows) if windows else "none"
    if settings.learner.input:
        facts["input"] = "rows and features"
    if settings.population is not None and settings.population.directions is not None:
        facts["directions"] = str(settings.population.directions)
    facts["mirror"] = f"{','.join(mirror.columns)} where {mirror.field} = {mirror.when!r}" if mirror else "none"
    return facts
