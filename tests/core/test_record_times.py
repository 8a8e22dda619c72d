"""The event time of a record: its unit, its source, and the times that are refused."""

import numpy as np
import pytest

from streamjobs.core.decoding.records import decoder
from tests.core.decoded import FRAME, NOW, ROWS, decode, frame_headers, reason, record, source

GOOD = {"x": [1, 2, 3], "ts": NOW}
RAW = np.array(ROWS, "<f4").tobytes(), frame_headers()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_event_time_is_read_in_its_unit(unit):
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    decoded = decode({"x": [1, 2, 3], "ts": 1_700_000_000 * factor}, changes={"time_unit": unit})
    assert decoded.times.tolist() == [NOW]


def test_without_a_time_field_the_record_timestamp_is_the_event_time():
    assert decode({"x": [1, 2, 3]}, changes={"time": None}, timestamp=1_700_000_000_123).times.tolist() == [NOW + 0.123]
    assert reason({"x": [1, 2, 3]}, changes={"time": None}, timestamp=-1) == "bad_time"
    assert reason({"x": ROWS}, changes={"time": None}) == "bad_time"
    raw = np.array([1, 2, 3], "<f4").tobytes()
    one = decode(raw, changes={"format": "raw"}, headers=frame_headers(b"3", time=None, rate=None, label=None))
    assert one.times.tolist() == [NOW] and one.labels == [None]


@pytest.mark.parametrize("timestamp", [-1, 0])
@pytest.mark.parametrize(
    ("value", "headers", "changes"),
    [(GOOD, (), {}), (FRAME, (), {}), (*RAW, {"format": "raw"})],
    ids=["json", "frame", "raw"],
)
def test_an_event_time_passes_without_a_record_timestamp_only_with_a_larger_future(value, headers, changes, timestamp):
    """A broker may refuse outputs of such a time, and it stops the clock of a partition's silent keys."""
    how = {"headers": headers, "timestamp": timestamp}
    assert reason(value, changes=changes, **how) == "future"
    (_, problem), *_ = decode(value, changes=changes, **how).errors
    assert "got no timestamp; let the producer set timestamps, or raise [source] future" in str(problem)
    assert len(decode(value, changes=changes | {"future": 2 * NOW}, **how).times) > 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("changed", [{"rate": b"1e-320"}, {"rate": b"5e-324", "time": b"-1e308"}, {"time": b"inf"}])
def test_raw_times_beyond_all_numbers_are_refused_without_a_warning(changed):
    headers = {"shape": b"2,3", "dtype": b"f4", "time": b"%d" % NOW, "rate": b"10"} | changed
    one = record(bytes(24), headers=[(f"streamjobs-{name}", text) for name, text in headers.items()])
    assert [error.reason for _, error in decoder(source(format="raw", fields=None, time=None), 3)([one]).errors] == [
        "bad_time"
    ]
