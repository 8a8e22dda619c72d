"""Tries settings of a job's learner and head on recordings: chosen on the first part of every key, scored on the rest.

Every candidate runs over all records as a worker would, each row predicted before it is learned. Which settings are chosen
depends on the first part alone; what they are worth is the error on the rest, which chose nothing.
"""

import copy
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from algorithms import LEARNERS, Learner, SettingError
from algorithms.common.kernels import Kernel
from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.errors import ConfigError
from streamjobs.replay.engine import Tally
from streamjobs.replay.scoring import Errors, Row, baselines, errors_of, parts, predicted, require_labels
from streamjobs.settings.composition import Composition
from streamjobs.settings.learners import TASK
from streamjobs.settings.types import toml

FACTORS: dict[str, tuple[float, ...]] = {  # settings tried as multiples of what the job has
    "bandwidth": (0.5, 2.0, 0.25, 4.0),
    "step_size": (0.3, 3.0, 0.1),
    "ridge": (0.1, 10.0, 0.01),
    "aggressiveness": (0.1, 10.0),
    "delta": (0.01, 100.0),
    "quantum": (0.25, 4.0),
    "novelty": (0.25, 4.0),
    "ald_above": (0.1, 10.0),
    "rank": (0.5, 2.0),
}
VALUES: dict[str, tuple[Any, ...]] = {  # settings tried at these values
    "bandwidth": ("auto",),
    "forgetting": (1.0, 0.999, 0.99, 0.95),
    "coherence_below": (0.3, 0.7, 0.9),
    "smooth": (0.0, 0.5, 0.8),
}
FIRST = ("bandwidth", "forgetting", "step_size", "rank")  # tried before the others, because they matter most
HAS_WIDTH = ("gaussian", "laplacian")
TUNED = ["learner", "head"]  # sections of a job file
OWN, LINEAR = "own", "linear"  # kinds of candidates: the job's learner and head, a linear head on the same rows


class Trial(NamedTuple):
    whose: str
    changed: dict[str, Any]  # settings that differ from what the job has, as "learner.kernel.bandwidth"
    table: dict[str, Any]  # the whole job file
    errors: Errors


class Tuned(NamedTuple):
    task: str
    trials: list[Trial]  # of the job's learner first of all as it is
    baselines: dict[str, Errors]
    labels: tuple[int, int]  # in both parts
    finished: bool  # False: the time was up

    def best(self, whose: str) -> Trial | None:
        """The trial with the smallest error on the first part, the earliest of equals."""
        mine = [trial for trial in self.trials if trial.whose == whose and trial.errors.first is not None]
        return min(mine, key=lambda trial: trial.errors.first or 0.0, default=None)


class _TimeIsUp(Exception):
    """A trial is not finished in time."""


def tune(
    table: Mapping[str, Any],
    made: Callable[[Mapping[str, Any]], Composition],
    records: Sequence[Stored],
    *,
    share: float,
    most: int,
    seconds: float,
    tell: Callable[[int, str], None],
) -> Tuned:
    """Try the settings of a job file's contents. `made` composes a job file's contents, `tell` hears of each trial.

    share: of each key's labelled rows, the first part. Raises ConfigError for a job without labels.
    """
    tuner = _Tuner(made, records, share, time.monotonic() + seconds, most, tell)
    plain = {name: copy.deepcopy(dict(section)) for name, section in table.items() if name not in ("drift", "sinks")}
    job = made(plain)
    require_labels(job, "tune")
    finished = tuner.search(OWN, plain, job)
    linear = _linear(plain, job)
    if linear is not None:
        finished &= tuner.search(LINEAR, linear, made(linear))
    controls = baselines(job.task, tuner.rows, share, job.settings.labels.delay)
    return Tuned(job.task, tuner.trials, controls, tuner.labels, finished)


@dataclasses.dataclass
class _Tuner:
    made: Callable[[Mapping[str, Any]], Composition]
    records: Sequence[Stored]
    share: float
    until: float
    most: int
    tell: Callable[[int, str], None]
    trials: list[Trial] = dataclasses.field(default_factory=list)
    rows: list[Row] = dataclasses.field(default_factory=list)  # of the first trial
    labels: tuple[int, int] = (0, 0)

    def search(self, whose: str, table: dict[str, Any], job: Composition) -> bool:
        """One setting after the other, each with the best values so far of the others; False where the time was up."""
        begun = len(self.trials)
        best = self.attempt(whose, table, {}, always=True)
        assert best is not None
        for path, values in sorted(_space(table, job), key=lambda one: (*FIRST, one[0][-1]).index(one[0][-1])):
            for value in values:
                if time.monotonic() > self.until or len(self.trials) - begun >= self.most:
                    return False
                changed = best.changed | {".".join(path): value}
                one = self.attempt(whose, _with(best.table, path, value), changed)
                if one is not None and one.errors.first is not None and one.errors.first < (best.errors.first or 0.0):
                    best = one
        return True

    def attempt(self, whose: str, table: dict[str, Any], changed: dict[str, Any], *, always: bool = False) -> Trial | None:
        """A trial; None where the settings are refused, or the time is up. always: it is neither."""
        self.tell(len(self.trials) + 1, f"{whose} {settings_text(changed)}")
        try:
            job = Job.from_composition(self.made(table))
        except (ConfigError, SettingError, ValueError):
            if always:
                raise
            return None

        def in_time(tally: Tally) -> None:
            if not always and time.monotonic() > self.until:
                raise _TimeIsUp

        try:
            rows, _ = predicted(job, self.records, in_time)
        except _TimeIsUp:
            return None
        if not self.trials:
            labelled = [row for row in rows if row.label is not None]
            self.rows, self.labels = rows, tuple(map(len, parts(labelled, self.share)))  # type: ignore[assignment]
            if not all(self.labels):
                raise ConfigError(f"tune needs labelled rows in both parts; got {self.labels[0]} and {self.labels[1]}.")
        errors = errors_of(job.task, rows, self.share, job.settings.labels.delay)
        trial = Trial(whose, changed, table, errors)
        self.trials.append(trial)
        return trial


def _space(table: Mapping[str, Any], job: Composition) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Settings to try, as a path into the job file, and their values besides what the job has."""
    for section in TUNED:
        if section not in table:
            continue
        own = table[section]
        for name, current, path in _settings(own["name"], own, section):
            if name == "bandwidth" and isinstance(current, str):
                continue
            current = current if current is not None or name != "bandwidth" else job.width**0.5
            values = [value for value in VALUES.get(name, ()) if value != current]
            if isinstance(current, (int, float)) and not isinstance(current, bool):
                values += [_like(current, factor * current) for factor in FACTORS.get(name, ()) if current]
            if values := [value for value in dict.fromkeys(values) if value != current]:
                yield path, values
        if section == "head" and job.task == "classification":
            current = own.get("smooth", 0.0)
            yield ("head", "smooth"), [value for value in VALUES["smooth"] if value != current]


def _settings(name: str, own: Mapping[str, Any], *path: str) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """(setting, its value, where it stands) of a learner's table, and of a learner in it; the kernel's width first."""
    hints = {field.name: field for field in dataclasses.fields(LEARNERS[name])}  # type: ignore[arg-type]
    for setting, field in hints.items():
        value = own.get(setting, None if field.default is dataclasses.MISSING else field.default)
        if setting == "kernel":
            kernel = own.get("kernel", {})
            if isinstance(kernel, Mapping) and kernel.get("name", Kernel().name) in HAS_WIDTH:
                yield "bandwidth", kernel.get("bandwidth"), (*path, "kernel", "bandwidth")
        elif isinstance(value, Mapping) and isinstance(value.get("name"), str):
            yield from _settings(value["name"], value, *path, setting)
        elif not isinstance(value, Learner) and (setting in FACTORS or setting in VALUES):
            yield setting, value, (*path, setting)


def _like(current: float, value: float) -> float:
    """The value as a number of the same kind, without digits that mean nothing."""
    return max(1, round(value)) if isinstance(current, int) else float(f"{value:.4g}")


def _with(table: dict[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(table)
    inner = changed
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    inner[path[-1]] = value
    return changed


def _linear(table: Mapping[str, Any], job: Composition) -> dict[str, Any] | None:
    """The job with recursive least squares on its scaled rows; None where that is what it is."""
    if job.settings.head is None and job.settings.learner.name in ("rls", "gated_rls"):
        return None
    section = table.get("head") or table["learner"]
    task = {name: section[name] for name in TASK if name in section} | {"task": job.task}
    others = {name: copy.deepcopy(value) for name, value in table.items() if name not in ("learner", "head")}
    return others | {"learner": {"name": "rls", "intercept": True, "forgetting": 1.0, **task}}


def settings_text(changed: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in changed.items()) or "as it is"


def rewritten(text: str, table: Mapping[str, Any]) -> str:
    """A job file's text with its sections [learner] and [head] replaced; what stands in others stays, comments too.

    >>> print(rewritten("[job]  # ours\\n[learner]\\nname = 'lms'\\n[state]\\n", {"learner": {"name": "rls"}}), end="")
    [job]  # ours
    [learner]
    name = "rls"
    <BLANKLINE>
    [state]
    """
    kept: list[str] = []
    inside, placed = False, False
    for line in text.splitlines():
        header = line.strip()
        if header.startswith("["):
            section = header.strip("[]").partition("]")[0].partition(".")[0].strip().strip("'\"")
            inside = section in TUNED
            if inside and not placed:
                kept += [*toml({name: table[name] for name in TUNED if name in table}).splitlines(), ""]
                placed = True
        if not inside:
            kept.append(line)
    return "\n".join(kept) + "\n"
