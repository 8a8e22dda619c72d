"""Where recovery begins, and what it tells of the keys it has written."""

import numpy as np
import pytest

from streamjobs.errors import SetupError
from streamjobs.worker import recovery
from streamjobs.worker.failures import DeliveryError
from streamjobs.worker.recovery import WrittenKeys, _unread
from streamjobs.worker.store import MemoryStore


def test_keys_written_counts_a_key_once_whatever_is_written_of_it() -> None:
    draw = np.random.default_rng(5)
    keys, truth, total = WrittenKeys(), set[bytes](), 0
    for _ in range(50):
        numbers = draw.integers(200, size=draw.integers(60))
        chunk = {b"k%d" % number: None if draw.random() < 0.2 else b"state" for number in numbers}
        truth = (truth | {key for key, value in chunk.items() if value}) - {key for key, value in chunk.items() if not value}
        total += keys.take(chunk)
        assert total == len(truth)


@pytest.mark.parametrize(
    ("whole", "changelog", "first", "begins"),
    [
        ("1000", "id", 0, 0),  # its states may have been ended since
        ("3000", "id", 0, 6),
        ("", "id", 0, 6),  # of an older release
        ("1000", "other", 0, 6),  # it may have the only copy
        ("1000", "id", 3, 6),  # the same
    ],
)
def test_a_store_that_may_lack_tombstones_is_read_again_unless_it_may_have_the_only_copy(
    whole: str, changelog: str, first: int, begins: int
) -> None:
    store = MemoryStore()
    store.write(0, [(b"k", b"state")], 5, marks={"changelog": changelog, "whole": whole or None})
    ((begin, chunk),) = _unread("log", {0: (first, 9)}, store, "id", 5000.0, 2000.0).values()
    assert (begin, store.get(0, b"k")) == (begins, b"state" if begins else None)
    assert chunk.whole == ("" if begins else "5000")


@pytest.mark.parametrize(
    ("marks", "late"),
    [
        (None, 5000.0 + 3000.0),  # an empty store: reading its states began at 5000
        ({"changelog": "id", "whole": "4000"}, 4000.0 + 3000.0),  # all tombstones until 4000 are in the store
        ({"changelog": "other", "whole": "4000"}, np.inf),  # it may have the only copy
    ],
)
def test_a_recovery_that_takes_longer_than_tombstones_are_kept_is_void(
    marks: dict[str, str | None] | None, late: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    if marks is not None:
        store.write(0, [(b"k", b"state")], 5, marks=marks)
    ((tp, (_, chunk)),) = _unread("log", {0: (0, 9)}, store, "id", 5000.0, 2000.0).items()
    monkeypatch.setattr(recovery.time, "time", lambda: min(late, 1e9) - 1.0)
    recovery._require_tombstones(tp, chunk, store, 3000.0)
    if late < np.inf:
        store.write(0, [(b"k", b"state")], 6)
        monkeypatch.setattr(recovery.time, "time", lambda: late + 1.0)
        with pytest.raises(DeliveryError, match=r"log\[0\].* for 3001 s.* for 3000 s only"):
            recovery._require_tombstones(tp, chunk, store, 3000.0)
        assert store.reached(0) is None and store.get(0, b"k") is None


def test_deleted_records_of_the_changelog_are_refused_only_where_the_store_lacks_them() -> None:
    for reached in (None, 3, 4):
        store = MemoryStore()
        if reached is not None:
            store.write(0, [(b"k", b"state")], reached)
        if reached == 4:
            assert len(_unread("log", {0: (5, 9)}, store, "id", 0.0, 0.0)) == 1
            continue
        with pytest.raises(SetupError, match=r"\[0\] before offset 5"):
            _unread("log", {0: (5, 9)}, store, "id", 0.0, 0.0)
