"""The demo's recordings again and again, in real time, to a broker of yours."""

import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence

from streamjobs.core.messages import Stored
from streamjobs.demo.job import demo_job
from streamjobs.demo.player import key_of
from streamjobs.demo.recordings import PAUSE, Sample, samples
from streamjobs.job_files import broker_of
from streamjobs.kafka import topics
from streamjobs.kafka.send import Sender

LOOK_EVERY = 0.1  # seconds, whether it is to stop


def feed(url: str, seconds: float | None) -> int:
    """Send until `seconds` have passed (None: until SIGTERM or Ctrl-C); gives the number of records the broker has.

    Creates the topics of the demo's job where they are missing. Credentials come from the environment, as a worker's do.
    Raises SetupError where the broker does not answer, SendError where it refuses a record.
    """
    broker_of(url, "--feed")  # so that a wrong url is one of the option
    job = demo_job({**os.environ, "STREAMJOBS_BROKER__URL": url})
    topics.create(job.settings, partitions=None, job_sinks=job.sinks, state_bytes=job.state_bytes)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    sender = Sender(job.settings.broker, job.settings.source.topic)
    sender.send(_in_time(sender, stopping, seconds), stamped=False, progress=lambda sent, acknowledged: None)
    return sender.acknowledged


def _in_time(sender: Sender, stopping: threading.Event, seconds: float | None) -> Iterator[Stored]:
    """Each sample at its time, with it as `ts`, until it is to stop or `seconds` have passed."""
    begun, started = time.time(), time.monotonic()
    for number, (at, sample) in enumerate(endless(samples())):
        while (passed := time.monotonic() - started) < at and not stopping.is_set():
            if seconds is not None and passed >= seconds:
                return
            sender.wait_until(started + min(at, passed + LOOK_EVERY))
        if stopping.is_set():
            return
        value = json.dumps({**sample.body, "ts": round(begun + at, 3)}).encode()
        yield Stored(sender.topic, 0, number, 0, key_of(sample.person).encode(), value)


def endless(played: Sequence[Sample]) -> Iterator[tuple[float, Sample]]:
    """All samples again and again, each with its seconds since the start."""
    length = played[-1].at + PAUSE
    for turn in itertools.count():
        for sample in played:
            yield turn * length + sample.at, sample
