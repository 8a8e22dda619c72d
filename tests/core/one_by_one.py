"""Records decoded at once beside the same records one by one."""

from collections.abc import Callable, Sequence
from unittest import mock

from streamjobs.core.decoding.records import Decoded, decoder
from streamjobs.core.messages import Record, Stored
from streamjobs.settings.sections import MirrorSection
from streamjobs.settings.source import SourceSection

DEEP = ["d.accel.x", "d.list[0].v", "d.list[2][1]", "s[name=up].v", "s[name=7].w.v", "flat"]  # paths into a record


def slow_decoder(
    source: SourceSection, dim: int, mirror: MirrorSection | None = None
) -> Callable[[Sequence[Record]], Decoded]:
    """Parses records one by one."""
    with mock.patch("streamjobs.core.decoding.records.batch_parser", return_value=None):
        return decoder(source, dim, mirror)


def same_as_one_by_one(
    source: SourceSection, dim: int, values: Sequence[bytes | None], mirror: MirrorSection | None = None
) -> Decoded:
    """What both decoders give, to the bit, letters included."""
    stamp = 1_700_000_000_000
    records = [Stored("in", 0, at, stamp + at, b"k" if at != 5 else None, value) for at, value in enumerate(values)]
    fast, slow = decoder(source, dim, mirror)(records), slow_decoder(source, dim, mirror)(records)
    for of_fast, of_slow in zip(fast[:3], slow[:3], strict=True):
        assert of_fast.dtype == of_slow.dtype and of_fast.tobytes() == of_slow.tobytes()
    assert fast.labels == slow.labels and fast.skipped == slow.skipped
    assert [(at, str(error)) for at, error in fast.errors] == [(at, str(error)) for at, error in slow.errors]
    return fast
