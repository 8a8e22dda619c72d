"""Where leader epochs end: what is asked of which node, and what each answer gives. A broker: test_replaced_records.py."""

import asyncio
from types import SimpleNamespace
from typing import Any

from aiokafka.errors import IncompatibleBrokerVersion, NodeNotReadyError
from aiokafka.structs import TopicPartition

from streamjobs.kafka.patches.epochs import UNKNOWN, ends_of_epochs

LEADERS = {0: 1, 1: 1, 2: 2, 3: 3, 4: None, 5: 1}


class Client:
    """Nodes 2 and 3 raise; node 1 says that it does not lead partition 1, and that it knows no epoch of partition 5."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace(leader_for_partition=lambda place: LEADERS[place.partition])
        self.asked: list[Any] = []
        self.refreshed = 0

    async def send(self, node: int, request: Any) -> Any:
        if node > 1:
            raise IncompatibleBrokerVersion() if node == 2 else NodeNotReadyError()
        sent = request.prepare({23: (2, 4)})
        self.asked += sent.topics
        answer = sent.RESPONSE_TYPE(0, [("in", [(0, 0, 7, 40), (6, 1, -1, -1), (0, 5, -1, -1)])])
        return sent.RESPONSE_TYPE.decode(answer.encode())

    def force_metadata_update(self) -> None:
        self.refreshed += 1


def test_a_partition_without_an_answer_is_left_out_and_asked_again_with_new_metadata() -> None:
    client = Client()
    found = asyncio.run(ends_of_epochs(client, {TopicPartition("in", number): 7 + number for number in LEADERS}))
    assert found == {TopicPartition("in", 0): 40, TopicPartition("in", 2): UNKNOWN, TopicPartition("in", 5): UNKNOWN}
    assert client.asked == [("in", [(0, -1, 7), (1, -1, 8), (5, -1, 12)])] and client.refreshed == 1
