"""The least rights a worker needs: listed, written as commands for kafka-acls.sh, or granted by the admin API.

Read and Write on a topic include Describe, which is listed all the same to be explicit. Since Kafka 2.8 Write on any topic
includes IdempotentWrite. `authorization` finds out which of them are missing.
"""

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType, ResourceType

from streamjobs.errors import ConfigError, SetupError
from streamjobs.kafka import client, timeouts, topics
from streamjobs.kafka.topics import TopicPlan
from streamjobs.settings.sections import Settings

API = "kafka.strimzi.io/v1"
_TYPES = {"topic": "topic", "group": "group", "transactional-id": "transactionalId"}
_PATTERNS = {"literal": "literal", "prefixed": "prefix"}
LONGEST = 253  # letters of a resource's name


class Right(NamedTuple):
    """What one principal may do with one resource."""

    principal: str
    resource: str  # topic | group | transactional-id
    name: str
    pattern: str  # literal | prefixed
    operations: tuple[str, ...]  # as kafka-acls.sh writes them
    role: str  # what the job does with it


def rights(settings: Settings, job_sinks: Mapping[str, str], principal: str) -> list[Right]:
    """Every right a worker of this job needs, and no other. job_sinks: sink -> topic (those that are on)."""
    name = settings.job.name
    source, of_input = settings.source, ["Read", "Describe"]
    needed = []
    if source.rekeyed:  # `streamjobs rekey` reads one topic, and writes the job's input
        of_input = ["Read", "Write", "Describe"]
        needed.append(Right(principal, "topic", source.base_topic, "literal", ("Read", "Describe"), "rekey"))
        needed.append(Right(principal, "group", source.topic, "literal", ("Read",), "rekey"))
        needed.append(Right(principal, "transactional-id", source.topic, "literal", ("Write", "Describe"), "rekey"))
    needed.append(Right(principal, "topic", source.topic, "literal", tuple(of_input), "input"))
    for sink, topic in job_sinks.items():
        needed.append(Right(principal, "topic", topic, "literal", ("Write", "Describe"), sink))
    changelog = topics.changelog(settings)
    needed.append(Right(principal, "topic", changelog, "literal", ("Read", "Write", "Describe"), "state"))
    needed.append(Right(principal, "group", name, "literal", ("Read",), "group"))
    # <job>-<partition>: one producer for each partition of the changelog
    needed.append(Right(principal, "transactional-id", f"{name}-", "prefixed", ("Write", "Describe"), "state"))
    return needed


def line(right: Right, bootstrap: str) -> str:
    """The command that grants a right; admin.properties holds an administrator's credentials."""
    words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--command-config", "admin.properties", "--add"]
    words += ["--allow-principal", right.principal]
    for operation in right.operations:
        words += ["--operation", operation]
    words += [f"--{right.resource}", right.name]
    if right.pattern != "literal":
        words += ["--resource-pattern-type", right.pattern]
    return shlex.join(words)


def bindings(needed: Sequence[Right]) -> list[AclBinding]:
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
        for right in needed
        for operation in right.operations
    ]


def grant(settings: Settings, needed: Sequence[Right]) -> None:
    """Create these rights at the broker. Raises SetupError where it does not answer or refuses."""
    admin = AdminClient(client.for_confluent(settings.broker))
    answers = admin.create_acls(bindings(needed), request_timeout=timeouts.GRANT)
    for binding, answer in answers.items():
        try:
            answer.result(timeouts.GRANT + 5)
        except (KafkaException, TimeoutError) as error:
            raise SetupError(
                f"broker {','.join(client.servers(settings.broker))}: the right of {binding.principal} on "
                f"{binding.name!r} could not be granted ({client.reason_of(error)}); granting needs the right Alter on the "
                "cluster, and a broker with an authorizer."
            ) from None


def resources(cluster: str, plans: Sequence[TopicPlan], needed: Sequence[Right], replicas: int) -> dict[str, Any]:
    """A list of a KafkaTopic for each topic, and the KafkaUser with these rights, all of the same principal.

    For Strimzi (its API v1: release 0.49 or later): https://strimzi.io/docs/operators/latest/configuring

    Raises ConfigError where the principal's name cannot be the name of a resource.
    """
    kind, _, user = needed[0].principal.partition(":")
    if kind != "User" or user != resource_name(user):
        raise ConfigError(
            "--principal: the name of a KafkaUser has small letters, digits, '-' and '.', such as User:wrist; got "
            f"{needed[0].principal!r}."
        )
    labels = {"strimzi.io/cluster": cluster}
    items = [
        {
            "apiVersion": API,
            "kind": "KafkaTopic",
            "metadata": {"name": resource_name(one.name), "labels": labels},
            "spec": {"topicName": one.name, "partitions": one.partitions, "replicas": replicas, "config": one.config},
        }
        for one in plans
    ]
    acls = [
        {
            "resource": {"type": _TYPES[right.resource], "name": right.name, "patternType": _PATTERNS[right.pattern]},
            "operations": list(right.operations),
            "host": "*",
        }
        for right in needed
    ]
    spec = {"authentication": {"type": "scram-sha-512"}, "authorization": {"type": "simple", "acls": acls}}
    items.append({"apiVersion": API, "kind": "KafkaUser", "metadata": {"name": user, "labels": labels}, "spec": spec})
    return {"apiVersion": "v1", "kind": "List", "items": items}


def resource_name(topic: str) -> str:
    """A name that Kubernetes takes; of a topic that it does not take, a similar one with a hash of the topic's.

    >>> resource_name("imu.features"), resource_name("Imu_raw")
    ('imu.features', 'imu-raw-8970d6db')
    """
    name = re.sub(r"[^a-z0-9.-]+", "-", topic.lower()).strip("-.")[: LONGEST - 9].rstrip("-.") or "topic"
    name = re.sub(r"\.-+|-+\.|\.{2,}", ".", name)
    return name if name == topic else f"{name}-{hashlib.sha256(topic.encode()).hexdigest()[:8]}"
