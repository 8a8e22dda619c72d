"""Workers of an earlier commit, replaced by today's while records flow."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from streamjobs.kafka.devbroker.jars import cache_folder
from tests.brokers.workers import CHECKOUT
from tests.faults.trial import Trial

COMMIT = "04aad75"  # before outputs went into transactions, idle keys were forgotten and stores knew their input's id
COMPILED_WITHIN = 900.0  # seconds for its learners, the first time on a machine
LATER = 'guarantee = "exactly_once"\n'  # what the earlier release would refuse


def release(trial: Trial) -> None:
    """Two workers of an earlier commit are replaced one by one; meanwhile both releases are in one group."""
    bed, old = trial.make_bed(), earlier(COMMIT)
    env = {"PYTHONPATH": str(old), "PYTHONSAFEPATH": "1"}  # not the folder they are started in
    assert imported(env) == old, f"workers of {COMMIT} would run other code than theirs"
    job = bed.path.read_text(encoding="utf-8")
    bed.path.write_text(job.replace(LATER, ""), encoding="utf-8")
    first = trial.begin("a", fresh=True, **env).ready(COMPILED_WITHIN)
    second = trial.work("b", fresh=True, **env)
    trial.shared()
    trial.pour()
    trial.progress()
    by_old = sum(bed.committed().values())
    bed.path.write_text(job, encoding="utf-8")

    trial.terminate(first)
    trial.work("a")
    trial.shared()
    together = sum(bed.committed().values())
    trial.progress()
    second.must_live()
    together = sum(bed.committed().values()) - together
    if trial.exactly_once:  # its outputs would count, and come again: it knows of no transaction
        trial.terminate(second)
    else:
        assert second.kill() == -9
    trial.work("b")
    trial.shared()
    trial.progress()
    trial.prove(f"{by_old} records by commit {COMMIT}, {together} by it and today's in one group, then today's alone")


def earlier(commit: str) -> Path:
    """The files of a commit, beside the compiled loops: they are compiled once for all."""
    folder = cache_folder() / "releases" / commit
    if not folder.exists():
        done = subprocess.run(["git", "archive", commit], cwd=CHECKOUT, capture_output=True, check=False)
        assert done.returncode == 0, f"the case needs the repository's history: {done.stderr.decode().strip()}"
        unpacked = folder.with_name(f"{commit}.{os.getpid()}")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(unpacked, filter="data")
        unpacked.rename(folder)
    return folder


def imported(env: dict[str, str]) -> Path:
    """Where workers with these variables find the product."""
    command = [sys.executable, "-c", "import streamjobs, pathlib; print(pathlib.Path(streamjobs.__file__).parents[1])"]
    done = subprocess.run(command, cwd=CHECKOUT, env={**os.environ, **env}, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())
