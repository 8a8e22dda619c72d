"""What the newest records of a job's input are to the job: keys, samples, times, and the group's place."""

import time
from collections import Counter
from statistics import median
from typing import Any

from streamjobs.core.job import Job
from streamjobs.kafka.preflight import passed
from streamjobs.kafka.reader import newest
from streamjobs.replay.first_rows import decoded_with_labels
from streamjobs.schema_registry.lookup import ready_now

NEWEST = 100  # records that are read


def look(job: Job) -> dict[str, Any]:
    """Reads without a group. Raises SetupError where the topic cannot be read."""
    source = job.settings.source
    found = list(newest(job.settings.broker, source.topic, NEWEST, time.monotonic(), max_bytes=source.max_bytes))[-NEWEST:]
    records = job.keyed(ready_now(job.settings, job.schemas, found))
    decoded = decoded_with_labels(job, records)
    ahead = [decoded.times[n] - records[owner].timestamp / 1000.0 for n, owner in enumerate(decoded.owner)]
    by_group, ends = passed(job.settings)
    keys_of: dict[int, set[bytes]] = {}
    for record in records:
        if record.key is not None:
            keys_of.setdefault(record.partition, set()).add(record.key)
    return {
        "records": len(records),
        "with_key": sum(record.key is not None for record in records),
        "keys": len({record.key for record in records} - {None}),
        "alone": sum(len(keys) == 1 for keys in keys_of.values()),  # keys without another in their partition
        "usable": len(records) - len(decoded.errors),
        "dead_letters": Counter(error.reason for _, error in decoded.errors),
        "first_error": str(decoded.errors[0][1]) if decoded.errors else None,
        "times": [float(min(decoded.times)), float(max(decoded.times))] if len(decoded.times) else None,
        "ahead": median(ahead) if ahead and source.time is not None else None,  # seconds, of the records' timestamps
        "passed": by_group,  # offsets of the input that the group has passed
        "ends": ends,
    }
