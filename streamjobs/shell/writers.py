"""Whether this worker may open the fenced producers of its changelog; asked without opening one, which would fence."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka.client import AIOKafkaClient, CoordinationType
from aiokafka.errors import KafkaError, TransactionalIdAuthorizationFailed, for_code
from aiokafka.protocol.transaction import EndTxnRequest

ANSWER_WITHIN = 5.0  # seconds
NOBODY = -1  # as producer id: no transaction is that producer's, so none is ended


def refused(client: Mapping[str, Any], ids: Iterable[str]) -> list[str]:
    """Those of the transactional ids it may not write with. client: settings for aiokafka.

    Raises aiokafka's KafkaError; never call it inside an event loop.
    """
    return asyncio.run(_refused(client, list(ids)))


async def _refused(client: Mapping[str, Any], ids: list[str]) -> list[str]:
    asking = AIOKafkaClient(**client)
    await asking.bootstrap()
    try:
        return [one for one in ids if not await _may_write(asking, one)]
    finally:
        await asking.close()


async def _may_write(asking: AIOKafkaClient, transactional_id: str) -> bool:
    """Rights are looked at before anything else: who may write hears that the producer is unknown."""
    begun = time.monotonic()
    while True:
        try:
            node = await asking.coordinator_lookup(CoordinationType.TRANSACTION, transactional_id)
            answer = await asking.send(node, EndTxnRequest(transactional_id, NOBODY, NOBODY, False))
            error = for_code(answer.error_code)
            if not getattr(error, "retriable", False):
                return error is not TransactionalIdAuthorizationFailed
        except TransactionalIdAuthorizationFailed:
            return False
        except KafkaError as problem:  # the first transaction ever makes a broker look around a while
            if not getattr(problem, "retriable", False) or time.monotonic() - begun > ANSWER_WITHIN:
                raise
        if time.monotonic() - begun > ANSWER_WITHIN:
            return True  # it refuses later where it has to
        await asyncio.sleep(0.1)
