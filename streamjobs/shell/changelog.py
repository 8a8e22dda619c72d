"""The changelog of one partition, written in transactions by a fenced producer of its own.

Only the worker that opened the producer last can write: a frozen worker that wakes up after losing the partition is
refused by the broker, whatever it believes. A transaction is one checkpoint: all its snapshots count, or none.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    IllegalOperation,
    InvalidProducerEpoch,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerClosed,
    ProducerFenced,
    UnknownProducerId,
)

from streamjobs.shell.failures import DeliveryError, FencedError
from streamjobs.shell.producing import BATCH_BYTES, patient, send_records

CLOSE_WITHIN = 5.0  # seconds; a producer that lost its broker would wait for ever

_FENCED = (ProducerFenced, InvalidProducerEpoch, UnknownProducerId, IllegalOperation, ProducerClosed)


class Changelog:
    """Open it before the changelog and the committed offset are read: opening ends what the previous owner left open."""

    def __init__(self, client: Mapping[str, Any], name: str, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self._producer = patient(
            AIOKafkaProducer(**client, transactional_id=f"{name}-{partition}", max_batch_size=BATCH_BYTES)
        )

    async def open(self) -> None:
        """Raises DeliveryError when the broker refuses the transactional id."""
        try:
            await self._producer.start()
            await self._producer.begin_transaction()
        except KafkaError as error:
            raise DeliveryError(
                f"topic {self.topic}[{self.partition}]: cannot open the changelog for writing "
                f"({type(error).__name__}: {error}). See that this worker may use transactional ids of this job."
            ) from error

    async def write(self, snapshots: Sequence[tuple[bytes, bytes | None]]) -> int:
        """One transaction of snapshots; gives the changelog offset it reaches, the one of its commit marker.

        Raises FencedError when another worker took the partition over, DeliveryError when the broker refuses; nothing
        was written then.
        """
        producer = self._producer
        try:
            sent = await send_records(
                producer, self.topic, self.partition, (("state", key, data, None, []) for key, data in snapshots)
            )
            last = -1
            for batch in sent:
                last = max(last, (await batch.acknowledged).offset + batch.records - 1)  # its first record's offset
            await producer.commit_transaction()
            await producer.begin_transaction()
        except _FENCED as error:
            raise FencedError(
                f"topic {self.topic}[{self.partition}]: another worker has taken this partition over "
                f"({type(error).__name__}). Its last changes here were not written; the other one has them all."
            ) from error
        except MessageSizeTooLargeError as error:
            largest = max(len(data or b"") for _, data in snapshots)
            raise DeliveryError(
                f"topic {self.topic}[{self.partition}]: the broker refused snapshots of up to {largest} bytes as too "
                "large. Raise the topic's max.message.bytes, or lower budget, rank or dimension, then start again."
            ) from error
        except KafkaError as error:
            raise DeliveryError(
                f"topic {self.topic}[{self.partition}]: the broker refused snapshots ({type(error).__name__}: {error}). "
                "Their input is not acknowledged and will be read again."
            ) from error
        return last + 1  # only this producer writes here, so the marker follows its last record

    async def close(self) -> None:
        """Never raises: what was open is resolved by whoever opens it next."""
        with suppress(Exception):
            await asyncio.wait_for(self._producer.stop(), CLOSE_WITHIN)
