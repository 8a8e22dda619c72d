"""Which rights are missing, asked of the broker before anything is consumed. `acls` lists and grants them.

Without Read on its group a consumer idles for ever and says nothing; without Write on an output a worker would fail later,
in the middle of its work. A broker without an authorizer allows everything. One that does not answer these questions is
believed until it refuses.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError, TransactionalIdAuthorizationFailed, for_code
from aiokafka.protocol.transaction import EndTxnRequest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from streamjobs.kafka import client, groups, timeouts
from streamjobs.kafka.topics import ADD_RIGHT, is_mock, lacking_right

RETRY_EVERY = 0.1  # seconds
ASK_AT_ONCE = 16  # transactional ids: a worker has one for each partition
NO_PRODUCER = -1  # a producer id that no transaction has, so none is ended
NEEDED = {  # on a topic, by what it is for the job
    "input": (AclOperation.READ,),
    "state": (AclOperation.READ, AclOperation.WRITE),
    "output": (AclOperation.WRITE,),
}


def missing_rights(
    admin: AdminClient,
    asking: Mapping[str, Any],
    roles: Mapping[str, str],
    group: str,
    writers: Sequence[str] = (),
    principal: str = "this worker's principal",
) -> list[str]:
    """One sentence for each right that is missing.

    asking: settings of aiokafka's clients; roles: topic -> input | state | output; writers: transactional ids.
    """
    problems: list[str] = []
    with suppress(KafkaException, TimeoutError):  # a broker that does not answer refuses later, where it has to
        if is_mock(admin):
            return []
        problems += _of_topics(admin, roles, principal)
    with suppress(KafkaError, TimeoutError):
        problems += _of_group(asking, group, principal)
    with suppress(KafkaError, TimeoutError):
        problems += _of_writers(asking, writers, principal)
    return problems


def _of_topics(admin: AdminClient, roles: Mapping[str, str], principal: str) -> list[str]:
    answers = admin.describe_topics(
        TopicCollection(list(roles)), include_authorized_operations=True, request_timeout=timeouts.ADMIN
    )
    problems = []
    for name, answer in answers.items():
        role = roles[name]
        try:
            allowed = answer.result(timeouts.ADMIN).authorized_operations
        except KafkaException as error:
            if not client.forbidden(error):
                raise
            allowed = [AclOperation.UNKNOWN]  # it may not even see the topic
        lacking = [needed.name.capitalize() for needed in NEEDED[role] if allowed and needed not in allowed]
        if lacking:
            problems.append(lacking_right(name, role, " and ".join(lacking), principal))
    return problems


def _of_group(asking: Mapping[str, Any], group: str, principal: str) -> list[str]:
    """Retries for a while: the first group ever makes a broker create its internal topic."""
    started = time.monotonic()
    while True:
        try:
            described = groups.described(asking, group)
        except GroupAuthorizationFailedError:
            break
        except KafkaError as error:
            if not error.retriable or time.monotonic() - started > timeouts.ADMIN:
                raise
        else:
            operations = described.operations
            if operations != groups.UNKNOWN_OPERATIONS and not operations >> AclOperation.READ.value & 1:
                break
            return []
        time.sleep(RETRY_EVERY)
    return [
        f"group {group}: expected the right to Read, not granted to {principal}; without it no partition is ever assigned. "
        f"{ADD_RIGHT[0].upper()}{ADD_RIGHT[1:]}"
    ]


def _of_writers(asking: Mapping[str, Any], ids: Sequence[str], principal: str) -> list[str]:
    lacking = asyncio.run(_refused_writers(asking, ids))
    if not lacking:
        return []
    which = lacking[0] if len(lacking) == 1 else f"{lacking[0]} to {lacking[-1]}"
    return [
        f"transactional id {which}: expected the right to Write, not granted to {principal}; without it no state can be "
        f"stored. {ADD_RIGHT[0].upper()}{ADD_RIGHT[1:]}"
    ]


async def _refused_writers(settings: Mapping[str, Any], ids: Sequence[str]) -> list[str]:
    """The transactional ids this client may not write with. No producer is opened for it, which would fence a worker.

    Raises aiokafka's KafkaError.
    """
    asking, slots = AIOKafkaClient(**settings), asyncio.Semaphore(ASK_AT_ONCE)

    async def may_write(one: str) -> bool:
        async with slots:
            return await _may_write(asking, one)

    await asking.bootstrap()
    try:
        answers = await asyncio.gather(*map(may_write, ids))
        return [one for one, may in zip(ids, answers, strict=True) if not may]
    finally:
        await asking.close()


async def _may_write(asking: AIOKafkaClient, transactional_id: str) -> bool:
    """End a transaction of no producer: a broker checks the right first, then answers that the producer is unknown."""
    started = time.monotonic()
    while True:
        try:
            node = await asking.coordinator_lookup(CoordinationType.TRANSACTION, transactional_id)
            answer = await asking.send(node, EndTxnRequest(transactional_id, NO_PRODUCER, NO_PRODUCER, False))
            error = for_code(answer.error_code)
            if not getattr(error, "retriable", False):
                return error is not TransactionalIdAuthorizationFailed
        except TransactionalIdAuthorizationFailed:
            return False
        except KafkaError as problem:  # the first transaction ever makes a broker create its internal topic
            if not getattr(problem, "retriable", False) or time.monotonic() - started > timeouts.ADMIN:
                raise
        if time.monotonic() - started > timeouts.ADMIN:
            return True  # the broker refuses later, where it has to
        await asyncio.sleep(RETRY_EVERY)
