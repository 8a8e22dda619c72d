"""What is allowed in a job file and rarely meant: said, and the job runs all the same."""

from collections.abc import Iterator

from streamjobs.config import Settings


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
