"""What `init` asks at a terminal: only what the sample leaves open, each with its candidates and a proposal."""

import sys
from collections.abc import Callable

import typer

from streamjobs.recordings.guess.result import Chosen, Guess
from streamjobs.settings.times import example_of, zone_of

FILL = "hold", "mean"
POLICIES = ("dlq", "skip", *FILL)
LACKING = "skip"  # proposal for rows that lack a number
MOST_SKIPPED, WIDE = 0.1, 8  # largest share of the rows that it skips of a table with so many fields
MOST_OF_FEW = 0.5  # the same with fewer fields


def at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


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
