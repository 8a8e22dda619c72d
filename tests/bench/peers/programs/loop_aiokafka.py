"""aiokafka alone, with its batch API: what the client costs, without durable states.  BOOTSTRAP INPUT OUTPUT GROUP FOLDER"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from simple_job import SIZE, apply


async def main(bootstrap: str, source: str, sink: str, group: str, _: str) -> None:
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_bytes=16 << 20,
        max_partition_fetch_bytes=4 << 20,
        max_poll_records=5_000,
        fetch_max_wait_ms=100,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=0, max_batch_size=1 << 20
    )
    await consumer.start()
    await producer.start()
    states: dict[bytes, bytearray] = {}
    waiting: set[asyncio.Future] = set()
    clock, committed = asyncio.get_running_loop().time, 0.0
    while True:
        for tp, records in (await consumer.getmany(timeout_ms=250, max_records=5_000)).items():
            batch = producer.create_batch()
            for record in records:
                state = states.get(record.key)
                if state is None:
                    state = states[record.key] = bytearray(SIZE)
                value, at = apply(state, record.value)
                headers = [("streamjobs-id", f"{tp.topic}-{tp.partition}-{record.offset}".encode())]
                fields = {"key": record.key, "value": value, "timestamp": round(at * 1000), "headers": headers}
                if batch.append(**fields) is None:
                    waiting.add(await producer.send_batch(batch, sink, partition=tp.partition))
                    batch = producer.create_batch()
                    batch.append(**fields)
            waiting.add(await producer.send_batch(batch, sink, partition=tp.partition))
        if clock() - committed >= 1.0:
            for future in list(waiting):
                await future
            waiting.clear()
            await consumer.commit()
            committed = clock()


asyncio.run(main(*sys.argv[1:]))
