"""Quix Streams: a stateful apply with a changelog, a commit a second.  BOOTSTRAP INPUT OUTPUT GROUP FOLDER"""

import sys
from typing import Any

from quixstreams import Application
from simple_job import SIZE, apply

bootstrap, source, sink, group, folder = sys.argv[1:]
app = Application(
    broker_address=bootstrap,
    consumer_group=group,
    auto_offset_reset="earliest",
    commit_interval=1.0,
    state_dir=folder,
    loglevel="ERROR",
    producer_extra_config={"linger.ms": 1, "batch.size": 1 << 20, "enable.idempotence": True},
    consumer_extra_config={"fetch.queue.backoff.ms": 2, "fetch.wait.max.ms": 100},
)
into = app.topic(source, value_deserializer="bytes", key_deserializer="bytes")
out = app.topic(sink, value_serializer="bytes", key_serializer="bytes")


def answer(value: bytes, state: Any) -> bytes:
    held = bytearray(state.get_bytes("state", b"") or SIZE)
    made, _ = apply(held, value)
    state.set_bytes("state", bytes(held))
    return made


app.dataframe(into).apply(answer, stateful=True).to_topic(out)
app.run()
