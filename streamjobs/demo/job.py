"""Loads the demo's job."""

from collections.abc import Mapping
from pathlib import Path

from streamjobs.core.job import Job
from streamjobs.job_files import job_from, read_job

FILE = Path(__file__).parent / "job.toml"


def demo_job(env: Mapping[str, str]) -> Job:
    return job_from(read_job(FILE, env), str(FILE))
