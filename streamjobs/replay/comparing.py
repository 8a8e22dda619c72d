"""Learners side by side on one job's recordings: errors, controls, processor time a row and bytes a key."""

import copy
import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from algorithms import LEARNERS, SettingError
from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.errors import ConfigError
from streamjobs.replay.scoring import Row, controls, error, judged, parts, predicted, require_labels
from streamjobs.settings.composition import Composition
from streamjobs.settings.learners import TASK

OWN = "job"
OF_POPULATION = ("filter", "lasts", "reject")  # settings of a head
BOUNDED = 100  # terms of a learner that keeps every sample by default, where the job's learner has no budget
HALF = 0.5  # of each key's labelled rows: the second half shows what has been learned


class Compared(NamedTuple):
    name: str  # OWN, a learner, or a control
    model: str  # "" of a control
    error: float | None  # share of wrong classes, or root mean square error, of all rows with a label
    half: float | None  # of the second half of each key's
    micros: float | None  # of the processor, a row; None of a control
    bytes: float | None  # of a key's state, the mean over keys
    dead: int = 0  # records that became dead letters
    refused: str = ""  # why this learner cannot run the job


class Comparison(NamedTuple):
    task: str
    delay: float  # seconds until a label is known
    labels: int
    learners: list[Compared]  # the job's own first, if it was asked for
    controls: list[Compared]


def compare(
    table: Mapping[str, Any],
    made: Callable[[Mapping[str, Any]], Composition],
    records: Sequence[Stored],
    names: Sequence[str],
    tell: Callable[[str], None],
    built: Callable[[Composition], Job] = Job.from_composition,
) -> Comparison:
    """Run the recordings through the job with each of these learners, by default, and the job's own as OWN or by its name.

    Learners other than the job's own know nothing of its population. `made` composes a job file's contents, `built` makes
    the job; `tell` gets each name before its run. Raises ConfigError for a job without labels.
    """
    plain = {name: copy.deepcopy(dict(section)) for name, section in table.items() if name not in ("drift", "sinks")}
    job = made(plain)
    for name in names:
        if name != OWN and name not in LEARNERS:
            near = difflib.get_close_matches(name, [OWN, *LEARNERS], n=3)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "'streamjobs describe' lists them."
            raise ConfigError(f"--learners: unknown learner {name!r}; {hint}")
    require_labels(job, "compare")
    delay, rows, shared = job.settings.labels.delay, list[Row](), job.settings.population is not None
    others = _alone(plain) if shared else plain
    found: list[Compared] = []
    for name in names:
        tell(name)
        try:
            own = name == OWN or (name == job.settings.learner.name and OWN not in names and not shared)
            one, said = _run(name, built(made(plain if own else _with_learner(others, job, name))), records, delay)
            found.append(one)
            rows = rows or said
        except (ConfigError, SettingError) as problem:
            found.append(Compared(name, "", None, None, None, None, 0, str(problem).splitlines()[-1].strip()))
    if all(one.refused for one in found):
        raise ConfigError(
            [f"{one.name} cannot run: {one.refused}" for one in found] or "--learners: name one or more, such as job,rls."
        )
    labels = sum(row.label is not None for row in rows)
    if not labels and (ran := [one for one in found if not one.refused]):
        dead = f"; {ran[0].dead:,} records became dead letters, 'streamjobs replay' prints why" if ran[0].dead else ""
        raise ConfigError(f"compare needs rows with a label; got none{dead}.")
    without = [_scored(name, "", job.task, said, delay) for name, said in controls(job.task, rows, delay).items()]
    return Comparison(job.task, delay, labels, found, without)


def _run(name: str, job: Job, records: Sequence[Stored], delay: float) -> tuple[Compared, list[Row]]:
    job.compile()
    began = time.process_time()
    rows, replay = predicted(job, records)
    seconds = time.process_time() - began
    sizes = [len(one) for _, one in replay.snapshots()]
    scored = _scored(name, job.model, job.task, rows, delay)
    size = sum(sizes) / max(1, len(sizes))
    dead = replay.tally.dead_lettered.total()
    return scored._replace(micros=1e6 * seconds / max(1, len(rows)), bytes=size, dead=dead), rows


def _scored(name: str, model: str, task: str, rows: Sequence[Row], delay: float) -> Compared:
    known = judged(task, rows, delay)
    return Compared(name, model, error(task, known), error(task, parts(known, HALF)[1]), None, None)


def _alone(table: Mapping[str, Any]) -> dict[str, Any]:
    """The job without its population, and without what needs one."""
    section, learner = table.get("head") or table["learner"], table["learner"]
    kept = {name: dict(part) for name, part in table.items() if name not in ("population", "head")}
    kept["learner"] = {name: learner[name] for name in ("name", "budget") if name in learner}
    kept["learner"] |= {name: section[name] for name in TASK if name in section and name not in OF_POPULATION}
    for of, name in (("scaling", "from"), ("window", "convolutions")):
        kept.get(of, {}).pop(name, None)
    return kept


def _with_learner(table: Mapping[str, Any], job: Composition, name: str) -> dict[str, Any]:
    """The job with another learner as it is by default; an extractor has the job's head, or recursive least squares."""
    section = table.get("head") or table["learner"]
    task = {setting: section[setting] for setting in TASK if setting in section} | {"task": job.task}
    others = {part: copy.deepcopy(value) for part, value in table.items() if part not in ("learner", "head")}
    try:
        default = LEARNERS[name]()
        kind = default.kind
    except TypeError:
        raise ConfigError(f"{name} has a setting without a default; write a job file for it.") from None
    if kind == "drift":
        raise ConfigError(f"{name} is a detector; name learners.")
    budget = table["learner"].get("budget", BOUNDED)
    own = {"name": name} | {one: budget for one in ("budget", "max_terms") if getattr(default, one, None) == 0}
    if kind == "features":
        return others | {"learner": own, "head": dict(table.get("head") or {"name": "rls"} | task)}
    if hasattr(default, "intercept"):  # no column of a row is constant
        own["intercept"] = True
    return others | {"learner": own | task}
