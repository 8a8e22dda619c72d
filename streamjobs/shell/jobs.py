"""A job from its settings and the file they may name: an exported state, or a population."""

from pathlib import Path

from algorithms import SettingError
from streamjobs.config import Settings
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError, SnapshotError


def job_from(settings: Settings, origin: str = "") -> Job:
    """The job of checked settings, with the file that new keys begin from. origin: the job file, for messages.

    Raises ConfigError for what the learners refuse, and for a file that is missing, damaged or another job's.
    """
    name, population = settings.state.start_from, settings.population
    if population is not None:
        named, place = population.file, f"{origin} [population]: file {population.file!r}"
        writer = f"streamjobs fit {origin or 'JOB'} --output FILE"
    else:
        named, place = name or "", f"{origin} [state]: start_from {name!r}"
        writer = "streamjobs replay --pool --export FILE"
    try:
        held = Path(named).read_bytes() if named else None
        return Job.from_settings(settings, None if population else held, held if population else None)
    except OSError as error:
        raise ConfigError(f"{place} cannot be read ({error.strerror}); '{writer}' writes one.".strip()) from None
    except SnapshotError as error:
        raise ConfigError(f"{place}: {error} '{writer}' makes a new one.".strip()) from None
    except (ConfigError, SettingError, ValueError) as error:
        raise ConfigError(f"{origin}: {error}" if origin else str(error)) from None
