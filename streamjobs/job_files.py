"""Job files: read, checked and made into a job, with the file they may name (an exported state, or a population)."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from algorithms import SettingError
from streamjobs.core.interface import Core
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.settings.composition import Composition
from streamjobs.settings.load import composition_from
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import readable

MOST_STATE = (1 << 31) - (1 << 20)  # bytes; a record's length is a 32-bit number, and what frames it is small
LOWER = "Lower what sets its size, such as the learner's budget or rank."


def load_job(path: Path | str, env: Mapping[str, str] | None = None) -> Settings:
    """The settings alone, where nothing is to be run. Raises ConfigError as `read_job` does."""
    return read_job(path, env).settings


def read_job(path: Path | str, env: Mapping[str, str] | None = None) -> Composition:
    """What a job file composes, with the environment's STREAMJOBS_SECTION__NAME (`env` None: the process's).

    Raises ConfigError with every problem: a file that cannot be read, the line of a syntax error, wrong settings.
    """
    return composition_from(read_table(path), os.environ if env is None else env, str(path))


def read_table(path: Path | str) -> dict[str, Any]:
    """A TOML file's contents; raises ConfigError with the line where it is not TOML."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); 'streamjobs init' writes a job file to begin with."
        ) from None
    return table_of(data, str(path))


def table_of(data: bytes, origin: str) -> dict[str, Any]:
    """What the bytes of a TOML file say; raises ConfigError with the line where they are not TOML."""
    try:
        text = data.decode().replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise ConfigError(
            f"{origin}: cannot be read (it is not UTF-8 text); 'streamjobs init' writes a job file to begin with."
        ) from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{origin}: not TOML that can be read: its lists or tables are nested too deep.") from None
    except ValueError as error:  # TOMLDecodeError, or a number or date Python does not take
        raise ConfigError(f"{origin}: {_syntax(str(error), text)}") from None


def _syntax(message: str, text: str) -> str:
    """ "Expected '=' ... (at line 3, column 5)" with the line itself behind it."""
    words = message.rpartition("(at line ")
    number = words[2].split(",")[0]
    lines = text.splitlines()
    if not number.isdigit() or int(number) > len(lines):
        return f"not TOML: {message}."
    return f"line {number} is not TOML: {words[0].strip().lower()}: {lines[int(number) - 1].strip()!r:.80}."


def job_from(composition: Composition, origin: str = "") -> Job:
    """The job, with the file that new keys begin from. origin: the job file, for messages.

    Raises ConfigError for what the learners refuse, for a file that is missing, damaged or another job's, and where a key's
    state exceeds a record of the changelog or this machine's memory.
    """
    settings = composition.settings
    name, population, before = settings.state.start_from, settings.population, f"{origin}: " if origin else ""
    if population is not None:
        named, place = population.file, f"{origin} [population]: file {population.file!r}"
        writer = f"streamjobs fit {origin or 'JOB'} --output FILE"
    else:
        named, place = name or "", f"{origin} [state]: start_from {name!r}"
        writer = "streamjobs replay --pool --export FILE"
    try:
        held = Path(named).read_bytes() if named else None
        job = Job.from_composition(composition, None if population else held, held if population else None)
        size = job.state_bytes  # makes a state: some learners refuse a number of columns only then
    except OSError as error:
        raise ConfigError(f"{place} cannot be read ({error.strerror}); '{writer}' writes one.".strip()) from None
    except SnapshotError as error:
        raise ConfigError(f"{place}: {error} '{writer}' makes a new one.".strip()) from None
    except (ConfigError, SettingError, ValueError) as error:
        raise ConfigError(f"{before}{error}") from None
    except MemoryError:
        raise ConfigError(
            f"{before}a key's state must fit into this machine's memory; got one that does not. {LOWER}"
        ) from None
    if size > MOST_STATE:
        raise ConfigError(
            f"{before}a key's state must fit into a record of the changelog, {readable(MOST_STATE)}; got {readable(size)}. "
            f"{LOWER}"
        )
    return job


def job_of(path: Path) -> Job:
    """Read, check and build; raises ConfigError with all problems."""
    return job_from(read_job(path), str(path))


def core_from(composition: Composition) -> Core:
    """The core a worker runs. Raises ConfigError as `job_from` does."""
    from streamjobs.core.advance import advance
    from streamjobs.core.state.live import Live

    return Core(job_from(composition), lambda job, read, most: Live(job, read, most_bytes=most), advance)
