"""Loads the demo's job."""

from collections.abc import Mapping
from pathlib import Path

from streamjobs.core.job import Job
from streamjobs.job_files import job_from, read_job

FILE = Path(__file__).parent / "job.toml"
POPULATION = Path(__file__).parent / "population.state"
SETTINGS = {"STREAMJOBS_POPULATION__FILE": str(POPULATION)}  # the demo runs in any folder


def demo_job(env: Mapping[str, str]) -> Job:
    return job_from(read_job(FILE, {**SETTINGS, **env}), str(FILE))
