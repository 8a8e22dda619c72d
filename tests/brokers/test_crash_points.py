"""A crash between any two steps of a checkpoint; and that `verify` notices a worker with an injected bug."""

import pytest

from tests.brokers.fault_injection import program
from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.killing import run_to_the_end, run_until_crash
from tests.brokers.load import samples
from tests.brokers.verification import verify

EACH = {"state": {"replay": "0s"}}  # each checkpoint has all its steps


def test_a_crash_after_any_step_of_a_checkpoint_loses_nothing_and_trains_nothing_twice(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("steps", **LEARNING, **EACH)
    for seed, step in enumerate(("outputs", "changelog", "store", "commit"), start=1):
        job.produce(samples(3000, seed=seed))
        run_until_crash(job, f"crash-after-{step}", fork_server=fork_server)
    run_to_the_end(job, fork_server=fork_server)
    results = verify(job, repeats=True, expect=12_000)
    assert results["features"].repeated > 0  # the crashes had outputs to repeat


def test_a_reader_of_committed_records_sees_each_output_once_through_crashes(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    """A crash with a whole transaction that is never committed, and one before the local store follows a commit."""
    job = make_job("exactly", **LEARNING, **EACH, job={"guarantee": "exactly_once"})
    for seed, step in enumerate(("offsets", "commit"), start=1):
        job.produce(samples(3000, seed=seed))
        run_until_crash(job, f"crash-after-{step}", fork_server=fork_server)
    run_to_the_end(job, fork_server=fork_server)
    results = verify(job, repeats=False, expect=6000, committed_only=True)
    assert len(job.sink("features")) > results["features"].answers  # the first crash left outputs that do not count


def test_a_worker_that_commits_before_it_stores_is_noticed(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = make_job("first", **LEARNING, **EACH)
    job.produce(samples(2000))
    run_until_crash(job, "commits-first", fork_server=fork_server)
    run_to_the_end(job, fork_server=fork_server)
    with pytest.raises(AssertionError, match=r"final states differ|missing=[1-9]|wrong=[1-9]|the changelog has"):
        verify(job, repeats=True)


def test_a_worker_that_trains_twice_on_what_is_delivered_twice_is_noticed(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("twice", **LEARNING, **EACH)
    job.produce(samples(2000))
    run_until_crash(job, "crash-after-store", fork_server=fork_server)
    run_to_the_end(job, program=program("forgets-offsets"), fork_server=fork_server)
    with pytest.raises(AssertionError, match=r"final states differ|wrong=[1-9]"):
        verify(job, repeats=True)
