"""Tries simple learners, the usual one and what other keys teach on a sample with labels: `init` proposes the best."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from streamjobs.commands.console import note
from streamjobs.commands.recordings.trial import Sample, environment, records_to_try
from streamjobs.errors import ConfigError
from streamjobs.job_files import composing, read_table
from streamjobs.recordings.guess.result import Guess, key_to_try
from streamjobs.recordings.guess.x import quoted_names
from streamjobs.replay.comparing import OWN, compare

SLOWLY, FAST = 0.998, 0.98  # forgetting: a weight of 1/e after 500 and 50 rows; chosen on streams of seed 3
CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    "rls": {"name": "rls", "intercept": True},
    "krls": {"name": "krls", "budget": 100},
    f"rls (forgetting {SLOWLY})": {"name": "rls", "intercept": True, "forgetting": SLOWLY},
    f"krls (forgetting {SLOWLY})": {"name": "krls", "budget": 100, "forgetting": SLOWLY},
    f"rls (forgetting {FAST})": {"name": "rls", "intercept": True, "forgetting": FAST},
}
WORTH = 0.95  # of the error of a cheaper learner, or of one with all rows: at most so large, else chance may decide
LEAST = 200  # records of the sample, to choose by
WIDEST = 500  # numbers that `rls` sees: the square of more is 1 MB a key
WORK = 2_000_000_000  # most records times the square of the numbers of a row, seconds of `rls`
LEFT_OUT = 10  # keys, at most
LATE = 20  # windows until a label is known: people label what they did, and labels at once only repeat the last one


class Best(NamedTuple):
    """The best learner: its section, None where the job file's stays; a line with all errors; and its own."""

    section: Mapping[str, Any] | None
    line: str
    error: float


def best_learner(file: Path, sample: Sample, guessed: Guess) -> Best | None:
    """The job file's or one of CANDIDATES; None where none could be tried. Each label is predicted before it is learned.

    The second half of each key's labels counts. In windows labels are known LATE windows later.
    """
    table, made, late = read_table(file), composing(file, environment(guessed)), ""
    own = table["head"] if "head" in table else table["learner"]
    task = {name: own[name] for name in ("task", "max_classes") if name in own}
    tables = {OWN: table}
    for name, section in CANDIDATES.items():
        tables[name] = {part: value for part, value in table.items() if part != "head"} | {"learner": {**section, **task}}
    errors: dict[str, float] = {}
    try:
        composition = made(table)
        settings, width = composition.settings, composition.width
        if guessed.wait is not None:
            late = ", of labels as late as in the sample"
        elif settings.window is not None and settings.source.time is not None:
            delay = LATE * (settings.window.hop or settings.window.length)
            tables = {name: {**one, "labels": {"delay": delay}} for name, one in tables.items()}
            late = f", of labels {LATE} windows late"
        if width > WIDEST:
            tables = {name: one for name, one in tables.items() if CANDIDATES.get(name, {}).get("name") != "rls"}
        most = max(10 * LEAST, WORK // width**2)
        records = list(islice(records_to_try(settings, sample, guessed), most))
        if len(records) < LEAST:
            return None
        of = f" with key {key!r}" if (key := key_to_try(guessed)) else " as of one device"
        note(f"trying learners on the sample{of if 'key' in guessed.choose else ''} ...")
        for name, one in tables.items():
            done = compare(one, made, records, (OWN,), lambda name: None)
            mine = done.learners[0]
            errors[name if name in CANDIDATES else mine.model] = math.inf if mine.half is None else mine.half
    except ConfigError as error:
        note(f"learners were not tried: {error}")
        return None
    without = {one.name: one.half for one in done.controls if one.half is not None}
    if len({*errors.values(), *without.values()}) == 1 and max(errors.values()) > 0:  # no row had a prediction
        note("learners were not tried: no label of the sample is known before the last row that it could help")
        return None
    what = "rmse" if done.task == "regression" else "share of wrong predictions"
    what = f"with {quoted_names([*guessed.categories])} as categories, {what}" if guessed.categories else what
    lists = [", ".join(f"{name} {error:.3g}" for name, error in each.items()) for each in (errors, without)]
    line = f"{what} in the second half of the sample{late}: {lists[0]}; without a model: {lists[1]}"
    cheapest = sorted(errors, key=lambda name: (name.startswith("krls"), name not in CANDIDATES))
    best = min(errors, key=lambda name: errors[name])
    if without and min(without.values()) <= errors[best]:
        line += "; no learner is better"
    else:
        best = next(name for name in cheapest if WORTH * errors[name] <= errors[best])
    note(line)
    return Best({**CANDIDATES[best], **task} if best in CANDIDATES else None, line, errors[best])


def keys_alike(file: Path, population: str, sample: Sample, guessed: Guess) -> Guess:
    """The guess, with `alone` where other keys teach less.

    file: the job in which each key learns alone; population: text of the other. Each key is left out in turn, with a linear
    head and labels that are known LATE rows later.
    """
    from streamjobs.fit.evaluation import by_person, leave_one_out
    from streamjobs.fit.fitting import recipe_of, refuse_too_little
    from streamjobs.fit.learning import Way
    from streamjobs.fit.reading import read
    from streamjobs.fit.recordings import LATE, PAUSE
    from streamjobs.fit.reports.report import LAST

    made = composing(file, environment(guessed))
    try:
        settings = made(read_table(file)).settings
        recipe = replace(recipe_of(made(tomllib.loads(population))), map=None, input=False, directions=0)
        data = read(settings, [records_to_try(settings, sample, guessed)], pause=PAUSE, column=None).data
        refuse_too_little(data)
    except ConfigError as error:
        note(f"a population was not tried: {error}")
        return guessed._replace(alone=True)
    note("trying what other keys teach on the sample ...")
    ways = [Way("others", recipe), Way("own", replace(recipe, filter=None), "cold")]
    runs = leave_one_out(data, ways, shuffles=1, people=sorted({*data.person.tolist()})[:LEFT_OUT])
    others, own, last = (float(by_person(runs, name, "all").mean()) for name in ("others", "own", LAST))
    note(
        f"share of right predictions of a new key, of labels {LATE} rows late: {others:.1%} with what the other keys teach, "
        f"{own:.1%} by its own labels; without a model: {last:.1%} by the last label"
    )
    return guessed._replace(alone=own >= others)
