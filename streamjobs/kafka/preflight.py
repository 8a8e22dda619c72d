"""Before anything is consumed: is there a broker, are the topics there, do their partitions fit, what may we do.

Without Read on its group a consumer idles for ever and says nothing; without Write on an output it would run on and
lose it. A broker without an authorizer allows everything; one that does not say is believed until it refuses.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError, TransactionalIdAuthorizationFailed, for_code
from aiokafka.protocol.transaction import EndTxnRequest
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from streamjobs.core.interface import JobLike
from streamjobs.errors import SetupError
from streamjobs.kafka import client, groups, topics
from streamjobs.kafka.certificates import days_left
from streamjobs.kafka.topic_id import topic_id
from streamjobs.kafka.topics import ANSWER_WITHIN, PRINTED, is_mock, lacking_right, writer_of
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.sections import Settings

ENDS_WITHIN = 30.0  # seconds; electing a leader takes some of them
EXPIRES_SOON = 30.0  # days
NO_PRODUCER = -1  # as producer id: no transaction is that producer's, so none is ended
NEEDED = {
    "input": (AclOperation.READ,),
    "state": (AclOperation.READ, AclOperation.WRITE),
    "output": (AclOperation.WRITE,),
}


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
    return Found(counts[source], _ends(admin, settings, counts[source]), topic_id(admin, source))


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
    return missing_rights(admin, client.for_aiokafka(broker), _roles(settings, job), settings.job.name, ids, known)


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


def missing_rights(
    admin: AdminClient,
    asking: Mapping[str, Any],
    roles: Mapping[str, str],
    group: str,
    writers: Sequence[str] = (),
    principal: str = "this worker's principal",
) -> list[str]:
    """One sentence for each right that is missing.

    asking: client settings for aiokafka; roles: topic -> input | state | output; writers: transactional ids.
    """
    problems: list[str] = []
    with suppress(KafkaException, TimeoutError):  # a broker that does not say refuses where it has to
        if is_mock(admin):
            return []
        problems += _topics(admin, roles, principal)
    with suppress(KafkaError, TimeoutError):
        problems += _group(asking, group, principal)
    with suppress(KafkaError, TimeoutError):
        problems += _writers(asking, writers, principal)
    return problems


def _topics(admin: AdminClient, roles: Mapping[str, str], principal: str) -> list[str]:
    asked = admin.describe_topics(
        TopicCollection(list(roles)), include_authorized_operations=True, request_timeout=ANSWER_WITHIN
    )
    problems = []
    for name, answer in asked.items():
        role = roles[name]
        try:
            allowed = answer.result(ANSWER_WITHIN).authorized_operations
        except KafkaException as error:
            if not client.forbidden(error):
                raise
            allowed = [AclOperation.UNKNOWN]  # not even to see it
        lacking = [needed.name.capitalize() for needed in NEEDED[role] if allowed and needed not in allowed]
        if lacking:
            problems.append(lacking_right(name, role, " and ".join(lacking), principal))
    return problems


def _writers(asking: Mapping[str, Any], ids: Sequence[str], principal: str) -> list[str]:
    lacking = refused_writers(asking, ids)
    if not lacking:
        return []
    which = lacking[0] if len(lacking) == 1 else f"{lacking[0]} to {lacking[-1]}"
    return [
        f"transactional id {which}: expected the right to Write, not granted to {principal}; without it no state can be "
        f"stored. {PRINTED[0].upper()}{PRINTED[1:]}"
    ]


def _group(asking: Mapping[str, Any], group: str, principal: str) -> list[str]:
    """The first group ever makes a broker look around a while."""
    begun = time.monotonic()
    while True:
        try:
            found = groups.described(asking, group)
        except GroupAuthorizationFailedError:
            break
        except KafkaError as error:
            if not error.retriable or time.monotonic() - begun > ANSWER_WITHIN:
                raise
        else:
            if not _allowed(found.operations):
                break
            return []
        time.sleep(0.1)
    return [
        f"group {group}: expected the right to Read, not granted to {principal}; without it no partition is ever assigned. "
        f"{PRINTED[0].upper()}{PRINTED[1:]}"
    ]


def _allowed(operations: int) -> bool:
    return operations == groups.UNTOLD or bool(operations >> AclOperation.READ.value & 1)


def refused_writers(asking: Mapping[str, Any], ids: Iterable[str]) -> list[str]:
    """The transactional ids it may not write with; asked without opening a producer, which would fence.

    Raises aiokafka's KafkaError; never call it inside an event loop.
    """
    return asyncio.run(_refused(asking, list(ids)))


async def _refused(settings: Mapping[str, Any], ids: list[str]) -> list[str]:
    asking = AIOKafkaClient(**settings)
    await asking.bootstrap()
    try:
        return [one for one in ids if not await _may_write(asking, one)]
    finally:
        await asking.close()


async def _may_write(asking: AIOKafkaClient, transactional_id: str) -> bool:
    """Rights are looked at before anything else: who may write hears that the producer is unknown."""
    begun = time.monotonic()
    while True:
        try:
            node = await asking.coordinator_lookup(CoordinationType.TRANSACTION, transactional_id)
            answer = await asking.send(node, EndTxnRequest(transactional_id, NO_PRODUCER, NO_PRODUCER, False))
            error = for_code(answer.error_code)
            if not getattr(error, "retriable", False):
                return error is not TransactionalIdAuthorizationFailed
        except TransactionalIdAuthorizationFailed:
            return False
        except KafkaError as problem:  # the first transaction ever makes a broker look around a while
            if not getattr(problem, "retriable", False) or time.monotonic() - begun > ANSWER_WITHIN:
                raise
        if time.monotonic() - begun > ANSWER_WITHIN:
            return True  # it refuses later where it has to
        await asyncio.sleep(0.1)


def expiring_certificates(broker: BrokerSection) -> Iterator[str]:
    """A sentence for each certificate that ends within a month; asks the broker."""
    if broker.reached == "plaintext":
        return
    for server, left in client.greet(broker, every=True):
        if left is not None and left < EXPIRES_SOON:
            yield f"broker {server}: its certificate expires in {left:.0f} days; have it renewed."
    if broker.certificate_file is not None:
        left = days_left(broker.certificate_file)
        if left is not None and left < EXPIRES_SOON:
            when = f"expires in {left:.0f} days" if left > 0 else f"expired {-left:.0f} days ago"
            yield f"[broker]: certificate_file {broker.certificate_file!r} {when}; have it renewed."
