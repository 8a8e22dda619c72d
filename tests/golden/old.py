"""What an earlier commit stored (`make_old_states.py` made it), with the jobs as today's code makes them."""

import json
import zipfile
import zlib
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import Snapshot
from streamjobs.settings.load import settings_from
from streamjobs.settings.sections import Settings

HERE = Path(__file__).parent
ARCHIVES = sorted(path.stem.removeprefix("states-") for path in HERE.glob("states-*.zip"))


# Defaults that have changed since: what an operator states to keep the states, as the refusal says.
RESTORED: dict[str, dict[str, dict[str, Any]]] = {"5a67c29": {"head": {"intercept": False}, "drift": {"idle": 0}}}
UNCLIPPED = {"learner": {"clip_target": 0}}  # states of a regression from before targets were clipped, to the same bytes


@dataclass(frozen=True)
class Old:
    """A job of an earlier commit: three keys, one partition."""

    commit: str
    name: str
    table: dict[str, Any]  # the job file, with what is needed to keep the states
    stated: dict[str, Any]  # the job file as it was
    population: bytes | None
    records: list[Stored]
    half: dict[bytes, bytes]  # snapshots after the first half of the records
    end: dict[bytes, bytes]

    @property
    def settings(self) -> Settings:
        return settings_from(self.table)

    @property
    def job(self) -> Job:
        return Job.from_settings(self.settings, population=self.population)

    @property
    def rest(self) -> list[Stored]:
        return self.records[len(self.records) // 2 :]


def names(commit: str) -> list[str]:
    with zipfile.ZipFile(HERE / f"states-{commit}.zip") as archive:
        return sorted({name.partition("/")[0] for name in archive.namelist()})


@cache
def stored(commit: str, name: str) -> Old:
    with zipfile.ZipFile(HERE / f"states-{commit}.zip") as archive:
        held = {one.removeprefix(f"{name}/"): archive.read(one) for one in archive.namelist() if one.startswith(f"{name}/")}
    table = json.loads(held["job.json"])
    lines = [json.loads(line) for line in held["records.jsonl"].decode().splitlines()]
    records = [
        Stored(table["source"]["topic"], 0, offset, timestamp, key.encode(), value.encode())
        for offset, (key, timestamp, value) in enumerate(lines)
    ]

    def part(word: str) -> dict[bytes, bytes]:
        return {one.removeprefix(word).encode(): data for one, data in held.items() if one.startswith(word)}

    restored = {**RESTORED.get(commit, {}), **(UNCLIPPED if table["learner"].get("task") == "regression" else {})}
    kept = {section: values | restored.get(section, {}) if values else values for section, values in table.items()}
    return Old(commit, name, kept, table, held.get("population.state"), records, part("half/"), part("end/"))


def later_version(data: bytes) -> bytes:
    """The snapshot as a release might write it that this one does not know."""
    body = data[:2] + b"\x03" + data[3:-4]
    return body + zlib.crc32(body).to_bytes(4, "little")


def without_fields(data: bytes) -> bytes:
    """A snapshot as it was before its description had the fields: all other bytes are the same."""
    held = snapshot.decode(data)
    table = snapshot.table_of(held.description)
    assert len(table.pop("fields").partition(":")[0]) % 3 == 0
    fingerprint = blake2b(json.dumps(table, sort_keys=True).encode(), digest_size=16).digest()
    return snapshot.encode(Snapshot(fingerprint, json.dumps(table, separators=(",", ":")), *held[2:]))
