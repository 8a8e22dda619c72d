"""Options of the commands that read recordings."""

import dataclasses
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from streamjobs.commands.console import note
from streamjobs.errors import ConfigError

if TYPE_CHECKING:
    from streamjobs.core.messages import Stored
    from streamjobs.recordings.tables import How
    from streamjobs.settings.sections import Settings

FILES = "A recording (.jsonl, .csv, .parquet, .npz, .json, .cbor, .sqlite; also .gz), or a folder or .zip of them"
SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";"}

Separator = Annotated[
    str | None, typer.Option(help="Separator of the cells of CSV: , ; | or tab; absent: as the first rows show.")
]
Decimal = Annotated[Literal[".", ","] | None, typer.Option(help="Decimal sign of CSV; absent: as the first rows show.")]
KeyFrom = Annotated[
    Literal["file", "folder"] | None, typer.Option("--key-from", help="Key of a recording: the name of its file or folder.")
]
KeyIs = Annotated[str | None, typer.Option("--key-is", help="One key for all records, such as the person's name.")]
TimeColumn = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Column of the file with the records' timestamps, ISO 8601 or in [source] time_unit; absent: event time.",
    ),
]
Start = Annotated[
    str | None,
    typer.Option(help="For times that count from 0: the time of their start, 2026-11-21T12:00 (UTC) or seconds since 1970."),
]


def how_of(
    separator: str | None = None,
    decimal: str | None = None,
    key_from: str | None = None,
    key_is: str | None = None,
    start: str | None = None,
    key: str | None = None,
    time: str | None = None,
) -> "How":
    """How files are read, as the options say; what is found out is printed as notes. Raises ConfigError for wrong ones."""
    from streamjobs.recordings.tables import How

    if separator is not None:
        separator = SEPARATORS.get(separator, separator)
        if len(separator) != 1:
            raise ConfigError(f"--separator must be one character, such as ';', or 'tab'; got {separator!r}.")
    if key_from is not None and key_is is not None:
        raise ConfigError("--key-from and --key-is both set the key; give one of them.")
    began = milliseconds("--start", start)
    since = None if began is None else began / 1000
    return How(separator, decimal, key_from, key_is, start=since, tell=_once(), key=key, time=time)


def recorded(path: Path, settings: "Settings", how: "How") -> "Generator[Stored, None, None]":
    """The records of recordings, as a job with these settings reads them."""
    from streamjobs.recordings.files import records_of

    return records_of(path, settings.source, None, side=settings.side, how=with_rate(how, settings))


def with_rate(how: "How", settings: "Settings") -> "How":
    """With the rate to which sensors in files of their own are merged: that of the job's windows."""
    return how if settings.window is None else dataclasses.replace(how, rate=settings.window.rate)


def milliseconds(option: str, text: str | None) -> int | None:
    """A time on the command line; None where none is given."""
    if text is None:
        return None
    try:
        return round(float(text) * 1000)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} must be a time such as 2026-11-21T12:00 or seconds since 1970; got {text!r}.") from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def _once() -> Callable[[str, str], None]:
    """Prints the notes on a file, each once if many files have the same."""
    reported: set[str] = set()

    def tell(where: str, text: str) -> None:
        if text not in reported:
            reported.add(text)
            note(f"{where}: {text}")

    return tell
