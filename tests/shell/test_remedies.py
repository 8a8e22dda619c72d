"""What aiokafka gets wrong: a cluster that names no node yet, and a group routine that died."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import NodeNotReadyError

from streamjobs.shell import remedies
from streamjobs.shell.consumer import Thread
from streamjobs.shell.failures import DeliveryError


def test_a_cluster_that_names_no_node_yet_is_asked_again() -> None:
    async def lookup() -> None:
        remedies.apply()
        await AIOKafkaClient(bootstrap_servers="127.0.0.1:1").coordinator_lookup(0, "group")

    with pytest.raises(NodeNotReadyError) as raised:
        asyncio.run(lookup())
    assert raised.value.retriable


def test_a_dead_group_routine_fails_the_worker_and_an_ended_one_does_not() -> None:
    failed: list[BaseException] = []

    async def routine(problem: Exception | None) -> None:
        if problem is not None:
            raise problem

    async def run(problem: Exception | None) -> None:
        thread: Any = SimpleNamespace(
            parent_loop=asyncio.get_running_loop(), app=SimpleNamespace(delivery=SimpleNamespace(fail=failed.append))
        )
        task = asyncio.ensure_future(routine(problem))
        await asyncio.wait([task])
        Thread._coordination_ended(thread, task)
        await asyncio.sleep(0)

    asyncio.run(run(None))
    assert not failed
    asyncio.run(run(AssertionError("Did we not perform bootstrap?")))
    (error,) = failed
    assert isinstance(error, DeliveryError) and "Did we not perform bootstrap?" in str(error)
