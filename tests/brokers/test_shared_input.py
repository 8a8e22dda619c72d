"""Dead letters do not go back to an input that other groups read, unless that is asked for."""

from confluent_kafka import Consumer, TopicPartition

from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import Sent
from tests.brokers.load import START
from tests.brokers.workers import run_until_done
from tests.commands.jobs import output_of


def test_letters_of_an_input_that_others_read_are_sent_back_only_if_that_is_asked_for(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("shared", **LEARNING)
    job.produce([Sent(b"p1", b"{", 0, round(START * 1000))])
    run_until_done(job, fork_server=fork_server)
    reader = Consumer({"bootstrap.servers": job.bootstrap, "group.id": f"{job.name}-reader"})
    reader.commit(offsets=[TopicPartition(job.input, 0, 1)], asynchronous=False)
    reader.close()

    code, said = output_of("dlq", "redrive", job.path, "--all")
    assert code == 2 and f"{job.input} is also read by {job.name}-reader, which would get 1 record again" in said
    assert output_of("dlq", "redrive", job.path, "--all", "--dry-run")[0] == 0 and sum(job.ends().values()) == 1
    code, said = output_of("dlq", "redrive", job.path, "--all", "--shared")
    assert code == 0 and sum(job.ends().values()) == 2, said
