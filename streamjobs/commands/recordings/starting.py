"""`init --population`: a population of the package for the sample's fields, next to the job file."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streamjobs.commands.console import write_file
from streamjobs.errors import ConfigError
from streamjobs.fit import starters
from streamjobs.fit.starters import Starter
from streamjobs.recordings.guess.result import EXAMPLE, Guess

LINEAR, TOTAL = "accelerometer", "totalacceleration"  # of Sensor Logger: without gravity and with it


def begun(of: Starter, guessed: Guess | None, rows: Iterable[dict[str, Any]]) -> Guess:
    """The guess with fields that the population can use; without a guess, the usual names.

    Raises ConfigError where fields, rate or units are not those of the population.
    """
    if guessed is None:
        because = {"fields": starters.NUMBERS, "time": "as in your records", "label": "as in your records"}
        return EXAMPLE._replace(fields=list(starters.FIELDS), rate=of.rate, because=because)
    guessed = _with_gravity(guessed, of.rate)
    starters.require_fields(of, guessed.fields if "fields" not in guessed.choose else [])
    if guessed.preset is None or "sensors" not in guessed.preset.source:
        starters.require_same_kind(of, guessed.fields, guessed.rate, itertools.islice(rows, starters.LOOK_AT))
    return guessed._replace(rate=of.rate, people=0)  # it is not to teach


def write_population(of: Starter, guessed: Guess, job: Path, force: bool) -> Path:
    """Raises ConfigError for a file that exists, or cannot be written."""
    path = job.parent / f"{of.name}.state"
    if path.exists() and not force:
        raise ConfigError(f"{path}: already exists; --force overwrites it.")
    write_file(path, of.file(guessed.fields))
    return path


def _with_gravity(guessed: Guess, rate: float) -> Guess:
    """With Sensor Logger's total acceleration in the place of that without gravity, where there is one."""
    preset = guessed.preset
    if preset is None or not guessed.fields or not guessed.fields[0].startswith(LINEAR):
        return guessed
    fields = [field.replace(LINEAR, TOTAL, 1) for field in guessed.fields]
    if sensors := preset.source.get("sensors"):
        each = {name.replace(LINEAR, TOTAL, 1): one | {"rate": rate} for name, one in sensors["each"].items()}
        pushed = preset._replace(source={**preset.source, "sensors": sensors | {"each": each}})
        return guessed._replace(fields=fields, preset=pushed)
    if not set(fields) - set(guessed.fields) <= set(guessed.left_out):
        raise ConfigError(
            f"--population needs acceleration with gravity; {preset.tool}'s {LINEAR} has none, and the sample has no "
            f"{TOTAL}. Turn on 'Total Acceleration' in the app and record again."
        )
    left_out = {name: why for name, why in guessed.left_out.items() if name not in fields}
    because = guessed.because | {"fields": "acceleration with gravity, and turning rate"}
    return guessed._replace(fields=fields, left_out=left_out, because=because)
