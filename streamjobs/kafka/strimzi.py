"""Topics and rights of a job as resources for Strimzi, which runs Kafka on Kubernetes (its API v1: release 0.49 or later).

Source: https://strimzi.io/docs/operators/latest/configuring
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from streamjobs.errors import ConfigError
from streamjobs.kafka.acls import Right
from streamjobs.kafka.topics import TopicPlan

API = "kafka.strimzi.io/v1"
_TYPES = {"topic": "topic", "group": "group", "transactional-id": "transactionalId"}
_PATTERNS = {"literal": "literal", "prefixed": "prefix"}
LONGEST = 253  # letters of a resource's name


def resources(cluster: str, plans: Sequence[TopicPlan], needed: Sequence[Right], replicas: int) -> dict[str, Any]:
    """A list of a KafkaTopic for each topic, and the KafkaUser with these rights, all of the same principal.

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
