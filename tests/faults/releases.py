"""Workers of an earlier commit, replaced by today's while records flow."""

import io
import json
import os
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from unittest import SkipTest

from streamjobs.kafka.devbroker.jars import cache_folder
from tests.brokers.verification import Answer
from tests.brokers.workers import CHECKOUT
from tests.faults.audit import Audit
from tests.faults.case import Case

COMMIT = "04aad75"  # before outputs went into transactions, idle keys were forgotten and stores knew their input's id
COMPILED_WITHIN = 900.0  # seconds for its learners, the first time on a machine
RENAMED = {"y_hat": "predicted_class", "y": "true_class"}  # of its records, which have no header streamjobs-schema
LATER = 'guarantee = "exactly_once"\n'  # what the earlier release would refuse


class ReleaseAudit(Audit):
    """Outputs of the earlier commit have the fields of today under their earlier names, and no schema."""

    @staticmethod
    def same(got: Answer, due: Answer) -> bool:
        if got == due:
            return True
        *place, value, at, headers = got
        *due_place, due_value, due_at, due_headers = due
        fields = {RENAMED.get(name, name): one for name, one in json.loads(value or b"{}").items()}
        without_schema = tuple(one for one in due_headers if one[0] != "streamjobs-schema")
        return (place, at, headers) == (due_place, due_at, without_schema) and fields == json.loads(due_value or b"{}")


def release(case: Case) -> None:
    """Two workers of an earlier commit are replaced one by one; meanwhile both releases are in one group."""
    env = earlier(COMMIT)
    job = case.make_job()
    case.audit = ReleaseAudit(job, exactly_once=case.exactly_once)
    job_file = job.path.read_text(encoding="utf-8")
    later = (LATER, f'replay = "{case.replay}"\n')
    job.path.write_text(job_file.replace(later[0], "").replace(later[1], ""), encoding="utf-8")
    first = case.start_worker("a", fresh=True, **env).ready(COMPILED_WITHIN)
    second = case.run_worker("b", fresh=True, **env)
    case.wait_for_two_members()
    case.start_load()
    case.wait_for_commits()
    by_old = sum(job.committed().values())
    job.path.write_text(job_file, encoding="utf-8")

    case.stop_worker(first)
    case.run_worker("a")
    case.wait_for_two_members()
    together = sum(job.committed().values())
    case.wait_for_commits()
    second.assert_running()
    together = sum(job.committed().values()) - together
    if case.exactly_once:  # its outputs would count, and come again: it knows of no transaction
        case.stop_worker(second)
    else:
        assert second.kill() == -9
    case.run_worker("b")
    case.wait_for_two_members()
    case.wait_for_commits()
    case.prove(f"{by_old} records by commit {COMMIT}, {together} by it and today's in one group, then today's alone")


def earlier(commit: str) -> dict[str, str]:
    """Variables of workers that run the files of a commit, beside the compiled loops: they are compiled once for all."""
    folder = cache_folder() / "releases" / commit
    if not folder.exists():
        done = subprocess.run(["git", "archive", commit], cwd=CHECKOUT, capture_output=True, check=False)
        if done.returncode:
            raise SkipTest(f"the case needs commit {commit} of the repository's history: {done.stderr.decode().strip()}")
        unpacked = folder.with_name(f"{commit}.{os.getpid()}")
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(unpacked, filter="data")
        with suppress(OSError):  # another case was first
            unpacked.rename(folder)
    env = {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}  # not the folder they are started in
    assert imported(env) == folder, f"workers of {commit} would run other code than theirs"
    return env


def imported(env: dict[str, str]) -> Path:
    """Where workers with these variables find the product."""
    command = [sys.executable, "-c", "import streamjobs, pathlib; print(pathlib.Path(streamjobs.__file__).parents[1])"]
    done = subprocess.run(command, cwd=CHECKOUT, env={**os.environ, **env}, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())
