"""The consumer between two rebalances: partitions that are taken away while it is busy with them."""

import asyncio
from types import SimpleNamespace
from typing import Any

from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.structs import TopicPartition
from faust.types import TP

from streamjobs.worker.consumer import Consumer

PARTITIONS = {0, 1, 2}


class Delivery:
    """What the consumer asks of `streamjobs.worker.delivery.Delivery`."""

    def __init__(self) -> None:
        self.barrier, self.failed = False, None
        self.started: list[dict[int, int]] = []

    def raise_barrier(self) -> None:
        self.barrier = True

    def lower_barrier(self) -> None:
        self.barrier = False

    def assign(self, starts: dict[int, int], progress: dict[int, int]) -> bool:
        self.started.append(starts)
        return True

    def fail(self, error: BaseException) -> None:
        self.failed = error


class Rebalancing(Consumer):  # type: ignore[misc]
    """On aiokafka's own record of what is assigned; `lost` is taken away while the offsets to start at are asked for."""

    def __init__(self) -> None:
        self.subscription, self.lost = SubscriptionState(), set[int]()
        self.subscription.subscribe({"in"})
        self.give(PARTITIONS)
        self._thread = SimpleNamespace(
            seek_wait=self._seek_in_thread, _consumer=SimpleNamespace(_subscription=self.subscription)
        )
        self._fetching, self.fetched_to, self.flow_active = asyncio.Lock(), {}, True
        self._progress: dict[int, int] = {}
        self._committed_offset, self._read_offset = {}, {}
        self.app: Any = SimpleNamespace(delivery=Delivery(), source="in", waiting=frozenset())

    def give(self, numbers: set[int]) -> None:
        self.subscription.assign_from_subscribed([TopicPartition("in", number) for number in numbers])

    async def _start_offsets(self) -> dict[TP, int]:
        starts = {TP("in", one.partition): 7 for one in self.subscription.assigned_partitions()}
        self.give({tp.partition for tp in starts} - self.lost)
        return starts

    async def _seek_in_thread(self, starts: dict[TP, int]) -> None:
        for tp, offset in starts.items():
            self.subscription.seek(TopicPartition(*tp), offset)


def test_a_partition_that_is_taken_away_while_the_input_begins_waits_for_the_next_rebalance() -> None:
    async def taken_away() -> None:
        consumer = Rebalancing()
        delivery, consumer.lost = consumer.app.delivery, {1}
        await consumer.perform_seek()
        assert delivery.barrier and not delivery.started and delivery.failed is None
        await consumer.perform_seek()  # as the recovery after the next rebalance does
        assert delivery.started == [{0: 7, 2: 7}] and not delivery.barrier

    asyncio.run(taken_away())


def test_the_end_of_a_partition_that_was_taken_away_is_unknown() -> None:
    async def asked() -> None:
        consumer = Rebalancing()
        consumer.subscription.subscription.assignment.state_value(TopicPartition("in", 1)).highwater = 9
        assert consumer.highwater(TP("in", 1)) == 9
        consumer.give({0, 2})
        assert consumer.highwater(TP("in", 1)) == 0

    asyncio.run(asked())
