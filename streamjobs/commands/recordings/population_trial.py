"""Whether a key is recognised better by what other keys teach than by its own labels: `init` proposes a population by it."""

import tomllib
from dataclasses import replace
from pathlib import Path

from streamjobs.commands.console import note
from streamjobs.commands.recordings.trial import Sample, environment, records_to_try
from streamjobs.errors import ConfigError
from streamjobs.fit.evaluation import by_person, leave_one_out
from streamjobs.fit.fitting import recipe_of, refuse_too_little
from streamjobs.fit.learning import Way
from streamjobs.fit.reading import read
from streamjobs.fit.recordings import LATE, PAUSE
from streamjobs.fit.reports.report import LAST
from streamjobs.job_files import composing, read_table
from streamjobs.recordings.guess.result import Guess

LEFT_OUT = 10  # keys, at most


def keys_alike(file: Path, population: str, sample: Sample, guessed: Guess) -> Guess:
    """The guess, with `alone` where other keys teach less.

    file: the job in which each key learns alone; population: text of the other. Each key is left out in turn, with a linear
    head and labels that are known LATE rows later.
    """
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
