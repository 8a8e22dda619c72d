"""Faults, short: nothing lost, none trained twice, per-key order kept, final states as in an undisturbed replay."""

import pytest

from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob
from tests.brokers.load import SOURCE
from tests.brokers.verification import verify
from tests.faults.scenarios import frozen, joins, kills

JOB = {"source": SOURCE, "head": {"name": "rls"}, "drift": {"detector": "page_hinkley"}}


def fault_job(make_job: MakeJob, name: str, **sections: dict) -> KafkaJob:
    return make_job(name, **JOB, **sections)


def test_five_kills_at_random_moments_lose_nothing_and_train_nothing_twice(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = fault_job(make_job, "kill")
    deaths = kills(job, fork_server, 5, seed=11)
    assert len(deaths) == 5
    verify(job, repeats=True)


def test_killed_workers_that_lose_their_disk_recover_from_the_changelog(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = fault_job(make_job, "wipe", state={"replay": "0s"})  # so that the changelog has states to recover
    assert len(kills(job, fork_server, 2, seed=12, wipe=True)) == 2
    verify(job, repeats=True)


def test_a_second_worker_that_joins_and_leaves_repeats_not_even_an_output(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = fault_job(make_job, "join", broker={"session_timeout": "30s"})  # nobody is killed
    assert len(joins(job, fork_server, 2, seed=13)) == 2
    verify(job, repeats=False)


@pytest.mark.long
def test_kills_among_joins_and_leaves_lose_nothing_and_train_nothing_twice(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = fault_job(make_job, "mixed")
    assert len(joins(job, fork_server, 2, seed=14, kills_too=True)) == 2
    verify(job, repeats=True)


def test_a_zombie_woken_after_the_other_has_finished_changes_nothing(make_job: MakeJob, fork_server: ForkServer) -> None:
    state = {"checkpoint": "3s", "replay": "0s"}  # the other one writes nothing after it has finished
    job = fault_job(make_job, "zombie", state=state)
    frozen(job, fork_server, seed=15, until_finished=True)
    verify(job, repeats=True)


def test_a_frozen_worker_woken_while_the_other_works_damages_nothing(make_job: MakeJob, fork_server: ForkServer) -> None:
    job = fault_job(make_job, "frozen", state={"checkpoint": "3s"})
    frozen(job, fork_server, seed=16, until_finished=False)
    verify(job, repeats=True)
