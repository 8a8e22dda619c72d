"""A consumer group as its coordinator sees it, asked by aiokafka.

librdkafka's admin requests to a coordinator abort the process when the connection breaks under them (librdkafka's
issues 3663 and 4605); a worker starts exactly when brokers do.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import CoordinatorNotAvailableError, for_code
from aiokafka.protocol.admin import DescribeGroupsRequest_v3, DescribeGroupsResponse_v3
from aiokafka.structs import TopicPartition

ANSWER_WITHIN_MS = 5_000
UNTOLD = -(2**31)  # authorized operations where the broker does not say


DescribeGroupsRequest_v3.RESPONSE_TYPE = DescribeGroupsResponse_v3  # aiokafka 0.14.0 reads it as the one before


class Group(NamedTuple):
    members: list[list[TopicPartition]]  # what each member has been assigned
    operations: int  # a bit for each operation this client may do


def described(client: Mapping[str, Any], group: str) -> Group:
    """client: settings for aiokafka. Raises aiokafka's KafkaError; never call it inside an event loop."""
    return asyncio.run(_described({**client, "request_timeout_ms": ANSWER_WITHIN_MS}, group))


async def _described(client: Mapping[str, Any], group: str) -> Group:
    admin = AIOKafkaAdminClient(**client)
    try:
        await admin.start()
        (answer,) = await admin.describe_consumer_groups([group], include_authorized_operations=True)
    finally:
        await admin.close()
    error, _, _, _, _, members, operations = answer.groups[0]
    if error:
        raise for_code(error)(f"group {group}")
    return Group([_assigned(assignment) for *_, assignment in members], operations)


def committed(client: Mapping[str, Any], group: str, partitions: Sequence[Any]) -> dict[int, int]:
    """The group's next offset of each (topic, partition), by partition; 0 where none is committed. Raises as `described`."""
    return asyncio.run(_committed({**client, "request_timeout_ms": ANSWER_WITHIN_MS}, group, partitions))


async def _committed(client: Mapping[str, Any], group: str, partitions: Sequence[Any]) -> dict[int, int]:
    admin = AIOKafkaAdminClient(**client)
    try:
        await admin.start()
        wanted = [TopicPartition(one.topic, one.partition) for one in partitions]
        found = await admin.list_consumer_group_offsets(group, partitions=wanted) if wanted else {}
    finally:
        await admin.close()
    if len(found) < len(wanted):  # aiokafka does not look at an error of the whole answer
        raise CoordinatorNotAvailableError(f"group {group}")
    return {place.partition: max(0, held.offset) for place, held in found.items()}


def _assigned(assignment: bytes) -> list[TopicPartition]:
    if not assignment:
        return []
    topics = ConsumerProtocolMemberAssignment.decode(assignment).assignment
    return [TopicPartition(topic, partition) for topic, partitions in topics for partition in partitions]
