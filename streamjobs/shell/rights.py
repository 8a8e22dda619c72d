"""What this worker may not do and has to: asked of the broker before anything is consumed.

Without Read on its group a consumer idles for ever and says nothing; without Write on an output it would run on and
lose it. A broker without an authorizer allows everything; one that does not say is believed until it refuses.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from aiokafka.errors import GroupAuthorizationFailedError, KafkaError
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from streamjobs.shell import groups, writers
from streamjobs.shell.client import forbidden
from streamjobs.shell.topics import PRINTED, is_mock, lacking_right

ANSWER_WITHIN = 5.0  # seconds

NEEDED = {
    "input": (AclOperation.READ,),
    "state": (AclOperation.READ, AclOperation.WRITE),
    "output": (AclOperation.WRITE,),
}


def missing(
    admin: AdminClient,
    client: Mapping[str, Any],
    topics: Mapping[str, str],
    group: str,
    writers: Sequence[str] = (),
    principal: str = "this worker's principal",
) -> list[str]:
    """One sentence for each right that is missing.

    client: for aiokafka; topics: name -> input | state | output; writers: transactional ids.
    """
    problems: list[str] = []
    with suppress(KafkaException, TimeoutError):  # a broker that does not say refuses where it has to
        if is_mock(admin):
            return []
        problems += _topics(admin, topics, principal)
    with suppress(KafkaError, TimeoutError):
        problems += _group(client, group, principal)
    with suppress(KafkaError, TimeoutError):
        problems += _writers(client, writers, principal)
    return problems


def _topics(admin: AdminClient, topics: Mapping[str, str], principal: str) -> list[str]:
    asked = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=ANSWER_WITHIN
    )
    problems = []
    for name, answer in asked.items():
        role = topics[name]
        try:
            allowed = answer.result(ANSWER_WITHIN).authorized_operations
        except KafkaException as error:
            if not forbidden(error):
                raise
            allowed = [AclOperation.UNKNOWN]  # not even to see it
        lacking = [needed.name.capitalize() for needed in NEEDED[role] if allowed and needed not in allowed]
        if lacking:
            problems.append(lacking_right(name, role, " and ".join(lacking), principal))
    return problems


def _writers(client: Mapping[str, Any], ids: Sequence[str], principal: str) -> list[str]:
    lacking = writers.refused(client, ids)
    if not lacking:
        return []
    which = lacking[0] if len(lacking) == 1 else f"{lacking[0]} to {lacking[-1]}"
    return [
        f"transactional id {which}: expected the right to Write, not granted to {principal}; without it no state can be "
        f"stored. {PRINTED[0].upper()}{PRINTED[1:]}"
    ]


def _group(client: Mapping[str, Any], group: str, principal: str) -> list[str]:
    """The first group ever makes a broker look around a while."""
    begun = time.monotonic()
    while True:
        try:
            found = groups.described(client, group)
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
