"""What [drift] is composed of: watches, their reference, and when an alarm starts a new one."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from algorithms import Learner, learner_from
from algorithms.common.protocol import SettingError
from algorithms.common.settings import suggestion
from algorithms.drift.standing import LEAST_ROWS, LEAST_ROWS_PER_COLUMN
from streamjobs.settings.learners import FORESEEN, detector_roles, rows_between, with_name
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import POPULATION, reference, rows_or_time
from streamjobs.stages.alarms import Lasting
from streamjobs.stages.reference import Reference
from streamjobs.stages.windows import Windows

if TYPE_CHECKING:
    from streamjobs.stages.events.slopes import Slopes

EXTRACTOR, DETECTOR, BESIDE = "drift_extractor", "drift", "beside_"  # stages of [drift]; of a control with its name
INNOVATIONS = "drift_forecasts"  # stage of [drift] that innovations and rows share
PER_HOUR = "_per_hour"  # behind the name of a level of which the slope is watched


class Watch(NamedTuple):
    """A learner with an error that a detector watches, and the stages of both."""

    name: str  # of the learner, as outputs and metrics show it
    watch: str  # columns, innovations, rows, ls_error or loss
    learner: Learner | None  # None: the job's own
    detector: Learner
    learner_stage: str
    detector_stage: str
    control: bool = False  # runs with the others, for comparison


def watches_of(settings: Settings, learners: Mapping[str, Learner], model: str) -> tuple[Watch, ...]:
    drift = settings.drift
    if drift is None:
        return ()
    watches: list[Watch] = []
    for role, watch in detector_roles(drift):
        stage = f"{DETECTOR}_{watch}" if watches else DETECTOR
        if watch == "columns":
            watches.append(Watch("columns", watch, None, learners[role], "", stage))
        elif watch in FORESEEN:
            forecasts = learner_from("innovations", {"repeats": False} if drift.counts else {})
            watches.append(Watch(watch, watch, forecasts, learners[role], INNOVATIONS, stage))
        elif drift.extractor is None or watch == "loss":
            watches.append(Watch(model, watch, None, learners[role], "", stage))
        else:
            follower = learners["extractor"]
            watches.append(Watch(with_name(drift.extractor)[0], watch, follower, learners[role], EXTRACTOR, stage))
    for n, control in enumerate(drift.beside):
        name, _ = with_name(control)
        stages = BESIDE + name, f"{BESIDE}{name}_drift"
        watches.append(Watch(name, "ls_error", learners[f"beside {n}"], learners["detector"], *stages, control=True))
    return tuple(watches)


def reference_of(settings: Settings, width: int) -> Reference | None:
    if settings.drift is None or settings.drift.reference in (None, POPULATION):
        return None
    rows, seconds = reference(settings.drift.reference or "")
    return Reference(rows=rows, seconds=seconds, least=0 if rows else max(LEAST_ROWS, LEAST_ROWS_PER_COLUMN * width))


def slopes_of(settings: Settings, columns: Sequence[str]) -> "Slopes | None":
    named = settings.drift.slopes if settings.drift is not None else None
    if not named:
        return None
    from streamjobs.stages.events.slopes import Slopes

    if unknown := next((name for name in named if name not in columns), None):
        raise SettingError(f"[drift] slopes: {unknown!r} is not a number of a row{suggestion(unknown, columns)}")
    if twice := next((name for name in named if name + PER_HOUR in columns), None):
        name = twice + PER_HOUR
        raise SettingError(f"[drift] slopes: {name!r} would be two numbers of a row; remove {twice!r} from slopes")
    return Slopes(columns=tuple(map(columns.index, named)), spans=tuple(named.values()))


def between_of(settings: Settings, windows: Windows | None) -> float | None:
    drift = settings.drift
    if drift is None or drift.reference != POPULATION or drift.false_alarms is None:
        return None
    return rows_between(drift.false_alarms, None if windows is None else windows.hop)


def relearn_after_of(settings: Settings) -> Lasting | None:
    if settings.drift is None or settings.drift.relearn_after is None:
        return None
    return Lasting(*rows_or_time(settings.drift.relearn_after))
