"""Recorded outputs as rows: of a folder that a replay wrote, or of a worker's topics."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from streamjobs.errors import ConfigError
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.composition import not_sent

RowsOf = Callable[[str], list[Mapping[str, Any]]]  # sink -> its outputs, in order


def of_folder(folder: Path, sinks: Mapping[str, str]) -> RowsOf:
    """Outputs of `<folder>/<sink>.jsonl`. Raises ConfigError for a file that is not there or is something else.

    sinks: those of the job, by name, which a replay writes.
    """

    def rows(sink: str) -> list[Mapping[str, Any]]:
        path = folder / f"{sink}.jsonl"
        if not path.is_file():
            if sink not in sinks:
                raise ConfigError(not_sent(sink, sinks, "plot"))
            raise ConfigError(f"{path}: no such file; 'streamjobs replay --output-dir {folder}' writes what the job gives.")
        try:
            return [msgspec.json.decode(line)["value"] for line in path.read_bytes().splitlines()]
        except (msgspec.DecodeError, KeyError, TypeError):
            raise ConfigError(f'{path}: expected lines {{"key": .., "value": ..}} as replay writes them.') from None

    return rows


def of_topics(broker: BrokerSection, topics: Mapping[str, str]) -> RowsOf:
    """Outputs that a worker sent, without repeats after a crash. Raises SetupError where they cannot be read."""
    from streamjobs.kafka.reader import topic_records

    def rows(sink: str) -> list[Mapping[str, Any]]:
        if sink not in topics:
            raise ConfigError(not_sent(sink, topics, "plot"))
        found, seen = [], set()
        for record in topic_records(broker, topics[sink]):
            identity = dict(record.headers)["streamjobs-id"]
            if identity not in seen and record.value is not None:
                seen.add(identity)
                found.append(msgspec.json.decode(record.value))
        return found

    return rows
