"""What `check --online` prints of the newest records of a job's input."""

from collections.abc import Iterator
from typing import Any

from streamjobs.commands.console import moment
from streamjobs.core.job import Job
from streamjobs.settings.types import many

FAR = 86_400.0  # seconds between event times and timestamps that are named


def lines(job: Job, found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A word and a sentence each. found: of `newest_records`."""
    if not found["records"]:
        yield "records", "the input topic is empty"
    else:
        yield (
            "records",
            f"of the newest {found['records']:,}, {found['with_key']:,} have a key ({found['keys']:,} different) and "
            f"{found['usable']:,} can be used",
        )
    if found["alone"] and job.settings.alarms is not None and job.settings.alarms.silent:
        yield (
            "silent",
            f"{found['alone']:,} of {many(found['keys'], 'key')} in these records had no other key in the partition; "
            "[alarms] silent never notices a key alone in its partition: use an input topic with fewer partitions",
        )
    if found["first_error"]:
        counts = ", ".join(f"{reason} {count}" for reason, count in found["dead_letters"].items())
        yield "", f"dead letters: {counts}; the first: {found['first_error']}"
    if found["times"]:
        first, last = (moment(1000 * one) for one in found["times"])
        far = found["ahead"] is not None and abs(found["ahead"]) > FAR
        way = "before" if far and found["ahead"] < 0 else "after"
        what = f", {abs(found['ahead']) / FAR:,.1f} days {way} the records' timestamps: are they right?" if far else ""
        yield "times", f"{first} to {last}{what}"
    by_group, ends, group = found["passed"], found["ends"], job.settings.job.name
    if by_group is None:
        yield "group", f"{group} has no offsets yet" + (f": it begins at the first of {ends:,}" if ends else "")
    elif by_group >= ends > 0:
        way = "to begin at the first record, give the job another [job] name"
        yield "group", f"{group} has already passed all {ends:,} offsets: 'run' waits for new records; {way}"
    else:
        yield "group", f"{group} has passed {by_group:,} of {ends:,} offsets"
