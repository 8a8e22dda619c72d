"""Somebody nobody has seen, on the population of all others: a worker on a real Kafka says what the figures say."""

import json

import pytest

from papers.core_population import CONVOLVED, GATED, left_out, raw, through_core
from streamjobs.core.job import Job
from streamjobs.fit.learning import Way
from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, Sent
from tests.brokers.verification import verify
from tests.brokers.workers import running_worker


@pytest.mark.parametrize(
    "by", [pytest.param(GATED, id="prototypes"), pytest.param(CONVOLVED, id="convolutions", marks=pytest.mark.long)]
)
def test_a_killed_worker_and_its_successor_give_the_bits_of_the_activity_figures(
    make_job: MakeJob, by: Way, fork_server: ForkServer
) -> None:
    convolving = by.recipe.convolving
    data = raw("watch", 0 if convolving is None else convolving.numbers)
    person = left_out(data, 1, by)
    records = through_core(Job.from_settings(person.settings, population=person.population), data, person.stream).records
    sections = person.settings.model_dump(mode="json", exclude_unset=True)
    del sections["source"]["topic"], sections["population"]  # the job's own
    few = by.recipe.directions or None
    job = make_job(f"figures-{few}", population=person.population, directions=few, **sections)
    job.produce(Sent(one.key, one.value, 1 % PARTITIONS, one.timestamp) for one in records[: len(records) // 2])
    with running_worker(job, STREAMJOBS_BROKER__INSTANCE_ID="one", fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        job.produce(Sent(one.key, one.value, 1 % PARTITIONS, one.timestamp) for one in records[len(records) // 2 :])
        assert worker.kill() == -9
    with running_worker(job, STREAMJOBS_BROKER__INSTANCE_ID="one", fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0
    said = {}
    for message in job.sink("predictions"):
        one = json.loads(message.value())
        said.setdefault(one["seq"], one)
    assert len(said) == len(person.chosen) > 500 and person.same([said[seq] for seq in sorted(said)])
    verify(job, repeats=True)
