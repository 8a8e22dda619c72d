"""What this worker may not do and has to: asked of the broker before anything is consumed.

Without Read on its group a consumer idles for ever and says nothing; without Write on an output it would run on and
lose it. A broker without an authorizer allows everything; one that does not say is believed until it refuses.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from aiokafka.errors import GroupAuthorizationFailedError, KafkaError
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from streamjobs.shell import groups
from streamjobs.shell.topics import is_mock

ANSWER_WITHIN = 5.0  # seconds

NEEDED = {
    "input": (AclOperation.READ,),
    "state": (AclOperation.READ, AclOperation.WRITE),
    "output": (AclOperation.WRITE,),
}


def missing(admin: AdminClient, client: Mapping[str, Any], topics: Mapping[str, str], group: str) -> list[str]:
    """One sentence for each right that is missing. client: for aiokafka; topics: name -> input | state | output."""
    problems: list[str] = []
    with suppress(KafkaException, TimeoutError):  # a broker that does not say refuses where it has to
        if is_mock(admin):
            return []
        problems += _topics(admin, topics)
    with suppress(KafkaError, TimeoutError):
        problems += _group(client, group)
    return problems


def _topics(admin: AdminClient, topics: Mapping[str, str]) -> list[str]:
    asked = admin.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=ANSWER_WITHIN
    )
    problems = []
    for name, answer in asked.items():
        allowed = answer.result(ANSWER_WITHIN).authorized_operations
        role = topics[name]
        lacking = [needed.name.capitalize() for needed in NEEDED[role] if allowed and needed not in allowed]
        if lacking:
            problems.append(
                f"topic {name} ({role}): expected the right to {' and '.join(lacking)}, not granted; "
                "add it for this worker's principal."
            )
    return problems


def _group(client: Mapping[str, Any], group: str) -> list[str]:
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
        f"group {group}: expected the right to Read, not granted; without it no partition is ever assigned. "
        "Add it for this worker's principal."
    ]


def _allowed(operations: int) -> bool:
    return operations == groups.UNTOLD or bool(operations >> AclOperation.READ.value & 1)
