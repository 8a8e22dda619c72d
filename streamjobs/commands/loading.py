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
    """The job of checked settings, with the exported state that new keys begin from."""
    name = settings.state.start_from
    try:
        start = Path(name).read_bytes() if name else None
    except OSError as error:
        raise ConfigError(
            f"{path} [state]: start_from {name!r} cannot be read ({error.strerror}); "
            "'streamjobs replay --pool --export FILE' writes one."
        ) from None
    try:
        return Job.from_settings(settings, start)
    except SnapshotError as error:
        raise ConfigError(f"{path} [state]: start_from {name!r}: {error}") from None
    except SettingError as error:
        raise ConfigError(f"{path}: {error}") from None
