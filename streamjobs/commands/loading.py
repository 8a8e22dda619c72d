"""A job file made into a job, with every mistake as a declared error."""

from pathlib import Path

from algorithms import SettingError
from streamjobs.config import Settings
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.files import load_job


def job_of(path: Path) -> Job:
    """Read, check and build; raises ConfigError with all problems."""
    return built(load_job(path), path)


def built(settings: Settings, path: Path) -> Job:
    """The job of checked settings, with the files that new keys begin from."""
    name, population = settings.state.start_from, settings.population
    start = _read(path, "state", "start_from", name, "replay --pool --export FILE") if name else None
    shared = _read(path, "population", "file", population.file, f"fit {path} --output FILE") if population else None
    try:
        return Job.from_settings(settings, start, shared)
    except SnapshotError as error:
        where = f"[state]: start_from {name!r}" if name else f"[population]: file {population and population.file!r}"
        raise ConfigError(f"{path} {where}: {error}") from None
    except (ConfigError, SettingError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _read(path: Path, section: str, setting: str, name: str, writer: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} [{section}]: {setting} {name!r} cannot be read ({error.strerror}); 'streamjobs {writer}' writes one."
        ) from None
