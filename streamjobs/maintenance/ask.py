"""Reads single snapshots for a worker's `GET /api/keys/KEY`."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from streamjobs.core.alarms import open_now
from streamjobs.core.job import Job
from streamjobs.core.messages import ShownAlarm
from streamjobs.core.partitioners import PARTITIONERS
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.summary import details, details_of


class States:
    """Of one job."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def details(self, partition: int, key: bytes, data: bytes, said: Any, written: int) -> dict[str, Any]:
        """What `state show --json` says of a snapshot. Raises SnapshotError.

        said: what is in it, where that is known. written: milliseconds since 1970.
        """
        entry = Entry(partition, key, data, -1, written)
        return details(self._job, entry) if said is None else details_of(self._job, entry, *said)

    def open_alarms(self, live: Any, most: int) -> tuple[int, list[ShownAlarm]]:
        """How many live keys of a partition are in alarm, and their newest alarms."""
        if self._job.steps.stuck is None and self._job.steps.silent is None:
            return open_now(self._job, live, most)
        from streamjobs.core import sensor_alarms  # few jobs have them

        return sensor_alarms.open_now(self._job, live, most)

    @cached_property
    def needed_to_alarm(self) -> str | None:
        """What a key needs at least before all its detectors can alarm: '1,129 rows'. None as `rows_to_alarm` says."""
        from streamjobs.replay.warm_up import days_to_alarm, in_words, rows_to_alarm  # runs detectors: only if asked

        rows = rows_to_alarm(self._job)
        return None if rows is None else in_words(rows, days_to_alarm(self._job))

    def likely_partition(self, key: bytes, known: Mapping[int, list[bytes]], partitions: int) -> int | None:
        """Where the producers' partitioner puts the key, if one of ours explains where the known keys are; else None."""
        if not any(known.values()):
            return None
        for choose in PARTITIONERS.values():
            if all(choose(other, partitions) == number for number, keys in known.items() for other in keys):
                return choose(key, partitions)
        return None
