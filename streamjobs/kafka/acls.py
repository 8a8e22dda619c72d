"""The least rights a worker needs, as lines for kafka-acls.sh or made by the admin API.

Read on a topic includes Describe, and so does Write; both are stated, so that nobody has to know. Since Kafka 2.8
Write on any topic includes the right to write without repeats (IdempotentWrite).
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from streamjobs.errors import SetupError
from streamjobs.kafka import client, topics
from streamjobs.settings.sections import Settings

ANSWER_WITHIN = 10.0  # seconds


class Right(NamedTuple):
    """What one principal may do with one resource."""

    principal: str
    resource: str  # topic | group | transactional-id
    name: str
    pattern: str  # literal | prefixed
    operations: tuple[str, ...]  # as kafka-acls.sh writes them
    role: str  # what the job does with it


def rights(settings: Settings, job_sinks: Mapping[str, str], principal: str) -> list[Right]:
    """All that a worker of this job needs, and nothing else. job_sinks: sink -> topic (those that are on)."""
    name = settings.job.name
    found = [Right(principal, "topic", settings.source.topic, "literal", ("Read", "Describe"), "input")]
    for sink, topic in job_sinks.items():
        found.append(Right(principal, "topic", topic, "literal", ("Write", "Describe"), sink))
    changelog = topics.changelog(settings)
    found.append(Right(principal, "topic", changelog, "literal", ("Read", "Write", "Describe"), "state"))
    found.append(Right(principal, "group", name, "literal", ("Read",), "group"))
    # <job>-<partition>: one producer for each partition of the changelog
    found.append(Right(principal, "transactional-id", f"{name}-", "prefixed", ("Write", "Describe"), "state"))
    return found


def line(right: Right, bootstrap: str) -> str:
    """A command that grants it; admin.properties holds an administrator's credentials."""
    words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--command-config", "admin.properties", "--add"]
    words += ["--allow-principal", right.principal]
    for operation in right.operations:
        words += ["--operation", operation]
    words += [f"--{right.resource}", right.name]
    if right.pattern != "literal":
        words += ["--resource-pattern-type", right.pattern]
    return shlex.join(words)


def bindings(found: Sequence[Right]) -> list[AclBinding]:
    """For the admin API."""
    return [
        AclBinding(
            ResourceType[right.resource.upper().replace("-", "_")],
            right.name,
            ResourcePatternType[right.pattern.upper()],
            right.principal,
            "*",
            AclOperation[operation.upper()],
            AclPermissionType.ALLOW,
        )
        for right in found
        for operation in right.operations
    ]


def grant(settings: Settings, found: Sequence[Right]) -> None:
    """Make them. Raises SetupError where the broker does not answer or refuses."""
    admin = AdminClient(client.for_confluent(settings.broker))
    answers = admin.create_acls(bindings(found), request_timeout=ANSWER_WITHIN)
    for binding, answer in answers.items():
        try:
            answer.result(ANSWER_WITHIN + 5)
        except (KafkaException, TimeoutError) as error:
            raise SetupError(
                f"broker {','.join(client.servers(settings.broker))}: the right of {binding.principal} on "
                f"{binding.name!r} could not be granted ({client.reason_of(error)}); it takes Alter on the cluster, and "
                "an authorizer."
            ) from None
