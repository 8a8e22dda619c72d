"""The records that are remembered because snapshots lack them: the same after they were made small, and fewer bytes."""

import random

import pytest

from streamjobs.core.live.log import RECORD_BYTES, Log
from streamjobs.core.messages import Keyed, Record, Refused, Stored, Unread
from streamjobs.worker.pace import ZSTD

HEADERS = [("trace", b"1"), ("\udcff", b"")]  # a name that is no UTF-8, as `kafka.patches.batches` reads it


def stored(offset: int, key: bytes | None = b"a", value: bytes | None = b"{}", headers: object = ()) -> Stored:
    return Stored("t", 3, offset, 1_700_000_000_000 + offset, key, value, headers)  # type: ignore[arg-type]


def keyed(offset: int, problem: tuple[str, str] | None = None, kind: type[Stored] = Stored) -> Keyed:
    origin = kind(*stored(offset, b"its own"))
    return Keyed(*stored(offset, b"inside")._replace(key=None if problem else b"inside"), b"its own", problem, origin)


BATCHES = {
    "fetched": [
        stored(5 << 30),
        stored((5 << 30) + 1, None, None, HEADERS),
        stored((5 << 30) + 2, b"", b"", tuple(HEADERS)),
    ],
    "keys inside": [keyed(1), keyed(2, ("no_key", "expected a text"))],
    "unread": [stored(1), Unread(*stored(2))],
    "refused": [Refused(*stored(1))],
    "refused, keys inside": [keyed(1), keyed(2, None, Refused)],
    "of both kinds": [keyed(1), stored(2)],
}


def log_of(*batches: list[Record]) -> Log:
    log = Log()
    for batch in batches:
        log.add(batch, sum(len(one.value or b"") for one in batch))
    return log


@pytest.mark.parametrize("codec", [None, ZSTD])
@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_records_come_out_as_they_went_in(batch, codec):
    log = log_of(batch)
    log.pack(codec)
    ((mine, left_out),) = log.of(None)
    assert mine == batch and not left_out
    assert [type(one) for one in mine] == [type(one) for one in batch]
    assert [getattr(one, "origin", None) for one in mine] == [getattr(one, "origin", None) for one in batch]
    assert [type(getattr(one, "origin", None)) for one in mine] == [type(getattr(one, "origin", None)) for one in batch]
    assert [type(one.headers) for one in mine] == [type(one.headers) for one in batch]


def test_a_packed_record_takes_no_more_than_is_said_and_each_is_counted_once():
    """Of this many bytes the worker and `streamjobs size` take the pace of states."""
    value = b'{"x": [0.1, 0.2, 0.3, 0.4]}'
    batches = [[stored((1 << 40) + at, b"key-%07d" % at, value) for at in range(first, first + 100)] for first in (0, 100)]
    log = log_of(batches[0])
    assert log.bytes == 100 * (RECORD_BYTES + len(value))
    size = log.pack()
    assert 48 < size / 100 - len(value) <= 60 and log.bytes == size
    assert log.pack() == 0 and log.bytes == size
    log.add(batches[1], 100 * len(value))
    assert log.pack() == size and log.bytes == 2 * size


def test_compressed_records_take_less_than_half_and_count_as_that():
    rng = random.Random(0)
    values = [b'{"x": [%s]}' % b", ".join(b"%.6f" % rng.gauss(0, 1) for _ in range(40)) for _ in range(100)]
    batch = [stored(at, b"key-%d" % at, value) for at, value in enumerate(values)]
    plain, small = log_of(batch), log_of(batch)
    size = small.pack(ZSTD)
    assert size == small.bytes < plain.pack() / 2
    assert [one for mine, _ in small.of({b"key-7", b"key-9"}) for one in mine] == [batch[7], batch[9]]
    small.trim(100)
    assert not small.bytes


@pytest.mark.parametrize("pack", [0, 1, 2, 3])
def test_what_is_forgotten_is_what_ends_before_the_offset(pack):
    """pack: how many of the batches were made small before."""
    log, parts = Log(), [[stored(at), stored(at + 1, b"b")] for at in (0, 2, 4)]
    for number, part in enumerate(parts):
        log.add(part, 4)
        if number < pack:
            log.pack((None, ZSTD)[number % 2])
    log.letters |= {1, 5}
    log.trim(3)
    assert [one.offset for batch, _ in log.of(None) for one in batch] == [2, 3, 4, 5]
    assert [one.offset for one in log.of_key(b"b")] == [3]
    log.pack()
    assert [one.offset for batch, _ in log.of({b"a"}) for one in batch] == [2, 4]
    log.trim(6)
    assert not log.bytes and not [*log.of(None)] and not log.letters
    log.add(parts[0], 4)
    assert log.pack() == log.bytes > 0
    log.clear()
    assert not log.bytes and not log.pack()
