"""A consumer group's members, rights and offsets, asked of its coordinator by aiokafka.

librdkafka is not used: its admin requests to a coordinator abort the process when the connection breaks under them
(librdkafka's issues 3663 and 4605), and workers often start together with the brokers.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import CoordinatorNotAvailableError, for_code
from aiokafka.protocol.admin import DescribeGroupsRequest_v3, DescribeGroupsResponse_v3
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from streamjobs.kafka import timeouts

UNKNOWN_OPERATIONS = -(2**31)  # where the broker does not report authorized operations

DescribeGroupsRequest_v3.RESPONSE_TYPE = DescribeGroupsResponse_v3  # aiokafka 0.14.0 has version 2's here


class Group(NamedTuple):
    members: list[list[TopicPartition]]  # each member's assignment
    operations: int  # a bit for each operation this client is authorized for, or UNKNOWN_OPERATIONS
    names: list[dict[str, str]]  # each member's id, client and host


def described(client: Mapping[str, Any], group: str) -> Group:
    """client: settings of aiokafka's clients. Raises aiokafka's KafkaError. Never call it inside an event loop."""
    return asyncio.run(_described(_impatient(client), group))


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
    names = [{"member": one[0], "client": one[1], "host": one[2].removeprefix("/")} for one in members]
    return Group([_assigned(assignment) for *_, assignment in members], operations, names)


def committed(client: Mapping[str, Any], group: str, partitions: Sequence[Any]) -> dict[int, int]:
    """The group's next offset of each (topic, partition), by partition; 0 where none is committed. Raises as `described`."""
    return asyncio.run(_committed(_impatient(client), group, partitions))


async def _committed(client: Mapping[str, Any], group: str, partitions: Sequence[Any]) -> dict[int, int]:
    admin = AIOKafkaAdminClient(**client)
    try:
        await admin.start()
        wanted = [TopicPartition(one.topic, one.partition) for one in partitions]
        offsets = await admin.list_consumer_group_offsets(group, partitions=wanted) if wanted else {}
    finally:
        await admin.close()
    if len(offsets) < len(wanted):  # aiokafka ignores an error of the whole answer
        raise CoordinatorNotAvailableError(f"group {group}")
    return {place.partition: max(0, committed.offset) for place, committed in offsets.items()}


def commits(client: Mapping[str, Any], group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Everything that the group has committed, of any topic. Raises as `described`."""
    return asyncio.run(_commits(_impatient(client), group))


async def _commits(client: Mapping[str, Any], group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    admin = AIOKafkaAdminClient(**client)
    try:
        await admin.start()
        return await _all_of(admin, group)
    finally:
        await admin.close()


def readers_of(client: Mapping[str, Any], topic: str) -> list[str]:
    """The groups with offsets in a topic, of those that this client may see. Raises as `described`."""
    return asyncio.run(_readers_of(_impatient(client), topic))


async def _readers_of(client: Mapping[str, Any], topic: str) -> list[str]:
    admin = AIOKafkaAdminClient(**client)
    try:
        await admin.start()
        names = sorted({name for name, _ in await admin.list_consumer_groups()})
        return [name for name in names if any(place.topic == topic for place in await _all_of(admin, name))]
    finally:
        await admin.close()


async def _all_of(admin: Any, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    coordinator = await admin.find_coordinator(group)
    answer = await admin._send_request(OffsetFetchRequest(group, None), coordinator)
    if answer.error_code:  # `list_consumer_group_offsets` ignores it
        raise for_code(answer.error_code)(f"group {group}")
    found = {}
    for topic, partitions in answer.topics:
        for partition, offset, metadata, error in partitions:
            if error:
                raise for_code(error)(f"group {group}, {topic}[{partition}]")
            found[TopicPartition(topic, partition)] = OffsetAndMetadata(offset, metadata)
    return found


def _impatient(client: Mapping[str, Any]) -> dict[str, Any]:
    return {**client, "request_timeout_ms": round(1000 * timeouts.ADMIN)}


def _assigned(assignment: bytes) -> list[TopicPartition]:
    if not assignment:
        return []
    topics = ConsumerProtocolMemberAssignment.decode(assignment).assignment
    return [TopicPartition(topic, partition) for topic, partitions in topics for partition in partitions]
