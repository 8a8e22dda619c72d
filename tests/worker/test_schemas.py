"""A worker whose records wait for a schema: checkpoints and rebalances go on, nothing is applied, lost or acknowledged."""

import asyncio
import time
from http import HTTPStatus

import pytest

from streamjobs.worker.health import Health
from streamjobs.worker.metrics import Metrics
from tests.worker.fakes import Worker, stream, until


class Gate:
    """In place of a lookup; `open` lets records pass."""

    def __init__(self):
        self.open, self.waiting_since, self.problem = asyncio.Event(), time.monotonic() - 70.0, "records wait for a schema"

    async def ready(self, records):
        await self.open.wait()
        return list(records)


def test_records_wait_for_their_schema_and_are_applied_afterwards():
    async def body():
        worker, gate = Worker(), Gate()
        worker.delivery.ready = gate.ready
        delivery = await worker.begin(0)
        worker.fetch(0, stream(50))
        await asyncio.sleep(0.05)
        await delivery.held[0].checkpoints.take()
        assert delivery.partitions[0].next == 0 and not worker.broker.committed
        gate.open.set()
        await until(lambda: delivery.partitions[0].next == 50)
        await delivery.held[0].checkpoints.take()
        assert worker.broker.committed == {0: 50}

    asyncio.run(body())


def test_a_partition_is_given_away_while_its_records_wait():
    async def body():
        worker, gate = Worker(), Gate()
        worker.delivery.ready = gate.ready
        delivery = await worker.begin(0)
        worker.fetch(0, stream(50))
        await asyncio.sleep(0.05)
        delivery.raise_barrier()
        await asyncio.wait_for(delivery.revoke("test"), 30)
        assert delivery.failed is None and not worker.broker.committed and not delivery.held

    asyncio.run(body())


@pytest.mark.parametrize(("seconds", "healthy"), [(5.0, HTTPStatus.OK), (70.0, HTTPStatus.SERVICE_UNAVAILABLE)])
def test_ready_and_health_say_what_records_wait_for(seconds, healthy):
    async def body():
        metrics, gate = Metrics("in"), Gate()
        gate.waiting_since = time.monotonic() - seconds
        metrics.lookup = gate
        health = Health(metrics, state="running")
        status, told = health.ready()
        assert status == HTTPStatus.SERVICE_UNAVAILABLE and told["reason"].startswith("records wait for a schema, for ")
        assert health.answer()[0] == healthy
        metrics.lookup = None
        assert health.ready()[0] == HTTPStatus.OK and health.answer()[0] == HTTPStatus.OK

    asyncio.run(body())
