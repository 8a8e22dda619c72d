"""A job file made into a job, with every mistake as a declared error."""

from pathlib import Path

from streamjobs.core.job import Job
from streamjobs.files import load_job
from streamjobs.shell.jobs import job_from


def job_of(path: Path) -> Job:
    """Read, check and build; raises ConfigError with all problems."""
    return job_from(load_job(path), str(path))
