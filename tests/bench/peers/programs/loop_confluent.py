"""confluent-kafka alone: what librdkafka costs from Python, without durable states.  BOOTSTRAP INPUT OUTPUT GROUP FOLDER"""

import sys
import time

from confluent_kafka import Consumer, Producer
from simple_job import SIZE, apply

bootstrap, source, sink, group, _ = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.queue.backoff.ms": 2,
        "fetch.wait.max.ms": 100,
    }
)
settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "batch.size": 1 << 20}
producer = Producer(settings | {"queue.buffering.max.messages": 1_000_000})
consumer.subscribe([source])
states: dict[bytes, bytearray] = {}
committed = time.monotonic()
while True:
    for message in consumer.consume(500, 0.002):
        key = message.key()
        state = states.get(key)
        if state is None:
            state = states[key] = bytearray(SIZE)
        value, at = apply(state, message.value())
        name = f"{source}-{message.partition()}-{message.offset()}".encode()
        headers = [("streamjobs-id", name)]
        producer.produce(sink, value, key, message.partition(), timestamp=round(at * 1000), headers=headers)
    producer.poll(0)
    if time.monotonic() - committed >= 1.0:
        producer.flush()
        if states:
            consumer.commit(asynchronous=False)
        committed = time.monotonic()
