"""One record as a decoder sees it, and the reason for which it is refused."""

import json
from functools import cache

from streamjobs.core.decoding.records import decoder
from streamjobs.core.messages import Stored
from streamjobs.errors import REASONS
from streamjobs.settings.source import SourceSection

NOW = 1_700_000_000.0
NAMES = ["ax", "ay", "az"]


def source(**changes):
    return SourceSection(**{"topic": "imu", "time": "ts", "label": "activity", **changes})


def record(value, *, key=b"p1", headers=(), timestamp=int(NOW * 1000), offset=1041):
    value = json.dumps(value).encode() if isinstance(value, dict) else value
    return Stored("imu", 3, offset, timestamp, key, value, headers)


@cache
def decoder_of(fmt, named=False, timed=True):
    return decoder(source(format=fmt, fields=NAMES if named else None, time="ts" if timed else None), 3)


def decode(value, *, dim=3, changes=None, **how):
    return decoder(source(**(changes or {})), dim)([record(value, **how)])


def reason(value, **how):
    decoded = decode(value, **how)
    assert len(decoded.errors) == 1 and len(decoded.times) == len(decoded.X) == len(decoded.labels) == 0
    index, error = decoded.errors[0]
    assert index == 0 and error.reason in REASONS and error.stage == "decode"
    assert str(error).startswith("topic imu[3] offset 1041: ") and str(error).endswith(".")
    return error.reason


def frame_headers(shape=b"2,3", dtype=b"f4", time=b"1700000000", rate=b"50", label=b"walk"):
    named = {"shape": shape, "dtype": dtype, "time": time, "rate": rate, "label": label}
    return [(f"streamjobs-{name}", value) for name, value in named.items() if value is not None]


ROWS = [[0.5, 1.0, -2.0], [0.25, 3.0, 8.0]]  # exact in f32
FRAME = {"x": ROWS, "ts": [NOW, NOW + 0.02], "activity": "walk"}
