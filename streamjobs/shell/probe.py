"""Before anything is consumed: is there a broker, are the topics there, do their partitions fit, are we allowed."""

import time
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streamjobs.config import Settings
from streamjobs.errors import SetupError
from streamjobs.shell import client, identity, rights, topics
from streamjobs.shell.bundle import JobLike
from streamjobs.shell.changelog import writer_of

ENDS_WITHIN = 30.0  # seconds; electing a leader takes some of them


class Found(NamedTuple):
    partitions: int  # of the input
    ends: dict[int, int]  # offsets its partitions ended at
    input_id: str = ""  # of its topic


def probe(settings: Settings, job: JobLike) -> Found:
    """What is there; makes the changelog where it is missing.

    Raises SetupError with a sentence for each thing that stands in the way.
    """
    source = settings.source.topic
    admin, counts = topics.connect(settings.broker, [source, *job.sinks.values()])
    if source in counts and topics.changelog(settings) not in counts and not _hidden(settings, admin):
        topics.create(settings, job_sinks=job.sinks, state_bytes=job.state_bytes, roles=("state",))
        admin, counts = topics.connect(settings.broker, _roles(settings, job))
    problems = _obstacles(settings, job, admin, counts)
    if problems:
        raise SetupError("\n".join(problems))
    return Found(counts[source], _ends(admin, settings, counts[source]), identity.topic_id(admin, source))


def obstacles(settings: Settings, job: JobLike) -> list[str]:
    """A sentence for each thing that stands in the way: topics, partitions, rights; [] = it can run. Makes nothing.

    Raises SetupError where the broker refuses TLS or credentials, ConfigError where a file of theirs cannot be read.
    """
    try:
        admin, counts = topics.connect(settings.broker, _roles(settings, job))
    except SetupError as error:
        return [str(error)]
    return _obstacles(settings, job, admin, counts)


def _obstacles(settings: Settings, job: JobLike, admin: Any, counts: dict[str, int]) -> list[str]:
    broker = settings.broker
    known = client.principal(broker)
    if problems := topics.problems_of(settings, job.sinks, admin, counts, known):
        return problems
    ids = [writer_of(settings.job.name, number) for number in range(counts[settings.source.topic])]
    return rights.missing(admin, client.for_aiokafka(broker), _roles(settings, job), settings.job.name, ids, known)


def _hidden(settings: Settings, admin: Any) -> bool:
    """The changelog may be there and not for us to see; making it would be refused with less to say."""
    return bool(topics.hidden(admin, [topics.changelog(settings)]))


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
            if client.forbidden(error) or time.monotonic() - begun > ENDS_WITHIN:
                raise SetupError(
                    f"topic {settings.source.topic} (input): cannot ask for its end ({client.reason_of(error)}); "
                    "see that this worker may read it and that each of its partitions has a leader."
                ) from None
        time.sleep(0.5)
