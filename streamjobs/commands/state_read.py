"""`state list|show|verify`: reads the changelog, or a copy of it. Workers may run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from streamjobs.commands.console import AsJson, JobFile, counted, job_of, moment, note, say, show, table
from streamjobs.errors import ConfigError, MismatchError, SnapshotError
from streamjobs.settings.types import many, readable, shortened

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.maintenance.copies import Copy, Entry
    from streamjobs.maintenance.summary import Summary

Key = Annotated[str, typer.Argument(metavar="KEY", help="The key, as 'state list' shows it.")]
CopyFile = Annotated[
    Path | None, typer.Option("--copy", help="Read this file of 'state export --all', not the changelog; needs no broker.")
]
Changes = dict[int, list[tuple[bytes, bytes | None]]]  # by partition: a key, and its new snapshot; None ends its state
Order = Literal["key", "seen", "rows", "bytes", "offset", "ls_error"]

COLUMNS = ("key", "partition", "rows", "seen", "labels", "offset", "LS error", "bytes", "newest sample", "written")


def list_command(
    job_file: JobFile,
    sort: Annotated[Order, typer.Option(help="Sort by this column: key ascending, all others descending.")] = "key",
    limit: Annotated[int, typer.Option(min=0, help="Number of keys to list; 0: all.")] = 100,
    copy: CopyFile = None,
    as_json: AsJson = False,
) -> None:
    """List the keys with rows, last applied input offset, LS error and size in bytes."""
    job = job_of(job_file)
    states = read_copy(job, copy)
    found = list(states.entries.values())
    if by_entry := _order(job, sort):
        found.sort(key=by_entry)
        lines = _lines(job, states, found[:limit] if limit else found)
    else:
        lines = sorted(_lines(job, states, found), key=_descending(sort))
        if sort == "ls_error" and found and all(line.ls_error is None for line in lines):
            note("sorted by key: no state has an LS error, which only some learners and a [drift] of LS errors keep")
    _print_lines(lines, len(found), sum(len(entry.data) for entry in found), limit, as_json)
    if copy is None and job.settings.state.replay:
        listed = "listed as last written" if found else "no state is written yet"
        note(f"{listed}: a worker that runs writes each change within 4 minutes, or as [state] replay says")


def read_copy(job: "Job", copy: Path | None, key: str | None = None) -> "Copy":
    """All snapshots, or only those of a key, from a copy or from the changelog.

    Raises ConfigError for a file that cannot be read, SnapshotError for a damaged one, SetupError without broker or topic.
    """
    from streamjobs.maintenance.copies import printable
    from streamjobs.maintenance.scan import newest_snapshots

    if copy is not None:
        return load_copy(copy)
    if key is None:
        return newest_snapshots(job.settings, job.fingerprint, counted=counted)
    exact = key.encode("utf-8", "surrogateescape")
    return newest_snapshots(
        job.settings, job.fingerprint, lambda one: one == exact or printable(one) == key, counted=counted
    )


def load_copy(path: Path) -> "Copy":
    """The copy in a file; raises ConfigError if it cannot be read, SnapshotError if it is damaged."""
    from streamjobs.maintenance.copies import decode

    try:
        return decode(read_file(path))
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None


def read_file(path: Path) -> bytes:
    """The bytes of a file of 'state export'; raises ConfigError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); 'streamjobs state export' writes one.") from None


def entries_of(copy: "Copy", key: str) -> "list[Entry]":
    """The entries of a key, one per partition; raises ConfigError if there is none."""
    entries = copy.of(key)
    if not entries:
        raise ConfigError(
            f"key {key!r}: no state in {copy.topic}; 'streamjobs state list' shows the keys. A worker writes a new "
            "key's state within 4 minutes, and before that serves it at /api/keys/KEY of its page."
        )
    return entries


def _lines(job: "Job", copy: "Copy", entries: "list[Entry]") -> "list[Summary]":
    """A line for each of these entries of a copy; raises SnapshotError if nothing in the whole copy can be used."""
    from streamjobs.maintenance.summary import summary

    lines = [summary(job, entry) for entry in counted(entries, "states decoded")]
    if lines and all(line.problem is not None for line in lines):
        listed = {(entry.partition, entry.key) for entry in entries}
        others = (entry for place, entry in copy.entries.items() if place not in listed)
        if all(summary(job, entry).problem is not None for entry in others):
            raise SnapshotError(
                f"{copy.topic}: none of its {len(copy.entries):,} keys can be used; the first: {lines[0].problem}"
            )
    return lines


def _order(job: "Job", sort: str) -> "Callable[[Entry], Any] | None":
    """The order of entries by this column where it is known before a state is decoded, which takes a millisecond or two."""
    from streamjobs.maintenance.copies import printable
    from streamjobs.maintenance.renew import offsets_of

    def offset(entry: "Entry") -> tuple[float, str]:
        last = (offsets_of(entry) or {}).get((job.settings.source.topic, entry.partition))
        return (float("inf") if last is None else -last), printable(entry.key)

    orders: dict[str, Callable[[Entry], Any]] = {
        "key": lambda entry: (printable(entry.key), entry.partition),
        "bytes": lambda entry: (-len(entry.data), printable(entry.key)),
        "offset": offset,
    }
    return orders.get(sort)


def _descending(column: str) -> "Callable[[Summary], tuple[float, str]]":
    def order(line: "Summary") -> tuple[float, str]:
        value = getattr(line, column)
        return (float("inf") if value is None else -float(value)), line.key

    return order


def _print_lines(lines: "list[Summary]", keys: int, size: int, limit: int, as_json: bool) -> None:
    """The first lines, and a last one about all keys and their bytes."""
    listed = lines[:limit] if limit else lines
    if as_json:
        return show({"keys": keys, "bytes": size, "states": [one._asdict() for one in listed]})
    if listed:
        table(COLUMNS, [_row(line) for line in listed], left=("key",))
    for line in listed:
        if line.problem is not None:
            note(line.problem)
    more = f", {len(listed):,} shown" if len(listed) < keys else ""
    say(f"{keys:,} {'key' if keys == 1 else 'keys'}, {readable(size)}{more}")


def _row(line: "Summary") -> tuple[Any, ...]:
    event = moment(None if line.event_time is None else line.event_time * 1000)
    figures = line.rows, line.seen, line.labels, line.offset, line.ls_error, line.bytes
    return line.key, line.partition, *figures, event, moment(line.written)


def show_command(job_file: JobFile, key: Key, copy: CopyFile = None, as_json: AsJson = False) -> None:
    """Show a key's state: fields of each stage with shapes, bytes, norms, LS error, classes, drift, number of prototypes."""
    from streamjobs.maintenance.summary import details

    job = job_of(job_file)
    entries = entries_of(read_copy(job, copy, key), key)
    keys = [details(job, entry) for entry in entries]
    if as_json:
        return show(keys)
    for one in keys:
        _print_details(job, one)


def _print_details(job: "Job", about: dict[str, Any]) -> None:
    key, size = shortened(about["key"]), readable(about["bytes"])
    say(f"{key} in partition {about['partition']}: {size}, written {moment(about['written'])}")
    event = about["event_time"]
    say(f"  bytes      {', '.join(f'{name} {count:,}' for name, count in about['parts'].items())}")
    say(f"  rows       {about['rows']:,} of this key, {about['seen']:,} seen by its learner")
    say(f"  input      last applied {', '.join(f'{name} {at}' for name, at in about['offsets'].items()) or 'none yet'}")
    say(f"  samples    the newest of {moment(None if event is None else event * 1000)}")
    if about["ls_error"] is not None:
        say(f"  LS error   {about['ls_error']:.4g}, mean of {about['ls_error_over']}")
    if about["classes"]:
        say(f"  labels     {', '.join(f'{name} {count:,}' for name, count in about['classes'].items())}")
    for part, count in about["prototypes"].items():
        say(f"  prototypes {count:,} of {part}")
    for name, bandwidth in about["bandwidths"].items():
        sentence = (
            "not chosen yet: rows wait"
            if bandwidth is None
            else f"{bandwidth:.4g}, chosen; stored samples are divided by it"
        )
        say(f"  bandwidth  of {name}: {sentence}")
    for name, fields in about["drift"].items():
        text = ", ".join(f"{field} {value:.4g}" for field, value in fields.items() if value is not None and field != "seed")
        say(f"  {name:<10} {text}")
    say()
    times = {(stage, name) for stage, of in job.own.items() for name in of.times}
    rows = [
        (
            *(one["stage"], one["name"], "x".join(map(str, one["shape"])) or "1", one["bytes"], one["norm"]),
            _value(one["value"], time=(one["stage"], one["name"]) in times),
        )
        for one in about["fields"]
    ]
    table(("stage", "field", "shape", "bytes", "norm", "value"), rows, left=("stage", "field", "shape", "value"))


def _value(value: Any, *, time: bool) -> Any:
    """Of a field, as the table shows it; an event time next to its number.

    >>> _value(1.7e9, time=True), _value(0.0, time=True), _value(1.7e9, time=False)
    ('1700000000 (2023-11-14 22:13:20)', 0.0, 1700000000.0)
    """
    return f"{value:.15g} ({moment(1000 * value)})" if time and isinstance(value, float) and value else value


def verify(
    job_file: JobFile,
    against: Annotated[
        Path | None, typer.Option(help="An older file of 'state export --all'; the states must not be behind it.")
    ] = None,
    copy: CopyFile = None,
    as_json: AsJson = False,
) -> None:
    """Check that every snapshot decodes, belongs to this job, and has applied only input that exists.

    Ends with code 4 otherwise.
    """
    from streamjobs.kafka import preflight
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.verify import verified

    job = job_of(job_file)
    older = load_copy(against) if against is not None else None
    present = read_copy(job, copy)
    ends = committed = None
    if copy is None:  # read after the snapshots, so that it includes their input
        ends = changelog_edit.end_offsets(job.settings, job.settings.source.topic, committed_only=False)
        committed = changelog_edit.committed_offsets(job.settings, ends)
    result = verified(job, present, ends, committed, older, counted)
    if copy is None:
        known = preflight.origin_of(job.settings, changelog_edit.admin_of(job.settings))
        lost = [*preflight.changelog_problems(job.settings, known), *changelog_edit.deleted_states(job.settings)]
        result = result._replace(problems=[*lost, *result.problems])
    if as_json:
        show(result._asdict())
    if result.problems:
        raise MismatchError("\n".join(result.problems))
    if not as_json:
        ahead = (
            f"; {result.ahead:,} are ahead of the committed offsets and will skip records that they have applied"
            if result.ahead
            else ""
        )
        say(
            f"{many(result.keys, 'key')}: every snapshot decodes, belongs to this job and refers to input that exists{ahead}"
        )
