"""A poisoned stream: exact dead letters, their originals untouched, everything else processed."""

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.brokers.fixtures import MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, Sent
from tests.brokers.load import SOURCE, START
from tests.brokers.verification import verify
from tests.brokers.workers import running_worker

GOOD, EACH, KEYS = 11_880, 15, 40  # 120 bad ones among 12,000: 1 %
MAX_BYTES = 10_000

Spoil = Callable[[dict, Callable[[Any], bytes]], bytes]


def _with(**changed: Any) -> Spoil:
    return lambda body, encode: encode(body | changed)


# kind: (what it does to a good body, the reason it must be refused for)
POISON: dict[str, tuple[Spoil, str]] = {
    "broken": (lambda body, encode: encode(body)[:-3], "malformed"),
    "empty": (lambda body, encode: b"", "malformed"),
    "wrong dimension": (_with(x=[1.0, 2.0, 3.0]), "wrong_dimension"),
    "huge record": (_with(comment="x" * MAX_BYTES), "too_large"),
    "huge number": (_with(x=[1.0, 2.0, 3.0, 1e12]), "out_of_range"),
    "future": (lambda body, encode: encode(body | {"ts": body["ts"] + 3600.0}), "future"),
    "no x": (lambda body, encode: encode({"ts": body["ts"]}), "missing_field"),
}
NOT_A_NUMBER = {  # JSON has no NaN: written as Python writes it, it is no JSON at all
    "json": (lambda body, encode: encode(body | {"x": [1.0, math.nan, 0.0, 0.0]}), "malformed"),
    "msgpack": (_with(x=[1.0, math.nan, 0.0, 0.0]), "not_finite"),
}
ENCODE: dict[str, Callable[[Any], bytes]] = {
    "json": lambda body: json.dumps(body).encode(),
    "msgpack": msgspec.msgpack.encode,
}


def stream(form: str) -> list[tuple[Sent, str | None]]:
    """Records and the reason each must be refused for (None: it is good), the bad ones spread evenly."""
    poison = POISON | {"not a number": NOT_A_NUMBER[form]}
    kinds = list(poison) * EACH
    every = GOOD // len(kinds)
    made: list[tuple[Sent, str | None]] = []
    for number in range(GOOD):
        key, step = number % KEYS, number // KEYS
        at = START + 0.02 * step
        body = {"x": [math.sin(step / 7 + key), math.cos(step / 9), step / 1000, float(key)], "ts": at, "label": "up"}
        place = (b"key-%d" % key, key % PARTITIONS, round(at * 1000))
        if number % every == 0 and kinds:
            spoil, reason = poison[kinds.pop()]
            headers = [("trace", b"\x00\xff%d" % number), ("trace", b"again")]
            value = spoil(body, ENCODE[form])
            made.append((Sent(place[0], value, place[1], place[2], headers), reason))
        made.append((Sent(place[0], ENCODE[form](body), place[1], place[2]), None))
    assert not kinds
    return made


@pytest.mark.parametrize("form", ["json", pytest.param("msgpack", marks=pytest.mark.long)])
def test_a_poisoned_stream_ends_with_exact_dead_letters_and_all_else_processed(
    make_job: MakeJob, form: str, fork_server: ForkServer
) -> None:
    source = SOURCE | {"format": form, "max_bytes": MAX_BYTES}
    job = make_job(f"poison-{form}", source=source, head={"name": "rls"})
    made = stream(form)
    bad = [(record, reason) for record, reason in made if reason is not None]
    assert len(made) == GOOD + 8 * EACH and len(bad) == len(made) // 100
    job.produce(record for record, _ in made)
    with running_worker(job, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0

    letters = job.sink("dlq")
    assert Counter(dict(one.headers())["streamjobs-error-reason"].decode() for one in letters) == Counter(
        reason for _, reason in bad
    )
    assert _plain(letters) == sorted(
        ((one.partition, one.key, one.value, one.timestamp, tuple(one.headers)) for one, _ in bad), key=repr
    )
    inputs = {(one.partition, one.offset): one for one in job.inputs()}
    for letter in letters:
        headers = dict(letter.headers())
        original = inputs[int(headers["streamjobs-error-partition"]), int(headers["streamjobs-error-offset"])]
        assert (letter.key(), letter.value()) == (original.key, original.value)
    assert len(job.sink("features")) == len(job.sink("predictions")) == GOOD
    verify(job, repeats=False, expect=len(made))


def _plain(letters: list[Any]) -> list[tuple]:
    """Partition, key, value, time and the headers that are not ours."""
    return sorted(
        (
            (
                one.partition(),
                one.key(),
                one.value() or b"",  # an empty value is read as none by this client
                one.timestamp()[1],
                tuple((name, text) for name, text in one.headers() if not name.startswith("streamjobs-")),
            )
            for one in letters
        ),
        key=repr,
    )
