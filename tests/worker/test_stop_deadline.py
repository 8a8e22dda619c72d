"""A worker with brokers that never answer its last checkpoint."""

import asyncio
from types import SimpleNamespace

import pytest

from streamjobs.worker import run
from streamjobs.worker.failures import TimeoutAtStop
from streamjobs.worker.health import Health
from tests.worker.fakes import Worker, stream, until


def test_a_stop_that_its_deadline_ends_names_the_brokers_and_not_a_library(monkeypatch):
    monkeypatch.setattr(run, "STOP_WITHIN", 0.05)

    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        worker.kafka.out.hold = True
        worker.fetch(0, stream(10))
        await worker.settle()
        partition = delivery.held[0].partition
        partition.due.set()
        await until(lambda: partition._cut_since is not None)
        running = run._Worker(None, None, delivery.metrics, Health(delivery.metrics), None)
        delivery.raise_barrier()
        try:
            await running._stop(SimpleNamespace(stop=lambda: delivery.revoke("stop"), delivery=delivery), None)
        finally:
            running.last_resort.cancel()

    with pytest.raises(TimeoutAtStop, match="check that the brokers are up"):
        asyncio.run(body())
