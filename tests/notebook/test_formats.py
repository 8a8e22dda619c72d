"""The worker's core, `replay` of a file and `Job.replay` of a table: the same bits in every format and policy."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas
import pytest

from streamjobs import Job
from streamjobs.core.messages import Output, Stored
from streamjobs.job_files import core_from, job_from
from streamjobs.recordings.files import records_of
from streamjobs.replay.engine import Replay
from streamjobs.replay.lines import line_of
from streamjobs.settings.load import composition_from
from tests.core import written_formats
from tests.core.values import ID
from tests.core.written_formats import FORMATS, KEYS, Format

ROWS = [written_formats.row(number) for number in range(210)]
CASES = [(name, policy) for name, one in FORMATS.items() for policy in one.policies]
Lines = dict[str, dict[str, list[bytes]]]  # sink -> key -> lines


def table_of(one: Format, missing: str, folder: Path) -> dict[str, Any]:
    source = {"topic": "plant", **one.source(missing, folder)}
    registry = {"registry": {"url": "http://localhost:1"}} if one.schema is not None else {}
    return {
        "source": {name: value for name, value in source.items() if value is not None},
        "sinks": {"features": "f"},
        **registry,
        **one.sections(),
    }


def of_the_core(one: Format, table: dict[str, Any]) -> tuple[Lines, dict[bytes, bytes]]:
    """Records as they would come from a topic, in batches of any size."""
    core, random = core_from(composition_from(table)), np.random.default_rng(5)
    if one.schema is not None:
        assert core.job.schemas is not None and not core.job.schemas.add(ID, one.schema)
    live = core.make_live(core.job, lambda keys: [None] * len(keys), 1 << 26)
    records = [
        Stored("plant", 0, number, row["at"], row["person"].encode(), *one.write(row)) for number, row in enumerate(ROWS)
    ]
    outputs: list[Output] = []
    while records:
        size = int(random.integers(1, 40))
        outputs += core.advance(core.job, live, records[:size]).outputs
        del records[:size]
    return by_sink_and_key(outputs), dict(live.snapshots())


@cache
def of_json(missing: str) -> tuple[Lines, dict[bytes, bytes]]:
    return of_the_core(FORMATS["json"], table_of(FORMATS["json"], missing, Path()))


def of_a_file(one: Format, table: dict[str, Any], folder: Path) -> tuple[Lines, dict[bytes, bytes]]:
    path, outputs = folder / "rows.jsonl", list[Output]()
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    composition = composition_from(table)
    run = Replay(job_from(composition))
    records = records_of(path, composition.settings.source, "person", one.time)
    run.run(records, outputs.append, lambda tally: None)
    return by_sink_and_key(outputs), {place[2]: data for place, data in run.snapshots()}


def of_a_table(one: Format, table: dict[str, Any], sinks: Iterable[str]) -> tuple[Lines, dict[bytes, bytes]]:
    frame = pandas.DataFrame([{**row, "place.floor": row["place"]["floor"]} for row in ROWS]).drop(columns="place")
    replayed = Job(table).replay(frame, key="person", time=one.time)
    lines = {sink: _by_key((json.loads(line)["key"], _told(sink, line)) for line in replayed.lines(sink)) for sink in sinks}
    return lines, replayed.snapshots()


def by_sink_and_key(outputs: list[Output]) -> Lines:
    """Rows of a batch leave sink by sink, and keys may be interleaved differently."""
    sinks = {output.sink for output in outputs} | {"dlq"}
    return {
        sink: _by_key(((one.key or b"").decode(), _told(sink, line_of(one))) for one in outputs if one.sink == sink)
        for sink in sinks
    }


def _by_key(lines: Iterable[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for key, line in lines:
        found.setdefault(key, []).append(line)
    return found


def _told(sink: str, line: bytes) -> bytes:
    """A line; of a dead letter, whose value is as it came, which record and why."""
    if sink != "dlq":
        return line
    letter = msgspec.json.decode(line)
    return f"{letter['id']} {letter['reason']}".encode()


@pytest.mark.filterwarnings("ignore::streamjobs.notebook.job.ReplayWarning")  # of what `skip` leaves out
@pytest.mark.parametrize(("name", "missing"), CASES)
def test_worker_replay_and_notebook_give_the_same_bits(tmp_path: Path, name: str, missing: str) -> None:
    one = FORMATS[name]
    table = table_of(one, missing, tmp_path)
    lines, snapshots = of_the_core(one, table)
    letters = sum(map(len, lines["dlq"].values()))
    assert len(snapshots) == KEYS and sum(map(len, lines["features"].values())) > 100
    assert (letters > 0) == (missing == "dlq")
    of_file, of_table = of_a_file(one, table, tmp_path), of_a_table(one, table, lines)
    assert of_file == (lines, snapshots)
    assert of_table == (lines, snapshots)
    if one.same:
        assert (lines, snapshots) == of_json(missing)
