"""Before anything is consumed: is there a broker, are the topics there, do their partitions fit, are we allowed."""

import time
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streamjobs.config import Settings
from streamjobs.errors import SetupError
from streamjobs.shell import client, identity, rights, topics
from streamjobs.shell.bundle import JobLike

ENDS_WITHIN = 30.0  # seconds; electing a leader takes some of them


class Found(NamedTuple):
    partitions: int  # of the input
    ends: dict[int, int]  # offsets its partitions ended at
    input_id: str = ""  # of its topic


def probe(settings: Settings, job: JobLike) -> Found:
    """What is there; makes the changelog where it is missing.

    Raises SetupError with a sentence for each thing that stands in the way.
    """
    _, counts = topics._connect(topics.bootstrap(settings.broker.url))
    source = settings.source.topic
    if source in counts and topics.changelog(settings) not in counts:
        topics.create(settings, job_sinks=job.sinks, state_bytes=job.state_bytes, roles=("state",))
    admin = AdminClient(client.for_confluent(settings.broker))
    problems = topics.check(settings, job.sinks) or rights.missing(
        admin, client.for_aiokafka(settings.broker), _roles(settings, job), settings.job.name
    )
    if problems:
        raise SetupError("\n".join(problems))
    return Found(counts[source], _ends(admin, settings, counts[source]), identity.topic_id(admin, source))


def _roles(settings: Settings, job: JobLike) -> dict[str, str]:
    outputs = dict.fromkeys(job.sinks.values(), "output")
    return {**outputs, settings.source.topic: "input", topics.changelog(settings): "state"}


def _ends(admin: AdminClient, settings: Settings, partitions: int) -> dict[int, int]:
    """Asked again for a while: a partition whose leader has just gone has none for some seconds."""
    wanted = {TopicPartition(settings.source.topic, number): OffsetSpec.latest() for number in range(partitions)}
    begun = time.monotonic()
    while True:
        asked = admin.list_offsets(wanted, request_timeout=topics.ANSWER_WITHIN)
        try:
            return {tp.partition: answer.result(topics.ANSWER_WITHIN).offset for tp, answer in asked.items()}
        except (KafkaException, TimeoutError) as error:
            lasting = isinstance(error, KafkaException) and error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            if lasting or time.monotonic() - begun > ENDS_WITHIN:
                raise SetupError(
                    f"topic {settings.source.topic} (input): cannot ask for its end ({topics._text(error)}); "
                    "see that this worker may read it and that each of its partitions has a leader."
                ) from None
        time.sleep(0.5)
