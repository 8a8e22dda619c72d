"""The job file that `streamjobs fit --choose` writes: the job's own with other statistics, map and filter."""

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamjobs.errors import ConfigError
from streamjobs.fit import choosing
from streamjobs.fit.choosing import Candidate, Choice
from streamjobs.fit.fitting import Asked, read_recordings, recipe_of, refuse_too_little, table_of, timed
from streamjobs.fit.progress import Progress
from streamjobs.fit.reading import Read
from streamjobs.fit.recordings import Recordings
from streamjobs.replay.tuning import rewritten
from streamjobs.settings.load import composition_from
from streamjobs.settings.types import toml
from streamjobs.stages import statistics

FOLLOWS = ("smooth", "filter")  # what candidates set themselves
OWN = {"window": ("statistics", "convolutions"), "population": ("directions",)}  # of sections that stay otherwise
HEADS = ("rls", "gated_rls")


class Proposed(NamedTuple):
    choice: Choice
    best: str  # lines of a job file
    cheapest: str | None  # the same of the cheapest close to it; None: it is the best
    text: str  # the job file with the best
    windows: tuple[Read, int] | None  # of the best, for `fit_job`; None: it reads them again


def propose(asked: Asked, say: Callable[[str], None], doubt: Callable[[str], None]) -> Proposed:
    """Compare and choose; nothing is written. Raises ConfigError and SetupError as `fit_job` does."""
    table, _, stated = table_of(asked)
    kept = _of_head(table)
    before = composition_from(table, os.environ, str(asked.job))
    dim, (least, most) = before.dim, statistics.CONVOLVED
    more = choosing.CONVOLUTIONS if before.windows and least <= before.windows.nominal <= most else 0
    kind = statistics.BOTH if dim >= statistics.least_channels(statistics.BOTH) else "rich"
    kind = kind if before.windows else choosing.SAMPLES
    whole = {name: part for name, part in table.items() if name not in ("head", "drift")}
    whole |= choosing.tables_of(Candidate(kind, "prototypes", "hmm", more), table, kept)
    whole["population"] = {name: value for name, value in table["population"].items() if name != "directions"}
    composition = composition_from(whole, os.environ, str(asked.job))
    recipe = recipe_of(composition)
    assert recipe.filter is not None
    with Progress() as progress:
        read, late = read_recordings(asked, composition.settings, say, doubt, progress)
        refuse_too_little(read.data)
        recipe = timed(recipe, composition.settings, read, asked)
        assert recipe.filter is not None
        read = read._replace(data=read.data._replace(kept={}))
        columns = choosing.columns_of(kind, dim, more)
        people = len(set(read.data.person.tolist()))
        progress.stage("leaving each person out", people * len(columns))
        with_map = choosing.with_map(recipe, composition.map)
        choice = choosing.choose(read.data, columns, with_map, late, progress.step, recipe.filter.stated, stated)
    best, cheapest = (choosing.tables_of(one.candidate, table, kept) for one in (choice.best, choice.cheapest))
    lines = None if choice.cheapest is choice.best else toml(cheapest)
    windows = _windows_of(choice.best.candidate, read, columns, late)
    return Proposed(choice, toml(best), lines, with_tables(asked.job, best), windows)


def _windows_of(best: Candidate, read: Read, columns: choosing.Columns, late: int) -> tuple[Read, int] | None:
    """The windows with the numbers of the best alone; None where other numbers could have left out one that is usable."""
    data, own = read.data, columns[best.statistics, best.convolutions]
    data = _with_columns(data, own)._replace(kept=data.kept if best.convolutions else None)
    if read.unusable and data.X.shape != read.data.X.shape:
        return None
    return read._replace(data=data, lived=None if read.lived is None else _with_columns(read.lived, own)), late


def _with_columns(data: Recordings, own: Any) -> Recordings:
    unlabelled = data.unlabelled
    if unlabelled is not None:
        unlabelled = unlabelled._replace(X=np.ascontiguousarray(unlabelled.X[:, own]))
    return data._replace(X=np.ascontiguousarray(data.X[:, own]), unlabelled=unlabelled)


def _of_head(table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the job's head, without those that candidates set."""
    section = table.get("head") or table.get("learner", {})
    if section.get("name") not in HEADS:
        return {}
    return {name: value for name, value in section.items() if name not in ("name", "freeze", "input", *FOLLOWS)}


def with_tables(job: Path, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The job file's text with these [window] statistics, [learner] and [head]; other lines stay as they are.

    Raises ConfigError if the file is written in a way that leaves no line to replace.
    """
    before = job.read_text(encoding="utf-8")
    own = {
        section: {name: part for name, part in tables.get(section, {}).items() if name in OWN[section]} for section in OWN
    }
    lines: list[str] = []
    section = ""
    for old in rewritten(before, tables).splitlines():
        if old.strip().startswith("["):
            section = old.strip().strip("[]").partition("]")[0]
            lines.append(old)
            lines += toml({section: own[section]}).splitlines()[1:] if section in OWN else []
        elif old.partition("=")[0].strip() not in OWN.get(section, ()):
            lines.append(old)
    text = "\n".join(lines) + "\n"
    contents = tomllib.loads(before)
    expected = {**{name: part for name, part in contents.items() if name != "head"}, **tables}
    for section, names in OWN.items():
        kept = {name: part for name, part in contents.get(section, {}).items() if name not in names}
        expected[section] = kept | own[section]
    if tomllib.loads(text) != {name: part for name, part in expected.items() if part or name in contents}:
        raise ConfigError(f"{job}: its sections cannot be replaced without changing the rest; copy what is printed.")
    return text
