"""The request OffsetForLeaderEpoch, which aiokafka 0.14.0 lacks: where the records of a leader end in the present log.

A partition's leader epoch rises with each leader, and every batch has that of the leader that took it. If a node becomes
leader that lacks records (`unclean.leader.election.enable`), other records get their offsets, with a higher epoch. Then the
records of the epochs before end earlier than they were read.
"""

from collections.abc import Mapping
from typing import Any

from aiokafka.errors import IncompatibleBrokerVersion, KafkaError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Int16, Int32, Int64, Schema, String
from aiokafka.structs import TopicPartition

ANY_LEADER = -1
UNKNOWN = -1  # instead of an offset
_LATER = (3, 5, 6, 74, 75)  # codes: the node does not lead the partition, or not yet


class _Ends(Response):  # type: ignore[misc]
    API_KEY = 23
    API_VERSION = 2
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(("error_code", Int16), ("partition", Int32), ("leader_epoch", Int32), ("end_offset", Int64)),
                ),
            ),
        ),
    )


class _AskEnds(RequestStruct):  # type: ignore[misc]
    API_KEY = 23
    API_VERSION = 2
    RESPONSE_TYPE = _Ends
    SCHEMA = Schema(
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                ("partitions", Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32))),
            ),
        )
    )


class _Ask(Request[_AskEnds]):  # type: ignore[misc]
    API_KEY = 23

    def __init__(self, topics: list[Any]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_AskEnds]) -> _AskEnds:
        return request_struct_class(self._topics)


async def ends_of_epochs(client: Any, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The offset after the last record of these leader epochs and all before; UNKNOWN where the broker cannot tell.

    Partitions without a leader that answers are left out: ask again.
    """
    found, asked = dict[TopicPartition, int](), dict[int, dict[str, list[tuple[int, int, int]]]]()
    for (topic, number), epoch in epochs.items():
        node = client.cluster.leader_for_partition(TopicPartition(topic, number))
        if node is not None and node >= 0:
            asked.setdefault(node, {}).setdefault(topic, []).append((number, ANY_LEADER, epoch))
    for node, topics in asked.items():
        try:
            answer = await client.send(node, _Ask(list(topics.items())))
        except (IncompatibleBrokerVersion, NotImplementedError):  # a broker older than 2.1
            found.update({TopicPartition(topic, one[0]): UNKNOWN for topic, of in topics.items() for one in of})
            continue
        except KafkaError:
            continue
        for topic, partitions in answer.topics:
            for code, number, _, end in partitions:
                if code not in _LATER:
                    found[TopicPartition(topic, number)] = end if code == 0 else UNKNOWN
    if len(found) < len(epochs):
        client.force_metadata_update()
    return found
