"""Batches that unpack to gigabytes: the worker's memory stays what it is, and all around them is learned."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.kafka_job import KafkaJob
from tests.brokers.load import START
from tests.brokers.workers import running_worker
from tests.commands.jobs import command
from tests.kafka.batches import PACK, batch, packed, records

MB = 1 << 20
BOMB = 160 * MB  # of zeros, in each
MEMORY = 300 * MB  # the worker may take beside what it has when ready; without bounds a bomb takes three times BOMB or more
EACH = 3  # records of a batch
LARGE = 12 * MB  # a value that unpacks, beyond max_bytes and beyond what its topic takes uncompressed


class Made:
    """Batches to send, and what must come of them."""

    def __init__(self) -> None:
        self.batches: list[tuple[bytes, int]] = []
        self.samples = self.offset = 0
        self.unread: list[tuple[bytes, bytes]] = []  # value and offsets of each letter

    def _add(self, data: bytes, count: int) -> None:
        self.batches.append((data, count))
        self.offset += count

    def good(self, codec: str) -> None:
        values = [json.dumps(sample(self.samples + n)).encode() for n in range(EACH)]
        self._add(packed(values, codec, time=round(1000 * START)), EACH)
        self.samples += EACH

    def bad(self, data: bytes) -> None:
        self.unread.append((data, b"%d-%d" % (self.offset, self.offset + EACH - 1)))
        self._add(data, EACH)

    def large(self) -> None:
        self._add(packed([bytes(LARGE)], "zstd"), 1)


def sample(n: int) -> dict[str, Any]:
    return {"x": [n / 10, 1.0, 0.5, -n / 20], "ts": START + n}


def made() -> Made:
    found = Made()
    bomb = records([b"{}", bytes(BOMB), b"{}"], b"p1")
    for codec, pack in PACK.items():
        found.good(codec)
        found.bad(batch(pack(bomb), EACH, codec))
    found.good("none")
    found.large()
    found.good("zstd")
    return found


async def send(job: KafkaJob, batches: list[tuple[bytes, int]]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=job.bootstrap) as producer:
        for data, count in batches:
            one = producer.create_batch()
            one._buffer, one._relative_offset = data, count
            one.close()
            await (await producer.send_batch(one, job.input, partition=0))


def peak(pid: int) -> int:
    """Most memory a process has had, bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(text.partition("VmHWM:")[2].split()[0])


def test_bombs_of_every_codec_are_dead_letters_and_hold_nothing_up(make_job: MakeJob, capsys: Any) -> None:
    job = make_job("bombs", **LEARNING)
    job.alter(job.input, "max.message.bytes", str(16 * MB))  # snappy packs 160 MB to no less than 8
    want = made()
    with running_worker(job) as worker:
        before = peak(worker.pid)
        asyncio.run(send(job, want.batches))
        job.wait_until_done([worker])
        took = peak(worker.pid) - before
        assert worker.stop() == 0
    with capsys.disabled():
        print(f"memory: {before / MB:.0f} MB when ready, at most {took / MB:.0f} MB more")
    assert took < MEMORY
    letters = job.sink("dlq")
    reasons = Counter(dict(one.headers())["streamjobs-error-reason"] for one in letters)
    assert reasons == {b"batch": len(want.unread), b"too_large": 1}
    unread = [one for one in letters if one.key() is None]
    assert [dict(one.headers())["streamjobs-batch"] for one in unread] == [offsets for _, offsets in want.unread]
    # The broker writes offsets and times into a batch's head; what follows is as it was sent.
    assert [one.value()[61:] for one in unread] == [data[61:] for data, _ in want.unread]
    (large,) = [one.value() for one in letters if one.key() is not None]
    assert large == bytes(LARGE)
    said = [json.loads(one.value())["seq"] for one in job.sink("predictions")]
    assert said == list(range(want.samples))

    # Commands read the same, and say the same.
    capsys.readouterr()
    assert command("replay", job.path, "--input", "topic", "--expect", "topics", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["dead_lettered"] == {"batch": len(want.unread), "too_large": 1}
    assert command("dlq", "redrive", job.path, "--all", "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["would_send"] == 1
    assert command("state", "forget", job.path, "p1", "--json") == 0
    held = json.loads(capsys.readouterr().out)["held"]
    assert {one["role"]: one["records"] for one in held}["input"] == want.samples + 1
    assert command("dlq", "redrive", job.path, "--reason", "batch") == 2
    assert "a whole batch" in capsys.readouterr().err
