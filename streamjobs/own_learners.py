"""Learners of your own: classes that installed packages name in the entry point group `streamjobs.learners`."""

import dataclasses
import functools
from importlib.metadata import EntryPoint, entry_points

from algorithms import LEARNERS, Learner
from streamjobs.errors import ConfigError

GROUP = "streamjobs.learners"


@functools.cache
def load_own_learners() -> tuple[str, ...]:
    """Add them to the registry, once in a process; gives their names.

    Raises ConfigError for one that cannot be loaded, is not a learner, or has the name of another: a job that runs without
    the learner it was written for would be worse than one that does not start.
    """
    return tuple(_added(point) for point in sorted(entry_points(group=GROUP)))


def _added(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "?"
    who = f"learner {point.name!r} of package {package} ({point.value})"
    advice = "correct or uninstall the package."
    if EntryPoint.pattern.match(point.value) is None:
        raise ConfigError(f"{who}: expected the entry point to be MODULE:CLASS without quotes; {advice}")
    try:
        cls = point.load()
    except Exception as problem:
        raise ConfigError(f"{who} cannot be loaded: {type(problem).__name__}: {problem}; {advice}") from problem
    if not (isinstance(cls, type) and issubclass(cls, Learner)):
        raise ConfigError(f"{who}: expected a class that inherits from algorithms.Learner, got {cls!r:.80}; {advice}")
    if not dataclasses.is_dataclass(cls):
        raise ConfigError(f"{who}: expected @dataclass(frozen=True, slots=True, kw_only=True) above the class; {advice}")
    name: str | None = getattr(cls, "name", None)
    if name is None or name != point.name:
        raise ConfigError(f"{who}: expected the entry point to have the learner's name, {name!r}; {advice}")
    for other in LEARNERS.values():
        if cls is not other and (other.name == name or other.persisted_name == cls.persisted_name):
            raise ConfigError(f"{who}: its name or persisted_name is that of {other.__name__}; {advice}")
    LEARNERS[name] = cls
    return name
