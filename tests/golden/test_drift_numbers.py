"""[drift] of job files written for 0.1.0: 0.1.0's numbers; its states are taken over, or refused with the reason."""

import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from algorithms.common.protocol import Array
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot, load_snapshot
from streamjobs.core.messages import Stored
from streamjobs.errors import SnapshotError
from streamjobs.settings.load import settings_from

ARCHIVE = Path(__file__).parent / "drift-0.1.0.zip"  # make_drift_numbers.py made it
FIGURES = ("value", "statistic", "before", "after")


@cache
def held(name: str) -> bytes:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return archive.read(name)


def names() -> list[str]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return sorted({name.partition("/")[0] for name in archive.namelist() if "/" in name})


def table_of(name: str) -> dict[str, Any]:
    return json.loads(held(f"{name}/job.json"))  # type: ignore[no-any-return]


def records() -> list[Stored]:
    lines = [json.loads(line) for line in held("records.jsonl").decode().splitlines()]
    return [Stored("golden", 0, n, stamp, key.encode(), value.encode()) for n, (key, stamp, value) in enumerate(lines)]


def rows_then(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in held(f"{name}/drift.jsonl").decode().splitlines()]


def rows_now(live: Live, job: Job, some: list[Stored]) -> list[dict[str, Any]]:
    return [json.loads(one.value or b"") for one in advance(job, live, some).outputs if one.sink == "drift"]


def half_of(name: str, key: bytes) -> bytes | None:
    return held(f"{name}/half/{key.decode()}")


def numbers(rows: list[dict[str, Any]], field: str) -> Array:
    return np.array([np.nan if row[field] is None else row[field] for row in rows], float)


def agree(now: list[dict[str, Any]], then: list[dict[str, Any]]) -> None:
    """Alarms are equal, numbers but for another processor's LAPACK (1e-15, grown 10,000 times); no field is lost."""
    assert len(now) == len(then)
    assert all(row.keys() >= old.keys() for row, old in zip(now, then, strict=True))
    assert [row["alarm"] for row in now] == [row["alarm"] for row in then]
    for field in FIGURES:
        np.testing.assert_allclose(numbers(now, field), numbers(then, field), rtol=1e-9, atol=1e-10)
    for row, old in zip(now, then, strict=True):
        controls = [{name: one["alarm"] for name, one in each.get("beside", {}).items()} for each in (row, old)]
        assert controls[0] == controls[1]


@pytest.mark.parametrize("name", names())
def test_a_job_file_of_then_gives_the_numbers_of_then(name: str) -> None:
    job = Job.from_settings(settings_from(table_of(name)))
    then = rows_then(name)
    assert any(row["alarm"] for row in then)
    agree(rows_now(Live(job, lambda key: None), job, records()), then)


def changed(by: float) -> list[Stored]:
    """The records, the first of each key with another number."""
    first, rest = records()[:3], records()[3:]
    bodies = [json.loads(one.value or b"") for one in first]
    values = [json.dumps(body | {"ax": body["ax"] + by}).encode() for body in bodies]
    return [one._replace(value=value) for one, value in zip(first, values, strict=True)] + rest


@pytest.mark.parametrize("name", names())
def test_the_numbers_tell_a_change_of_a_millionth_from_rounding(name: str) -> None:
    """The streams are well posed, so this holds on every processor."""
    job, then = Job.from_settings(settings_from(table_of(name))), rows_then(name)
    agree(rows_now(Live(job, lambda key: None), job, changed(1e-15)), then)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        agree(rows_now(Live(job, lambda key: None), job, changed(1e-6)), then)


@pytest.mark.parametrize("name", names())
def test_a_detector_gives_the_bits_of_then_on_the_values_of_then(name: str) -> None:
    """Detectors are plain sums, on which processors agree."""
    watch, then = Job.from_settings(settings_from(table_of(name))).watches[0], rows_then(name)
    for key in {row["key"] for row in then}:
        rows = [row for row in then if row["key"] == key]
        start = watch.detector.init(dim=1, targets=0, seed=0)
        made = watch.detector.run(start, numbers(rows, "value")[:, None])[1].features
        said = np.column_stack([numbers(rows, field) for field in ("statistic", "alarm", "before", "after")])
        seen = np.isfinite(numbers(rows, "value"))
        np.testing.assert_array_equal(made[seen], said[seen])


@pytest.mark.parametrize("name", names())
def test_a_stored_state_of_then_goes_on_as_then(name: str) -> None:
    job, some = Job.from_settings(settings_from(table_of(name))), records()
    live = Live(job, lambda key: half_of(name, key))
    then = rows_then(name)
    agree(rows_now(live, job, some[len(some) // 2 :]), then[len(then) // 2 :])


@pytest.mark.parametrize(
    ("drift", "named"),
    [
        ({"detector": {"name": "page_hinkley", "standardise": True}}, r"PageHinkley\(standardise=True\)"),
        ({"detector": {"name": "page_hinkley", "min_rows": 30}}, r"PageHinkley\(min_rows=30\)"),
        ({"false_alarms": "1 per 10000 rows"}, r"Conformal\("),
    ],
)
def test_a_state_of_then_under_another_detector_is_refused_with_what_to_do(drift: dict[str, Any], named: str) -> None:
    job = Job.from_settings(settings_from(table_of("usual") | {"drift": drift}))
    with pytest.raises(
        SnapshotError, match=rf"'streamjobs drift relearn JOB --all'.*written with .*PageHinkley\(\).*{named}"
    ):
        decode_snapshot(job, held("usual/half/p0"))
    before, *_ = load_snapshot(Job.from_settings(settings_from(table_of("usual"))), held("usual/half/p0"))
    states, _, _ = load_snapshot(job, held("usual/half/p0"), drift_anew=True)
    assert repr(states["learner"]) == repr(before["learner"]) and repr(states["books"]) == repr(before["books"])
