"""Changing the changelog while no worker runs, and safely when one starts meanwhile.

The writer is fenced as a worker's is: it takes the partitions' transactional ids over, so whoever opened them before can
write no more, and a worker that opens them later refuses what is written here after that. A worker reads the changelog
from where its local store ends, so it applies what was written, whatever its store.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streamjobs.config import Settings
from streamjobs.errors import SetupError
from streamjobs.shell import client, topics
from streamjobs.shell.changelog import Changelog
from streamjobs.shell.failures import FencedError
from streamjobs.shell.rights import LOOKING

ANSWER_WITHIN = 10.0  # seconds
MARKERS_WITHIN = 10.0  # seconds until a committed transaction counts for readers

Changes = Mapping[int, Sequence[tuple[bytes, bytes | None]]]  # partition -> (key, snapshot; None is a tombstone)


def admin_of(settings: Settings) -> AdminClient:
    return AdminClient(client.for_confluent(settings.broker))


def members(settings: Settings) -> int:
    """Workers in the job's consumer group. Raises SetupError where the broker does not say."""
    admin, begun = admin_of(settings), time.monotonic()
    while True:
        (asked,) = admin.describe_consumer_groups([settings.job.name], request_timeout=ANSWER_WITHIN).values()
        try:
            return len(asked.result(ANSWER_WITHIN).members)
        except KafkaException as error:
            name = error.args[0].name()
            if name == "GROUP_ID_NOT_FOUND":
                return 0
            if name not in LOOKING or time.monotonic() - begun > ANSWER_WITHIN:
                raise SetupError(_unanswered(settings, error)) from None
        except TimeoutError as error:
            raise SetupError(_unanswered(settings, error)) from None
        time.sleep(0.1)


def refuse_running(settings: Settings) -> None:
    """Raises SetupError while the job has workers."""
    count = members(settings)
    if count:
        raise SetupError(
            f"job {settings.job.name}: {count} {'worker is' if count == 1 else 'workers are'} running; stop them first, "
            f"nothing was changed. A killed one counts until its session of {settings.broker.session_timeout:g} s is over."
        )


def ends(settings: Settings, topic: str, *, committed_only: bool = True) -> dict[int, int]:
    """The offset each partition ends at; {} where the topic is missing."""
    admin = admin_of(settings)
    try:
        known = admin.list_topics(topic, timeout=ANSWER_WITHIN).topics.get(topic)
        if known is None or known.error is not None:
            return {}
        asked = admin.list_offsets(
            {TopicPartition(topic, number): OffsetSpec.latest() for number in known.partitions},
            isolation_level=IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED,
            request_timeout=ANSWER_WITHIN,
        )
        return {tp.partition: answer.result(ANSWER_WITHIN).offset for tp, answer in asked.items()}
    except (KafkaException, TimeoutError) as error:
        raise SetupError(_unanswered(settings, error)) from None


def committed(settings: Settings, partitions: Iterable[int]) -> dict[int, int]:
    """The group's next input offsets; 0 where nothing is committed."""
    asked = [TopicPartition(settings.source.topic, number) for number in partitions]
    request = [ConsumerGroupTopicPartitions(settings.job.name, asked)]
    (answer,) = admin_of(settings).list_consumer_group_offsets(request, request_timeout=ANSWER_WITHIN).values()
    try:
        return {tp.partition: max(tp.offset, 0) for tp in answer.result(ANSWER_WITHIN).topic_partitions}
    except KafkaException as error:
        if error.args[0].name() == "GROUP_ID_NOT_FOUND":
            return dict.fromkeys((tp.partition for tp in asked), 0)
        raise SetupError(_unanswered(settings, error)) from None
    except TimeoutError as error:
        raise SetupError(_unanswered(settings, error)) from None


def write(settings: Settings, changes: Changes, read_at: Mapping[int, int]) -> None:
    """One transaction per partition. read_at: where the changelog ended before what `changes` stand on was read.

    Raises SetupError while a worker runs or when one has written meanwhile, DeliveryError where the broker refuses,
    FencedError when a worker took over while this was writing; a partition's changes are then not written.
    """
    refuse_running(settings)
    asyncio.run(_write(settings, changes, read_at))


async def _write(settings: Settings, changes: Changes, read_at: Mapping[int, int]) -> None:
    topic, kafka = topics.changelog(settings), client.for_aiokafka(settings.broker)
    writers = {number: Changelog(kafka, settings.job.name, topic, number) for number in changes}
    reached: dict[int, int] = {}
    try:
        for writer in writers.values():
            await writer.open()
        await asyncio.to_thread(_unchanged, settings, topic, changes, read_at)
        for number, writer in writers.items():
            reached[number] = await writer.write(changes[number])
    except FencedError:
        told = f"partitions {', '.join(map(str, reached))} were written before" if reached else "nothing was written"
        raise FencedError(
            f"job {settings.job.name}: a worker started meanwhile and took over; {told}. Stop it and repeat the command."
        ) from None
    finally:
        for writer in writers.values():
            await writer.close()
    await asyncio.to_thread(_counting, settings, topic, reached)


def _unchanged(settings: Settings, topic: str, changes: Changes, read_at: Mapping[int, int]) -> None:
    """Now that nobody else can write: is what was read still the newest?"""
    refuse_running(settings)
    now = ends(settings, topic, committed_only=False)
    moved = [number for number in changes if now.get(number) != read_at.get(number)]
    if moved:
        raise SetupError(
            f"topic {topic}{moved}: it grew while it was read (a worker has just ended?); nothing was changed. "
            "Repeat the command."
        )


def _counting(settings: Settings, topic: str, reached: Mapping[int, int]) -> None:
    """A commit is answered before its markers are written; wait until readers see it."""
    begun = time.monotonic()
    while any(end <= reached.get(number, -1) for number, end in ends(settings, topic).items()):
        if time.monotonic() - begun > MARKERS_WITHIN:
            return  # it counts all the same
        time.sleep(0.02)


def _unanswered(settings: Settings, error: Exception) -> str:
    text = error.args[0].str().rstrip(".") if isinstance(error, KafkaException) else "no answer"
    servers = ",".join(client.servers(settings.broker))
    return f"broker {servers}: {text}; start it, correct [broker] url, or see to the rights of this principal."


def describe_topic(admin: Any, topic: str) -> dict[str, str]:
    """A topic's settings; {} where it is missing or may not be looked at."""
    from confluent_kafka.admin import ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        found = admin.describe_configs([resource])[resource].result(ANSWER_WITHIN)
    except (KafkaException, TimeoutError):
        return {}
    return {name: str(entry.value) for name, entry in found.items()}
