"""An input deleted and made anew under its name: noticed, refused, and then gone on with, models as they were."""

from functools import partial
from typing import Any

from streamjobs.core.advance import advance
from streamjobs.core.state.live import Live
from streamjobs.kafka import topics
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import without_offsets
from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, until
from tests.brokers.load import samples
from tests.brokers.workers import Worker, run_until_done, wait_for_exit
from tests.cli.jobs import command


def make_anew(job: KafkaJob) -> None:
    (deleted,) = job.admin.delete_topics([job.input]).values()
    deleted.result(10)
    until(lambda: job.input not in job.admin.list_topics(timeout=10).topics, f"{job.input} gone")
    topics.create(job.settings, partitions=PARTITIONS, job_sinks=job.core.sinks)


def gone_on(job: KafkaJob, before: dict[tuple[int, bytes], bytes]) -> tuple[dict[tuple[int, bytes], bytes], int]:
    """States after the present input, from those before without their place; and how many predictions were made."""
    kept: Any = {place: without_offsets(Entry(*place, data, 0, 0)) for place, data in before.items()}
    records, made, predictions = job.inputs(), {}, 0
    for number in range(PARTITIONS):
        live = Live(job.core, partial(lambda number, key: kept.get((number, key)), number))
        outputs, _ = advance(job.core, live, [record for record in records if record.partition == number])
        predictions += sum(output.sink == "predictions" for output in outputs)
        made |= {(number, key): data for key, data in live.snapshots()}
    return kept | made, predictions


def test_a_remade_input_is_refused_until_the_states_are_told_to_go_on_with_it(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("remade", **LEARNING)
    job.produce(samples(400, keys=40))
    run_until_done(job, fork_server=fork_server)
    before, answered = job.snapshots(), len(job.sink("predictions"))
    assert command("state", "forget-offsets", job.path) == 2  # it is still the same topic

    make_anew(job)
    job.produce(samples(200, keys=20, seed=2))
    code, lines = wait_for_exit(Worker(job, fork_server=fork_server))
    assert code == 3 and len(lines) == 1 and "recreated" in lines[0] and "state forget-offsets" in lines[0]
    code, lines = wait_for_exit(Worker(job, "with-no-disk", fork_server=fork_server))
    assert code == 3 and "recreated" in lines[0]
    assert job.snapshots() == before and len(job.sink("predictions")) == answered

    assert command("state", "forget-offsets", job.path) == 0
    run_until_done(job, fork_server=fork_server)
    states, predictions = gone_on(job, before)
    assert job.snapshots() == states and job.committed() == job.ends()
    assert len(job.sink("predictions")) == answered + predictions > answered
