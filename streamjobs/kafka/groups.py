"""A consumer group's members, rights and offsets, asked of its coordinator by aiokafka.

librdkafka is not used: its admin requests to a coordinator abort the process when the connection breaks under them
(librdkafka's issues 3663 and 4605), and workers often start together with the brokers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import CoordinatorNotAvailableError, for_code
from aiokafka.protocol.admin import DescribeGroupsRequest_v3, DescribeGroupsResponse_v3
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from streamjobs.kafka import timeouts

T = TypeVar("T")
UNKNOWN_OPERATIONS = -(2**31)  # where the broker does not report authorized operations

DescribeGroupsRequest_v3.RESPONSE_TYPE = DescribeGroupsResponse_v3  # aiokafka 0.14.0 has version 2's here


class Group(NamedTuple):
    members: list[list[TopicPartition]]  # each member's assignment
    operations: int  # a bit for each operation this client is authorized for, or UNKNOWN_OPERATIONS
    names: list[dict[str, str]]  # each member's id, client and host


def _asked(client: Mapping[str, Any], question: Callable[[Any], Awaitable[T]]) -> T:
    """What an admin client of aiokafka answers. client: its settings. Raises KafkaError. Never call it in an event loop."""

    if not logging.root.handlers:  # Python would print aiokafka's lines, and the error names the problem
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

    async def ask() -> T:
        admin = AIOKafkaAdminClient(**{**client, "request_timeout_ms": round(1000 * timeouts.ADMIN)})
        try:
            await admin.start()
            return await question(admin)
        finally:
            await admin.close()

    return asyncio.run(ask())


def described(client: Mapping[str, Any], group: str) -> Group:
    """client: settings of aiokafka's clients. Raises aiokafka's KafkaError. Never call it inside an event loop."""

    return _asked(client, lambda admin: description(admin, group))


async def description(admin: Any, group: str) -> Group:
    (answer,) = await admin.describe_consumer_groups([group], include_authorized_operations=True)
    error, _, _, _, _, members, operations = answer.groups[0]
    if error:
        raise for_code(error)(f"group {group}")
    names = [{"member": one[0], "client": one[1], "host": one[2].removeprefix("/")} for one in members]
    return Group([_assigned(assignment) for *_, assignment in members], operations, names)


def committed(client: Mapping[str, Any], group: str, partitions: Sequence[Any]) -> dict[int, int]:
    """The group's next offset of each (topic, partition), by partition; 0 where none is committed. Raises as `described`."""
    wanted = [TopicPartition(one.topic, one.partition) for one in partitions]

    async def question(admin: Any) -> dict[int, int]:
        offsets = await admin.list_consumer_group_offsets(group, partitions=wanted) if wanted else {}
        if len(offsets) < len(wanted):  # aiokafka ignores an error of the whole answer
            raise CoordinatorNotAvailableError(f"group {group}")
        return {place.partition: max(0, committed.offset) for place, committed in offsets.items()}

    return _asked(client, question)


def ends_of_epochs(client: Mapping[str, Any], epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """See `patches.epochs`. Raises as `described`."""
    from streamjobs.kafka.patches import epochs as of_leaders

    async def question(admin: Any) -> dict[TopicPartition, int]:
        await admin._client.set_topics([place.topic for place in epochs])
        return await of_leaders.ends_of_epochs(admin._client, epochs)

    return _asked(client, question)


def commits(client: Mapping[str, Any], group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Everything that the group has committed, of any topic. Raises as `described`."""
    return _asked(client, lambda admin: all_commits(admin, group))


def readers_of(client: Mapping[str, Any], topic: str) -> list[str]:
    """The groups with offsets in a topic, of those that this client may see. Raises as `described`."""

    async def question(admin: Any) -> list[str]:
        names = sorted({name for name, _ in await admin.list_consumer_groups()})
        return [name for name in names if any(place.topic == topic for place in await all_commits(admin, name))]

    return _asked(client, question)


async def all_commits(admin: Any, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
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


def _assigned(assignment: bytes) -> list[TopicPartition]:
    if not assignment:
        return []
    topics = ConsumerProtocolMemberAssignment.decode(assignment).assignment
    return [TopicPartition(topic, partition) for topic, partitions in topics for partition in partitions]
