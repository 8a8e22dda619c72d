"""What `init` asks at a terminal, where the sample leaves it open, with candidates and a proposal; and what to type next."""

import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import typer

from streamjobs.recordings import survey
from streamjobs.recordings.guess.result import Chosen, Guess
from streamjobs.recordings.places import stem_of
from streamjobs.settings.times import example_of, zone_of

FILL = "hold", "mean"
POLICIES = ("dlq", "skip", *FILL)
LACKING = "skip"  # proposal for rows that lack a number
MOST_SKIPPED, WIDE = 0.1, 8  # largest share of the rows that it skips of a table with so many fields
MOST_OF_FEW = 0.5  # the same with fewer fields
NEEDED = {  # what a job cannot do without, if it was not guessed
    "fields": "[source] still needs fields, or x and dim",
    "time_format": "[source] still needs time_format",
    "time_zone": "[source] still needs time_zone",
    "wait": "[labels] still needs wait",
}


def at_a_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))  # None: it is closed


def asked(guess_with: Callable[[Chosen], Guess], chosen: Chosen) -> Guess:
    """The guess after the user has chosen among candidates, one question after the other."""
    guessed = guess_with(chosen)
    for what, none in (("key", ""), ("time", None), ("time_format", None), ("label", "")):
        if what in guessed.candidates and getattr(chosen, what) is None:
            answer = _one_of(what, guessed.choose[what], guessed.candidates[what])
            chosen = chosen._replace(**{what: none if answer is None else answer})  # type: ignore[arg-type]
            guessed = guess_with(chosen)
    if "fields" in guessed.choose and guessed.fields:
        guessed = guess_with(chosen._replace(fields=_some_of(guessed.choose["fields"], guessed.fields)))
    return guessed


def zone_asked(why: str) -> str | None:
    """The zone of times that name none; None to leave it open."""
    question = f"{why}\n  zone, such as UTC or Europe/Berlin (empty: decide later)"
    while True:
        answer = str(typer.prompt(question, default="", show_default=False, err=True)).strip()
        try:
            return answer if answer and zone_of(answer) else None
        except ValueError as problem:
            typer.echo(f"  {problem}, please", err=True)


def proposed(guessed: Guess) -> str:
    """[source] missing: `LACKING`, or hold where that costs too many rows: a wide table, sensors that take turns."""
    if guessed.turns:
        return "hold"
    gaps, wide = guessed.gaps, len(guessed.fields) >= WIDE
    return "hold" if gaps.lacking > (MOST_SKIPPED if wide else MOST_OF_FEW) * gaps.rows else LACKING


def missing_asked(guessed: Guess) -> str:
    """What [source] missing should be."""
    question = (
        f"{guessed.gaps.lacking:,} of {guessed.gaps.rows:,} rows lack a number of x\n  dlq: dead letter, skip: leave the "
        "sample out, hold: the newest number of the key, mean: its mean"
    )
    while True:
        answer = str(typer.prompt(question, default=proposed(guessed), err=True)).strip()
        if answer in POLICIES:
            return answer
        typer.echo(f"  one of {', '.join(POLICIES)}, please", err=True)


def _one_of(what: str, why: str, candidates: list[str]) -> str | None:
    such = {one: f", such as {example_of(one)}" for one in candidates} if what == "time_format" else {}
    listed = "\n".join(f"  {number} {name!r}{such.get(name, '')}" for number, name in enumerate(candidates, 1))
    while True:
        answer = str(typer.prompt(f"{what}: {why}\n{listed}\n  number (0: none of them)", default="0", err=True)).strip()
        if answer.isdecimal() and int(answer) <= len(candidates):
            return candidates[int(answer) - 1] if int(answer) else None
        if answer in candidates:
            return answer
        typer.echo(f"  a number from 0 to {len(candidates)}, please", err=True)


def _some_of(why: str, candidates: list[str]) -> list[str]:
    listed = "\n".join(f"  {number} {name!r}" for number, name in enumerate(candidates, 1))
    while True:
        every = " ".join(str(number) for number in range(1, len(candidates) + 1))
        answer = str(typer.prompt(f"fields: {why}\n{listed}\n  numbers of those that make x", default=every, err=True))
        numbers = answer.replace(",", " ").split()
        if numbers and all(one.isdecimal() and 0 < int(one) <= len(candidates) for one in numbers):
            return [candidates[int(one) - 1] for one in numbers]
        typer.echo(f"  numbers from 1 to {len(candidates)}, please", err=True)


def what_next(
    guessed: Guess, file: Path, sample: Path | None, from_topic: bool, *, copied: bool = False, starter: bool = False
) -> str:
    """The lines that end `init`: what to type on the sample, and then with a broker.

    from_topic: the sample is of a topic; copied: 'rekey' comes first; starter: the job has a population already, with
    which `replay` scores labels.
    """
    name, taught = shlex.quote(str(file)), survey.teaches(guessed)
    work = f"streamjobs topics create {name}; streamjobs run {name}"
    if guessed.preset is not None and "sensors" in guessed.preset.source:
        return f"wrote {file}. Next: streamjobs check {name}; {work}"
    given = "topic" if from_topic else "recording.csv" if sample is None else str(sample)
    replay = ["streamjobs", "fit" if taught else "replay", str(file), "--input", given]
    if not from_topic:  # records of a topic have keys
        by_file = guessed.key is None and guessed.preset is not None and guessed.preset.export is not None
        replay += ["--key-from", "file"] if by_file else _key_words(guessed, sample)
        if guessed.start_time is not None and guessed.rate is not None:
            replay += ["--time", guessed.start_time]
    first = "Next"
    if needed := next((NEEDED[what] for what in NEEDED if what in guessed.choose), None):
        first = f"{needed}: look for 'choose' in it. Then"
    if copied:
        first += f": streamjobs rekey {name} --once; then"
    more = ""
    if starter:
        more = " --score" if guessed.label is not None and sample is not None else ""
    elif not taught and not from_topic and guessed.rows and guessed.label is not None and guessed.time is not None:
        words = replay[2 : replay.index("--key-is")] if "--key-is" in replay else replay[2:]  # the file's name by itself
        more = f"; {shlex.join(['streamjobs', 'compare', *words, '--learners', 'job,rls,krls'])}"
    check = "" if taught else f"streamjobs check {name}; "  # which would miss the population's file
    said = f"wrote {file}. {first}: {check}{shlex.join(replay)}{more}"
    if taught:  # `fit` says what follows
        return said
    if from_topic:
        return f"{said}; {work}"
    words = replay[4:]
    if "--time" in words and sample is not None:  # counts from 0, which no topic takes
        words += ["--start", datetime.fromtimestamp(sample.stat().st_mtime, UTC).date().isoformat()]
    produce = shlex.join(["streamjobs", "produce", str(file), *words])
    broker = "then on a broker, yours or that of 'streamjobs broker start'"
    return f"{said}\n{broker}: streamjobs topics create {name}; {produce}; streamjobs run {name}"


def _key_words(guessed: Guess, sample: Path | None) -> list[str]:
    """The column with the key of the rows, or a candidate for it; a recording without any is of one device.

    It has the recording's name, as with --key-from file.
    """
    from streamjobs.recordings.guess.result import key_to_try

    if (key := key_to_try(guessed)) is not None:
        return ["--key", key]
    if guessed.key_from is not None:
        return ["--key-from", guessed.key_from]
    if "key" not in guessed.choose or sample is None:
        return ["--key", "KEY_COLUMN"]
    return ["--key-is", stem_of(sample)]
