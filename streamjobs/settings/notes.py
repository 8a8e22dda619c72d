"""Valid settings that are probably mistakes; `streamjobs check` prints them as notes."""

from collections.abc import Iterator

from streamjobs.settings.sections import Settings


def notes(settings: Settings) -> list[str]:
    """One sentence per note; each begins with its section."""
    return list(_sentences(settings))


def _sentences(settings: Settings) -> Iterator[str]:
    source, state = settings.source, settings.state
    predicts = settings.head is not None or "task" in (settings.learner.model_extra or {})  # `load` adds it
    if predicts and source.label is None and source.format != "raw":
        yield "[source]: label is not set, so predictions are never learned and stay null; set it if records have labels."
    if not predicts and source.label is not None:
        yield f"[source]: label {source.label!r} is read, but nothing learns it; add a [head]."
    if source.time is None and (settings.window or source.lateness):
        yield "[source]: time is not set; windows and lateness use the records' timestamps."
    if source.lateness and source.late != "learn":
        yield f"[source]: samples later than {source.lateness:g} s are not learned (late = {source.late!r})."
    if settings.broker.session_timeout < 6:
        yield "[broker]: brokers refuse a session_timeout below 6 s by default (group.min.session.timeout.ms)."
    if settings.job.guarantee == "exactly_once":
        yield (
            f"[job]: with guarantee = 'exactly_once' outputs become visible at checkpoints (every "
            f"{state.checkpoint:g} s), and only readers with isolation.level=read_committed see each output once."
        )
    if state.store == "memory":
        yield "[state]: store = 'memory' reads the whole changelog at every start; use it for tests only."
    if settings.scaling.method == "none":
        yield "[scaling]: x is not scaled, but the defaults of kernels and step sizes assume scaled x."
