"""What `init` tries on the sample once its job file is written: learners, categories, [drift]; and how large states are."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from streamjobs.commands.console import note, note_all, write_file
from streamjobs.errors import ConfigError
from streamjobs.settings.types import readable

if TYPE_CHECKING:
    from streamjobs.commands.recordings.job_template import Written
    from streamjobs.commands.recordings.learner_trial import Best
    from streamjobs.commands.recordings.trial import Sample
    from streamjobs.recordings.guess.result import Guess

LARGE = 1 << 20  # bytes of a key's state: the same for 1,000 keys is a gigabyte


def tried(file: Path, sample: "Sample", guessed: "Guess", written: "Written", most_rows: int) -> "Guess":
    """As `_try`, with a line about the job file if it is interrupted, or its states are large."""
    try:
        guessed = _try(file, sample, guessed, written, most_rows)
    except KeyboardInterrupt:
        note(f"{file} is written, but not tried on all of the sample")
        raise
    note_all(_large_states(file))
    return guessed


def _try(file: Path, sample: "Sample", guessed: "Guess", written: "Written", most_rows: int) -> "Guess":
    """Write the job file again, with what its learner and [drift] do on the sample. Gives the guess of what it has."""
    from streamjobs.commands.recordings.trial import is_tried, worth_leaving_out

    if not is_tried(guessed):
        return guessed
    from streamjobs.commands.recordings.drift_trial import LEAST, tried_on
    from streamjobs.commands.recordings.job_template import job_file_text, learning
    from streamjobs.recordings.profile import left_out_of, may_leave_out
    from streamjobs.recordings.survey import teaches

    if "time_zone" in guessed.choose:
        note("the times have no zone; the job is tried with UTC, until you set time_zone")
    if teaches(guessed):
        from streamjobs.commands.recordings.learner_trial import keys_alike

        population, written = job_file_text(guessed, file, written), written._replace(own=True)
        write_file(file, job_file_text(guessed, file, written))
        guessed = keys_alike(file, population, sample, guessed)
    if guessed.label is not None and not teaches(guessed):
        guessed, best = _best(file, sample, guessed, written)
        written = written._replace(best=best)
        write_file(file, job_file_text(guessed, file, written))
    trial = tried_on(file, sample, guessed, most_rows)
    if written.runs and not (trial.tried and trial.tried[-1].fits):
        note_all(trial.lines())
        written = written._replace(runs=0)
        write_file(file, job_file_text(guessed, file, written))
        trial = tried_on(file, sample, guessed, most_rows, " without a reference")
    ways, left = [(guessed, trial)], list[tuple[str, str]]()
    while (unfit := trial.unfit) and may_leave_out(guessed):
        note_all(map(str, trial.tried))
        left.append(unfit)
        guessed = left_out_of(guessed, dict([unfit]))
        write_file(file, job_file_text(guessed, file, written))
        trial = tried_on(file, sample, guessed, most_rows, f" without {unfit[0]!r}")
        ways.append((guessed, trial))
    guessed, trial = ways[gone := worth_leaving_out(ways)]
    for name, why in left[:gone]:
        note(f"{name!r} is left out of fields: {why}; put it back if that is what you want to hear of")
    if names := [name for name, _ in left[gone:]]:
        stay, them = ("stays", "it") if len(names) == 1 else ("stay", "them")
        note(f"{', '.join(map(repr, names))} {stay} in fields: without {them} a column has as many alarms")
    if written.rows and trial.waits and most_rows >= LEAST:
        sooner = written._replace(rows=0)
        write_file(file, job_file_text(guessed, file, sooner))
        other = tried_on(file, sample, guessed, most_rows, " as of a longer one")
        if not other.waits and other.tried[-1].fits:
            note_all(trial.lines())
            written, trial = sooner, other
    text, (_, why) = job_file_text(guessed, file, written._replace(own=False), trial), learning(guessed, written)
    write_file(file, text)
    note_all((*trial.lines(), *trial.off, *([f"[drift] learn: {why}"] if why in text else [])))
    return guessed


def _best(file: Path, sample: "Sample", guessed: "Guess", written: "Written") -> "tuple[Guess, Best | None]":
    """The best learner on the sample, with the guess that it is best for: with categories or without.

    A column of texts that may be the key is also tried as the state of one device.
    """
    from streamjobs.commands.recordings.job_template import job_file_text
    from streamjobs.commands.recordings.learner_trial import best_learner

    if not guessed.categories:
        return guessed, best_learner(file, sample, guessed)
    keys = guessed.candidates.get("key", [])
    others = [name for name in keys if name not in guessed.categories]
    of_one = guessed._replace(candidates={**guessed.candidates, "key": others})
    why = dict.fromkeys(guessed.categories, "texts; as categories, they do not make the error smaller")
    left_out = {**guessed.left_out, **why}
    ways = [guessed] if others[:1] != keys[:1] else []
    ways = [*(one._replace(categories={}, left_out=left_out) for one in (*ways, of_one)), of_one]
    found: list[tuple[Guess, Best | None]] = []
    for way in ways:
        write_file(file, job_file_text(way, file, written))
        found.append((way, best_learner(file, sample, way)))
    if all(best is None for _, best in found):  # none was tried
        return guessed, None
    guessed, best = min(found, key=lambda one: math.inf if one[1] is None else one[1].error)
    if not guessed.categories:
        note_all(f"left out of x: {name}: {reason}" for name, reason in why.items())
    return guessed, best


def _large_states(file: Path) -> Iterator[str]:
    """What a key's state may have at most, if this is much, and what makes it smaller."""
    from streamjobs.job_files import composing, job_from, read_table

    table, make = read_table(file), composing(file)
    try:
        job = job_from(make(table))
        if job.state_bytes < LARGE:
            return
        said = f"the state of a key may have {readable(job.state_bytes)}, 1,000 keys {readable(1000 * job.state_bytes)}"
        watch = job.settings.drift and job.settings.drift.watch
        drift = {name: one for name, one in table.get("drift", {}).items() if name in ("false_alarms", "smoothing")}
        other = watch and job_from(make({**table, "drift": {**drift, "watch": "ls_error"}})).state_bytes
    except ConfigError:  # lines are still to be chosen
        return
    if other and watch != "ls_error" and 2 * other < job.state_bytes:
        said += f'; with [drift] watch = "ls_error" a key has {readable(other)}, but an alarm does not name a column'
    yield f"{said}; fewer fields make it smaller"
