"""A job from its settings and the file they may name: an exported state, or a population."""

from pathlib import Path

from algorithms import SettingError
from streamjobs.config import Settings
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.fields import readable

MOST_STATE = (1 << 31) - (1 << 20)  # bytes; a record's length is a 32-bit number, and what frames it is small
LOWER = "Lower what sets its size, such as the learner's budget or rank."


def job_from(settings: Settings, origin: str = "") -> Job:
    """The job of checked settings, with the file that new keys begin from. origin: the job file, for messages.

    Raises ConfigError for what the learners refuse, for a file that is missing, damaged or another job's, and where a key's
    state exceeds a record of the changelog or this machine's memory.
    """
    name, population, before = settings.state.start_from, settings.population, f"{origin}: " if origin else ""
    if population is not None:
        named, place = population.file, f"{origin} [population]: file {population.file!r}"
        writer = f"streamjobs fit {origin or 'JOB'} --output FILE"
    else:
        named, place = name or "", f"{origin} [state]: start_from {name!r}"
        writer = "streamjobs replay --pool --export FILE"
    try:
        held = Path(named).read_bytes() if named else None
        job = Job.from_settings(settings, None if population else held, held if population else None)
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
