"""Changing the changelog while no worker runs, and safely when one starts meanwhile.

The writer is fenced as a worker's is: it takes the partitions' transactional ids over, so whoever opened them before can
write no more, and a worker that opens them later refuses what is written here after that. A worker reads the changelog
from where its local store ends, so it applies what was written, whatever its store.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aiokafka.errors import KafkaError
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streamjobs.errors import SetupError
from streamjobs.kafka import client, groups, topics
from streamjobs.settings.sections import Settings
from streamjobs.worker.changelog import Changelog
from streamjobs.worker.failures import FencedError

ANSWER_WITHIN = 5.0  # seconds
LOOK_AGAIN = 4  # times that long, where the broker answers but does not know yet
MOMENTARY = (  # answers of a moment, after a broker or a topic has begun or a leader has changed
    *("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"),
    *("UNKNOWN_TOPIC_OR_PART", "_TIMED_OUT"),
)
MARKERS_WITHIN = 10.0  # seconds until a committed transaction counts for readers

Changes = Mapping[int, Sequence[tuple[bytes, bytes | None]]]  # partition -> (key, snapshot; None is a tombstone)


def admin_of(settings: Settings) -> AdminClient:
    return AdminClient(client.for_confluent(settings.broker))


def _asked(settings: Settings, ask: Callable[[], Any]) -> Any:
    """What the broker answers; asked again for a while where a leader or coordinator is not known yet.

    Raises SetupError where it does not answer or refuses.
    """
    begun = time.monotonic()
    while True:
        try:
            return ask()
        except (KafkaException, KafkaError, TimeoutError) as error:
            lasting = not isinstance(error, TimeoutError) and not _momentary(error)
            if lasting or time.monotonic() - begun > LOOK_AGAIN * ANSWER_WITHIN:
                raise client.unanswered(settings.broker, error) from None
        time.sleep(0.1)


def _momentary(error: Exception) -> bool:
    if isinstance(error, KafkaException):
        return error.args[0].name() in MOMENTARY
    return bool(getattr(error, "retriable", False))


def topics_of(settings: Settings, admin: Any) -> Any:
    try:
        return admin.list_topics(timeout=ANSWER_WITHIN).topics
    except KafkaException as error:
        raise client.unanswered(settings.broker, error) from None


def members(settings: Settings) -> int:
    """Workers in the job's consumer group. Raises SetupError where the broker does not say."""
    topics_of(settings, admin_of(settings))  # nothing is looked for where no broker answers
    kafka = client.for_aiokafka(settings.broker)
    return len(_asked(settings, lambda: groups.described(kafka, settings.job.name)).members)


def refuse_running(settings: Settings) -> None:
    """Raises SetupError while the job has workers."""
    count = members(settings)
    if count:
        raise SetupError(
            f"job {settings.job.name}: {count} {'worker is' if count == 1 else 'workers are'} running; stop them first, "
            f"nothing was changed. A killed one counts until its session of {settings.broker.session_timeout:g} s is over."
        )


def ends(settings: Settings, topic: str, *, committed_only: bool = True) -> dict[int, int]:
    """The offset each partition ends at; {} where the topic is missing. Raises SetupError where the broker does not say."""
    admin = admin_of(settings)
    level = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED
    known = topics_of(settings, admin).get(topic)
    found = {}
    for number in known.partitions if known is not None else ():
        place = TopicPartition(topic, number)
        wanted = {place: OffsetSpec.latest()}

        def ask(wanted: Any = wanted, place: Any = place) -> Any:
            asked = admin.list_offsets(wanted, isolation_level=level, request_timeout=ANSWER_WITHIN)
            return asked[place].result(2 * ANSWER_WITHIN).offset

        found[number] = _asked(settings, ask)
    return found


def committed(settings: Settings, partitions: Iterable[int]) -> dict[int, int]:
    """The group's next input offsets; 0 where nothing is committed. Raises SetupError where the broker does not say."""
    wanted = [TopicPartition(settings.source.topic, number) for number in partitions]
    kafka = client.for_aiokafka(settings.broker)
    found: dict[int, int] = _asked(settings, lambda: groups.committed(kafka, settings.job.name, wanted))
    return found


def write(settings: Settings, changes: Changes, read_at: Mapping[int, int], *, anew: str | None = None) -> None:
    """One transaction per partition. read_at: where the changelog ended before what `changes` stand on was read.

    anew: id of the topic that is the input from now on; the group's offsets of these partitions begin with it.
    Raises SetupError while a worker runs or when one has written meanwhile, DeliveryError where the broker refuses,
    FencedError when a worker took over while this was writing; a partition's changes are then not written.
    """
    refuse_running(settings)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what matters is raised, in one sentence
    asyncio.run(_write(settings, changes, read_at, anew))


async def _write(settings: Settings, changes: Changes, read_at: Mapping[int, int], anew: str | None) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # futures of a producer that was fenced
    topic, kafka = topics.changelog(settings), client.for_aiokafka(settings.broker)
    place = settings.job.name, topic
    writers = {number: Changelog(kafka, *place, number, settings.source.topic, anew or "") for number in changes}
    reached: dict[int, int] = {}
    try:
        for writer in writers.values():
            await writer.open()
        await asyncio.to_thread(_unchanged, settings, topic, changes, read_at)
        for number, writer in writers.items():
            reached[number] = await writer.send(changes[number])
            if anew is not None:
                await writer.join(0)
            await writer.commit()
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


def describe_topic(admin: Any, topic: str) -> dict[str, str]:
    """A topic's settings; {} where it is missing or may not be looked at."""
    from confluent_kafka.admin import ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        found = admin.describe_configs([resource])[resource].result(ANSWER_WITHIN)
    except (KafkaException, TimeoutError):
        return {}
    return {name: str(entry.value) for name, entry in found.items()}
