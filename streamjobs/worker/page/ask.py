"""What a key's state says now, or which worker has the key: `GET /api/keys/KEY`.

The answer is made in the job's thread, between two calls of `advance`: a fraction of a millisecond of reading. Made in the
page's thread, it would wait for the interpreter's lock again and again while the job works. After the first question the
calls are short for some seconds, so that the next ones wait less.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import islice
from typing import Any, NamedTuple, Protocol

from streamjobs.core.messages import ShownAlarm
from streamjobs.errors import SnapshotError
from streamjobs.kafka import client, groups
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import shortened
from streamjobs.worker.partition import Partition

WITHIN = 5.0  # seconds for the job's thread to answer
MOST_COMPARED = 200  # keys of a partition that tell which partitioner the producers use
MOST_LISTED = 200  # keys of an answer to `GET /api/keys`

Answer = tuple[int, bytes]  # HTTP status, JSON


class States(Protocol):
    """What reads snapshots, see `streamjobs.maintenance.summary`."""

    def details(self, partition: int, key: bytes, data: bytes, said: Any, written: int) -> dict[str, Any]: ...
    def open_alarms(self, live: Any, most: int) -> tuple[int, list[ShownAlarm]]: ...
    @property
    def needed_to_alarm(self) -> str | None: ...
    def likely_partition(self, key: bytes, known: Mapping[int, list[bytes]], partitions: int) -> int | None: ...


class Found(NamedTuple):
    """What the job's thread has for a key."""

    states: bytes | None  # JSON of its states, one for each partition with one
    known: dict[int, list[bytes]]  # some live keys of each partition of this worker


class Asker:
    """`connect` once the job runs; until then every answer is 503."""

    def __init__(self, settings: Settings, states: States) -> None:
        self._settings, self._states = settings, states
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: Callable[[], Mapping[int, Partition]] = dict
        self._partitions = 0

    def connect(self, held: Callable[[], Mapping[int, Partition]], partitions: int) -> None:
        """Called in the job's event loop. held: its partitions now; partitions: of the input."""
        self._loop, self._held, self._partitions = asyncio.get_running_loop(), held, partitions

    def listed(self, part: str, most_key: int) -> bytes:
        """The live keys of this worker that contain this text, in order of their names, as JSON."""
        live = [key for one in list(self._held().values()) for key in list(one.live.slot_of)]
        names = [name for name in (key.decode("utf-8", "backslashreplace") for key in live) if part in name]
        shown = [shortened(name, most_key) for name in sorted(names)[:MOST_LISTED]]
        return json.dumps({"keys": len(live), "matching": len(names), "names": shown}).encode()

    async def answer(self, text: str) -> Answer:
        """200 and what `state show` says of each state of the key; 404 and who has it; 503 if no one can say."""
        key, loop = key_of(text), self._loop
        if loop is None:
            return 503, _reason(text, "the worker has not started yet")
        future: Future[Found] = Future()
        try:
            loop.call_soon_threadsafe(self._find, key, future)
            found = await asyncio.wait_for(asyncio.wrap_future(future), WITHIN)
        except (RuntimeError, TimeoutError):  # the loop is closed, or stands still
            return 503, _reason(text, f"the worker did not answer within {WITHIN:.0f} s")
        except SnapshotError as problem:  # the key is set aside, or will be with its next record
            return 503, _reason(text, f"its state cannot be read: {problem}")
        if found.states is not None:
            return 200, found.states
        about = {"key": text, "reason": "no state of this key here", **await self._elsewhere(key, found.known)}
        return 404, json.dumps(about).encode()

    def _find(self, key: bytes, future: "Future[Found]") -> None:
        """In the job's thread."""
        if not future.set_running_or_notify_cancel():
            return
        try:
            held, written, states = self._held(), round(time.time() * 1000), []
            for number, one in sorted(held.items()):
                one.turns.expect_questions()
                known = one.live.look_up(key)
                if known is not None:
                    states.append(self._states.details(number, key, *known, written))
            if states:
                told = {"key": key.decode("utf-8", "backslashreplace"), "states": states}
                future.set_result(Found(json.dumps(told).encode(), {}))
            else:
                some = {number: list(islice(one.live.slot_of, MOST_COMPARED)) for number, one in held.items()}
                future.set_result(Found(None, some))
        except Exception as error:  # noqa: BLE001 - the job goes on; the request gets the error
            future.set_exception(error)

    async def _elsewhere(self, key: bytes, known: dict[int, list[bytes]]) -> dict[str, Any]:
        likely = self._states.likely_partition(key, known, self._partitions)
        about = {"partition": likely, "partitions": self._partitions, "partitions_here": sorted(known)}
        settings = client.for_aiokafka(self._settings.broker)
        try:
            group = await asyncio.to_thread(groups.described, settings, self._settings.job.name)
        except Exception as error:  # noqa: BLE001 - of many kinds; the rest of the answer stands
            return {**about, "workers": None, "workers_unknown": type(error).__name__}
        workers = []
        for member, assigned in zip(group.names, group.members, strict=True):
            numbers = sorted(one.partition for one in assigned if one.topic == self._settings.source.topic)
            workers.append({**member, "partitions": numbers, "likely": likely in numbers})
        return {**about, "workers": workers}


def _reason(key: str, reason: str) -> bytes:
    return json.dumps({"key": key, "reason": reason}).encode()


def key_of(text: str) -> bytes:
    r"""The key that is shown as this text; bytes that are not UTF-8 are shown, and given, as \xff.

    >>> key_of("p7 é"), key_of(r"\xff1")
    (b'p7 \xc3\xa9', b'\xff1')
    """
    encoded = text.encode("utf-8", "surrogateescape")
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), encoded)
