"""The codec: what went in comes out bit for bit, and nothing damaged or foreign is ever read."""

from collections import namedtuple
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import LeftOut, Snapshot
from streamjobs.errors import SnapshotError

any_array = st.sampled_from([np.dtype(name) for name in snapshot.DTYPES]).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
any_snapshot = st.builds(
    Snapshot,
    st.binary(min_size=16, max_size=16),
    st.text(max_size=40),
    st.dictionaries(st.tuples(st.text(max_size=20), st.integers(0, 2**31 - 1)), st.integers(-1, 2**63 - 1), max_size=3),
    st.lists(st.text(max_size=20), max_size=4),
    st.lists(any_array, max_size=4),
)


@given(any_snapshot)
def test_a_snapshot_comes_back_bit_for_bit(written):
    read = snapshot.decode(snapshot.encode(written))
    assert read[:4] == written[:4]
    assert len(read.arrays) == len(written.arrays)
    for got, want in zip(read.arrays, written.arrays, strict=True):
        assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())


@given(any_snapshot, st.integers(0, 5))
def test_its_last_arrays_can_be_read_alone(written, last):
    raw = snapshot.encode(written)
    whole, read = snapshot.decode(raw), snapshot.decode(raw, last)
    assert read[:4] == whole[:4] and len(read.arrays) == min(last, len(whole.arrays))
    for got, want in zip(reversed(read.arrays), reversed(whole.arrays), strict=False):
        assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())


@given(any_snapshot, st.data())
def test_any_changed_byte_is_noticed(written, data):
    raw = bytearray(snapshot.encode(written))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SnapshotError):
        snapshot.decode(bytes(raw))


@given(any_snapshot, st.data())
def test_any_truncation_is_noticed(written, data):
    raw = snapshot.encode(written)
    with pytest.raises(SnapshotError):
        snapshot.decode(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(any_snapshot, st.binary(min_size=1, max_size=9))
def test_bytes_behind_the_last_array_are_refused_though_their_checksum_fits(written, more):
    body = snapshot.encode(written)[:-4] + more
    with pytest.raises(SnapshotError, match=f"{len(more)} bytes too many"):
        snapshot.decode(body + snapshot.CRC.pack(snapshot.zlib.crc32(body)))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(raw):
    with pytest.raises(SnapshotError):
        snapshot.decode(raw)


@given(st.binary(max_size=120))
def test_a_valid_checksum_around_nonsense_is_still_refused_or_read_whole(body):
    import struct
    import zlib

    raw = snapshot.MAGIC + bytes([snapshot.VERSION, 0]) + bytes(16) + body
    raw += struct.pack("<I", zlib.crc32(raw))
    with suppress(SnapshotError):
        snapshot.decode(raw, 1)
    try:
        read = snapshot.decode(raw)
    except SnapshotError:
        return
    assert snapshot.encode(read)[: len(raw) - 4] == raw[:-4]


def test_the_message_names_only_what_differs():
    learner = "Okfeb(kernel=Kernel(name='gaussian', bandwidth=None), rank={}, budget=40)"
    text = snapshot.difference({"learner": learner.format(20), "dim": "3"}, {"learner": learner.format(30), "dim": "3"})
    assert text == (
        "snapshot was written with learner=Okfeb(rank=20); this job runs learner=Okfeb(rank=30). "
        "Restore those settings; or give the job another [job] name, which begins with new states and keeps these; or "
        "delete these with 'streamjobs state reset JOB --all'."
    )


@pytest.mark.parametrize("places", [(), (0, 0), (1, 0), (2,)])
def test_arrays_that_are_left_out_have_each_a_place_and_an_order(places):
    """Otherwise one state would have two snapshots, or an array the place of another."""
    begin = snapshot._HEAD.pack(snapshot.MAGIC, snapshot.LEAVES_OUT, 0, b"f" * 16) + snapshot.text_bytes("")
    begin += snapshot.U16.pack(len(places)) + b"".join(snapshot.U16.pack(place) + b"12345678" for place in places)
    array = [snapshot.array_header(np.dtype("<f8"), (1,)), np.ones(1).tobytes()]
    with pytest.raises(SnapshotError):
        snapshot.decode(snapshot.assemble(begin, {}, [], array))


def test_an_array_may_be_left_out_behind_the_last_one():
    written = Snapshot(b"f" * 16, "", {}, [], [np.ones(1), LeftOut(b"12345678")])
    assert snapshot.encode(snapshot.decode(snapshot.encode(written))) == snapshot.encode(written)


@pytest.mark.parametrize("array", [np.ones((3, 2), "<i8"), np.ones((3, 3)), np.ones(3), np.ones((3, 2), "<f4")])
def test_a_state_is_not_read_from_arrays_of_another_type_or_width(array):
    like = namedtuple("State", "rows")(np.zeros((5, 2)))
    with pytest.raises(SnapshotError, match="field rows has shape"):
        snapshot.unflatten(like, [array])
    assert snapshot.unflatten(like, [np.ones((3, 2))]).rows.shape == (3, 2)
    with pytest.raises(SnapshotError, match="holds 2 arrays, this job expects 1"):
        snapshot.unflatten(like, [np.ones((3, 2)), array])
    assert type(snapshot.unflatten(like._replace(rows=0), [np.asarray(7)]).rows) is int


def test_an_array_that_cannot_be_is_refused():
    header = snapshot.array_header(np.dtype("<f8"), (2**32 - 1,) * 3)
    with pytest.raises(SnapshotError, match="runs past the end"):
        snapshot.decode(snapshot.assemble(snapshot.head(b"f" * 16, ""), {}, [], [header, b""]))
