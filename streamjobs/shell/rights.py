"""What this worker may not do and has to: asked of the broker before anything is consumed.

Without Read on its group a consumer idles for ever and says nothing; without Write on an output it would run on and
lose it. A broker without an authorizer allows everything; one that does not say is believed until it refuses.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

ANSWER_WITHIN = 5.0  # seconds

LOOKING = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")

NEEDED = {
    "input": (AclOperation.READ,),
    "state": (AclOperation.READ, AclOperation.WRITE),
    "output": (AclOperation.WRITE,),
}


def missing(admin: AdminClient, topics: Mapping[str, str], group: str) -> list[str]:
    """One sentence for each right that is missing. topics: name -> input | state | output."""
    problems: list[str] = []
    with suppress(KafkaException, TimeoutError):  # a broker that does not say refuses where it has to
        problems += _topics(admin, topics)
    with suppress(KafkaException, TimeoutError):
        problems += _group(admin, group)
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


def _group(admin: AdminClient, group: str) -> list[str]:
    allowed = _operations(admin, group)
    if allowed is None or AclOperation.READ in allowed:
        return []
    return [
        f"group {group}: expected the right to Read, not granted; without it no partition is ever assigned. "
        "Add it for this worker's principal."
    ]


def _operations(admin: AdminClient, group: str) -> Any:
    """What is allowed on the group; None when the broker does not say. Its first group ever makes it look around a while."""
    begun = time.monotonic()
    while True:
        asked = admin.describe_consumer_groups([group], include_authorized_operations=True, request_timeout=ANSWER_WITHIN)
        try:
            return asked[group].result(ANSWER_WITHIN).authorized_operations or None
        except KafkaException as error:
            name = error.args[0].name()
            if name == "GROUP_AUTHORIZATION_FAILED":
                return ()
            if name not in LOOKING or time.monotonic() - begun > ANSWER_WITHIN:
                raise
        time.sleep(0.1)
