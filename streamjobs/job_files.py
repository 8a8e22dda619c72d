"""Reads and checks job files, and builds jobs from them and the file they may name (exported state or population)."""

import os
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms import SettingError
from streamjobs.core.interface import Core
from streamjobs.core.job import Job
from streamjobs.core.live.stored import last_event, starting_from
from streamjobs.core.messages import Record
from streamjobs.errors import ConfigError, SetupError, SnapshotError
from streamjobs.own_learners import load_own_learners
from streamjobs.process import load_lapack, load_loops_alone
from streamjobs.schema_registry.descriptors import definition_of
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.composition import Composition
from streamjobs.settings.load import composition_from
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import MOST_NUMBERS, readable

MOST_STATE = (1 << 31) - (1 << 20)  # bytes; a record's length is a signed 32-bit number, and has some overhead
FILES = {("population", "file"), ("state", "start_from")}  # settings that name files, besides those ending in _file
LARGEST = 512 << 10  # bytes of a job file; a second of parsing
BROKER, REGISTRY = "STREAMJOBS_BROKER__", "STREAMJOBS_REGISTRY__"  # variables of the environment
LOWER = "Lower the settings that decide its size, such as the learner's budget or rank."


def load_job(path: Path | str, env: Mapping[str, str] | None = None) -> Settings:
    """The settings alone, where nothing is to be run. Raises ConfigError as `read_job` does."""
    return read_job(path, env).settings


def read_job(path: Path | str, env: Mapping[str, str] | None = None) -> Composition:
    """What a job file composes, overridden by STREAMJOBS_SECTION__NAME of `env` (None: the process's environment).

    Raises ConfigError with every problem: an unreadable file, the line of a syntax error, wrong settings.
    """
    return composing(path, env)(read_table(path))


def composing(path: Path | str, env: Mapping[str, str] | None = None) -> Callable[[Mapping[str, Any]], Composition]:
    """Composes contents as if the job file had them; it raises ConfigError with every problem. env: as in `read_job`."""
    return lambda table: composition_from(located(table, path), os.environ if env is None else env, str(path))


def read_table(path: Path | str) -> dict[str, Any]:
    """The contents of a TOML file; raises ConfigError with the line of a syntax error. Learners of your own are loaded."""
    load_own_learners()
    try:
        size = Path(path).stat().st_size
        if size > LARGEST:
            raise ConfigError(
                f"{path}: a job file has at most {readable(LARGEST)}, got {readable(size)}; x has "
                f"{MOST_NUMBERS:,} numbers at most."
            )
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); 'streamjobs init' writes a job file to start from."
        ) from None
    return table_of(data, str(path))


def located(table: Mapping[str, Any], path: Path | str, to_write: str = "") -> dict[str, Any]:
    """The table of a job file with the files that it names relative to its own folder.

    A file that is only in the current folder is used from there, with a warning: job files up to 0.2 meant that folder.
    to_write: the section with a file that is not read, such as "population"; it is always in the job file's folder.
    """
    placed = {name: dict(section) if isinstance(section, dict) else section for name, section in table.items()}
    for section, settings in placed.items():
        for name, file in settings.items() if isinstance(settings, dict) else ():
            if isinstance(file, str) and file and (name.endswith("_file") or (section, name) in FILES):
                there = Path(path).parent / file
                settings[name] = str(there) if section == to_write else _located(file, Path(path), f"[{section}] {name}")
    return placed


def _located(file: str, path: Path, setting: str) -> str:
    there = path.parent / file
    if path.parent == Path() or there.exists() or not Path(file).exists():
        return file if path.parent == Path() else str(there)
    warnings.warn(
        f"{path}: {setting}: {there} does not exist, {file} in the current folder is used; name files relative to the job "
        "file's folder.",
        stacklevel=4,
    )
    return file


def table_of(data: bytes, origin: str) -> dict[str, Any]:
    """The contents of a TOML file's bytes; raises ConfigError with the line of a syntax error."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{origin}: line {line} is not UTF-8 text; save the file with this encoding.") from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{origin}: cannot be read: its lists or tables are nested too deep.") from None
    except ValueError as error:  # TOMLDecodeError, or a number or date that Python cannot represent
        raise ConfigError(f"{origin}: {_syntax(str(error), text)}") from None


def _syntax(message: str, text: str) -> str:
    """The parser's message "Expected '=' ... (at line 3, column 5)", with the line itself."""
    words = message.rpartition("(at line ")
    number = words[2].split(",")[0]
    lines = text.splitlines()
    if not number.isdigit() or int(number) > len(lines):
        return f"not TOML: {message}."
    return f"line {number} is not TOML: {words[0].strip().lower()}: {lines[int(number) - 1].strip()!r:.80}."


def job_from(composition: Composition, origin: str = "") -> Job:
    """The job, with the file that new keys start from. origin: the job file, for messages.

    The schema of [source] schema_file is read too. Raises ConfigError for settings that a learner refuses, for a file that
    is missing, damaged or another job's, and if
    a key's state does not fit into a record of the changelog or this machine's memory.
    """
    load_lapack()
    load_loops_alone()
    settings = composition.settings
    start_from, population, prefix = settings.state.start_from, settings.population, f"{origin}: " if origin else ""
    if population is not None:
        file, place = population.file, f"{origin} [population]: file {population.file!r}"
        writer = f"streamjobs fit {origin or 'JOB'} --input RECORDINGS"
    else:
        file, place = start_from or "", f"{origin} [state]: start_from {start_from!r}"
        writer = "streamjobs replay --pool --export FILE"
    try:
        data = Path(file).read_bytes() if file else None
        schema = definition_of(settings.source)
        job = Job.from_composition(composition, data if population else None, schema)
        if population is None and data is not None:
            job = starting_from(job, data)
        size = job.state_bytes  # makes a state: only then do some learners refuse the number of columns
    except OSError as error:
        raise ConfigError(f"{place} cannot be read ({error.strerror}); '{writer}' writes one.".strip()) from None
    except SnapshotError as error:
        raise ConfigError(f"{place}: {error} '{writer}' makes a new one.".strip()) from None
    except (ConfigError, SettingError, ValueError) as error:
        raise ConfigError(f"{prefix}{error}") from None
    except MemoryError:
        raise ConfigError(
            f"{prefix}a key's state must fit into this machine's memory; got one that does not. {LOWER}"
        ) from None
    if size > MOST_STATE:
        raise ConfigError(
            f"{prefix}a key's state must fit into a record of the changelog, {readable(MOST_STATE)}; got {readable(size)}. "
            f"{LOWER}"
        )
    return job


def job_of(path: Path) -> Job:
    """The job of a job file; raises ConfigError with all problems."""
    return job_from(read_job(path), str(path))


def core_from(composition: Composition) -> Core:
    """The core that a worker runs. Raises ConfigError as `job_from` does."""
    from streamjobs.core.advance import advance
    from streamjobs.core.events.away import read_open
    from streamjobs.core.live.live import Live

    job, make_live = job_from(composition), lambda job, read, most: Live(job, read_many=read, most_bytes=most)
    return Core(job, make_live, advance, last_event, job.schemas, Live.meet, read_open, job.forecast_plan)


def broker_of(url: str | None, option: str = "--broker") -> BrokerSection:
    """A broker without a job file: [broker] as the environment has it. url: in place of that of the environment.

    Raises ConfigError for settings that are wrong. option: has the url, for messages.
    """
    return _without_file({"broker": {"url": url}} if url is not None else {}, BROKER, option).broker


def with_schemas(records: Sequence[Record]) -> tuple[str, str, list[tuple[Record, dict[str, Any]]], str] | None:
    """The registry of the environment, the format of its schemas, the records that these read with their fields, and why not
    the first other one.

    None where the environment has no [registry]. Raises ConfigError for settings that are wrong, and SetupError.
    """
    from streamjobs.core.decoding.samples import Problem
    from streamjobs.core.decoding.with_schema.schemas import SchemasOfAnyKind
    from streamjobs.schema_registry.ready_now import ready_now

    if f"{REGISTRY}URL" not in os.environ:
        return None
    settings = _without_file({"source": {"format": "avro"}}, REGISTRY, f"{REGISTRY}URL")
    schemas, rows, why = SchemasOfAnyKind(settings.source), list[tuple[Record, dict[str, Any]]](), ""
    for record in ready_now(settings, schemas, records):
        try:
            rows.append((record, schemas.message(record.value or b"", record.headers)))
        except (Problem, SetupError) as problem:
            why = why or str(problem).rstrip(".")
    return os.environ[f"{REGISTRY}URL"], schemas.format, rows, why


def _without_file(given: dict[str, dict[str, str]], prefix: str, origin: str) -> Settings:
    """given: settings, in place of those of the environment with this prefix. origin: of them, for messages."""
    smallest = {"source": {"topic": "none", "dim": 1} | given.pop("source", {}), "learner": {"name": "scaling"}, **given}
    taken = {f"STREAMJOBS_{section}__{name}".upper() for section, named in given.items() for name in named}
    known = {name: value for name, value in os.environ.items() if name.startswith(prefix) and name not in taken}
    return composition_from(smallest, known, origin).settings
