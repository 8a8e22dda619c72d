"""Valid settings that are probably mistakes; `streamjobs check` prints them as notes."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from streamjobs.settings.presets import preset_of
from streamjobs.settings.sections import MOST_WAITING, Settings
from streamjobs.settings.source import SourceSection


def notes(settings: Settings) -> list[str]:
    """One sentence per note; each begins with its section."""
    return list(_sentences(settings))


def _sentences(settings: Settings) -> Iterator[str]:
    source, state = settings.source, settings.state
    predicts = settings.head is not None or "task" in (settings.learner.model_extra or {})  # `load` adds it
    if predicts and source.label is None and source.format != "raw":
        never = "no key ever adapts to its labels" if settings.population else "predictions are never learned and stay null"
        yield f"[source]: label is not set, so {never}; set it if records have labels."
    if not predicts and source.label is not None:
        yield f"[source]: label {source.label!r} is read, but nothing learns it; add a [head]."
    if not predicts and not settings.sinks.features and settings.forecast is None:
        yield (
            "[sinks]: the job sends no predictions, because it has no [head]; features are off; name a topic as "
            "features if you want them."
        )
    if source.preset is not None:
        preset = preset_of(source.preset)
        same = sorted(name for name, value in preset.source.items() if _stated(source, name) == value)
        yield (
            f"[source]: preset {preset.name!r} ({preset.tool}): {', '.join(same) or 'nothing'} as it has them. "
            + "".join(f"{note[0].upper()}{note[1:]}. " for note in preset.notes).strip()
        )
    untimed = source.time is None and source.format != "raw"
    if untimed and settings.window:
        yield (
            "[source]: time is not set, so windows use the records' timestamps. That is right for records sent as they are "
            "measured; of a recording sent at full speed most samples are skipped. Set time if records have an event time."
        )
    usual = {name: SourceSection.model_fields[name].default for name in ("late", "lateness", "duplicates")}
    idle = [name for name, default in usual.items() if getattr(source, name) != default]
    if untimed and idle:
        yield (
            f"[source]: {', '.join(idle)} {'has' if len(idle) == 1 else 'have'} no effect: time is not set, so "
            "samples are applied in the order of their offsets, and no sample is late or a duplicate."
        )
    if source.lateness and source.late != "learn" and not untimed:
        yield f"[source]: samples later than {source.lateness:g} s are not learned (late = {source.late!r})."
    longest, window = max(settings.labels.wait, settings.labels.delay), settings.window
    if window and longest > (covered := (settings.labels.most or MOST_WAITING) * (window.hop or window.length)):
        yield (
            f"[labels]: where a key has no pauses, windows wait {covered:g} s for labels, not {longest:g} s: labels that "
            f"come later meet no window. Set a larger hop{' or most' if settings.labels.most else ''}."
        )
    if settings.broker.session_timeout < 6:
        yield "[broker]: brokers refuse a session_timeout below 6 s by default (group.min.session.timeout.ms)."
    if settings.job.guarantee == "exactly_once":
        sooner = "; [state] checkpoint = '75ms' shows them sooner" if settings.checkpoint >= 0.5 and state.replay else ""
        yield (
            f"[job]: with guarantee = 'exactly_once' outputs become visible at checkpoints (every "
            f"{settings.checkpoint:g} s{sooner}), and only readers with isolation.level=read_committed see each output once."
        )
    if state.store == "memory":
        yield "[state]: store = 'memory' reads the whole changelog at every start; use it for tests only."
    if settings.scaling.method == "none":
        yield "[scaling]: x is not scaled, but the defaults of kernels and step sizes assume scaled x."


def _stated(source: SourceSection, name: str) -> Any:
    """A setting as a job file states it, without what it leaves out."""
    value = getattr(source, name)
    return value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value
