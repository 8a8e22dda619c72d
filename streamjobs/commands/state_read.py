"""`state list|show|top|diff|verify`: what the changelog, or a copy of it, holds. Also while workers run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from streamjobs.commands.console import AsJson, JobFile, moment, note, say, show, table
from streamjobs.settings.types import readable

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.maintenance.compare import Change
    from streamjobs.maintenance.copies import Copy, Entry
    from streamjobs.maintenance.summary import Summary

Key = Annotated[str, typer.Argument(metavar="KEY", help="As 'state list' shows it.")]
CopyFile = Annotated[
    Path | None, typer.Option("--copy", help="A file of 'state export --all' instead of the changelog; asks no broker.")
]
Order = Literal["key", "seen", "rows", "bytes", "offset", "ls_error"]

COLUMNS = ("key", "partition", "rows", "seen", "labels", "offset", "LS error", "bytes", "newest sample", "written")


def add_to(group: typer.Typer) -> None:
    group.command("list")(list_command)
    group.command("show")(show_command)
    group.command("top")(top)
    group.command("diff")(diff)
    group.command("verify")(verify)


def list_command(
    job: JobFile,
    sort: Annotated[Order, typer.Option(help="Ascending by key, descending by a figure.")] = "key",
    limit: Annotated[int, typer.Option(min=0, help="Most keys; 0: all.")] = 100,
    copy: CopyFile = None,
    as_json: AsJson = False,
) -> None:
    """List the keys with their rows, last applied input offset and size."""
    from streamjobs.job_files import job_of

    made = job_of(job)
    lines = _lines(made, held_in(made, copy))
    _print(lines, sort, limit, as_json)


def top(
    job: JobFile,
    by: Annotated[Literal["ls_error", "bytes", "seen"], typer.Option("--by", help="What is largest.")] = "ls_error",
    limit: Annotated[int, typer.Option(min=1, help="How many keys.")] = 10,
    copy: CopyFile = None,
    as_json: AsJson = False,
) -> None:
    """The keys with the largest mean LS error of late, the largest states or the most rows."""
    from streamjobs.errors import ConfigError
    from streamjobs.job_files import job_of

    made = job_of(job)
    lines = [line for line in _lines(made, held_in(made, copy)) if line.problem is None]
    if by == "ls_error" and lines and all(line.ls_error is None for line in lines):
        raise ConfigError(
            f"{job}: no key's state holds a mean LS error; okfeb with censor = 'moving_average' or a [drift] that watches "
            "it keeps one. Use --by seen or bytes."
        )
    _print(lines, by, limit, as_json)


def held_in(job: "Job", copy: Path | None, key: str | None = None) -> "Copy":
    """All snapshots, or only those of a key: of a copy, or of the changelog.

    Raises ConfigError for a file that cannot be read, SnapshotError for a damaged one, SetupError without broker or topic.
    """
    from streamjobs.maintenance.copies import shown
    from streamjobs.maintenance.scan import newest

    if copy is not None:
        return copy_of(copy)
    if key is None:
        return newest(job.settings, job.fingerprint)
    exact = key.encode("utf-8", "surrogateescape")
    return newest(job.settings, job.fingerprint, lambda one: one == exact or shown(one) == key)


def copy_of(path: Path) -> "Copy":
    from streamjobs.errors import SnapshotError
    from streamjobs.maintenance.copies import decode

    try:
        return decode(bytes_of(path))
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None


def bytes_of(path: Path) -> bytes:
    from streamjobs.errors import ConfigError

    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); 'streamjobs state export' writes such files."
        ) from None


def entries_of(copy: "Copy", key: str) -> "list[Entry]":
    """Those of a key; raises ConfigError where there is none."""
    from streamjobs.errors import ConfigError

    found = copy.of(key)
    if not found:
        raise ConfigError(f"key {key!r}: no state in {copy.topic}; 'streamjobs state list' shows the keys there are.")
    return found


def _lines(job: "Job", copy: "Copy") -> "list[Summary]":
    """A line per key; raises SnapshotError where not one of them can be used."""
    from streamjobs.errors import SnapshotError
    from streamjobs.maintenance.summary import summary

    lines = [summary(job, entry) for entry in copy.entries.values()]
    if lines and all(line.problem is not None for line in lines):
        raise SnapshotError(f"{copy.topic}: none of its {len(lines):,} keys can be used; the first: {lines[0].problem}")
    return lines


def _print(lines: "list[Summary]", sort: str, limit: int, as_json: bool) -> None:
    def largest(line: "Summary") -> tuple[float, str]:
        value = getattr(line, sort)
        return (float("inf") if value is None else -float(value)), line.key

    ordered = sorted(lines, key=lambda line: (line.key, line.partition) if sort == "key" else largest(line))
    taken = ordered[:limit] if limit else ordered
    if as_json:
        show({"keys": len(lines), "bytes": sum(line.bytes for line in lines), "states": [one._asdict() for one in taken]})
        return
    if taken:
        table(COLUMNS, [_row(line) for line in taken], left=("key",))
    for line in taken:
        if line.problem is not None:
            note(line.problem)
    more = f", {len(taken):,} shown" if len(taken) < len(lines) else ""
    say(f"{len(lines):,} keys, {readable(sum(line.bytes for line in lines))}{more}")


def _row(line: "Summary") -> tuple[Any, ...]:
    event = moment(None if line.event_time is None else line.event_time * 1000)
    figures = line.rows, line.seen, line.labels, line.offset, line.ls_error, line.bytes
    return line.key, line.partition, *figures, event, moment(line.written)


def show_command(job: JobFile, key: Key, copy: CopyFile = None, as_json: AsJson = False) -> None:
    """Decode a key's state: stages, shapes, norms, LS error, classes, drift."""
    from streamjobs.job_files import job_of
    from streamjobs.maintenance.summary import details

    made = job_of(job)
    found = [details(made, entry) for entry in entries_of(held_in(made, copy, key), key)]
    if as_json:
        show(found)
        return
    for one in found:
        _show(one)


def _show(found: dict[str, Any]) -> None:
    say(f"{found['key']} in partition {found['partition']}: {readable(found['bytes'])}, written {moment(found['written'])}")
    event = found["event_time"]
    say(f"  rows       {found['rows']:,} of this key, {found['seen']:,} seen by its learner")
    say(f"  input      last applied {', '.join(f'{name} {at}' for name, at in found['offsets'].items()) or 'none yet'}")
    say(f"  samples    the newest of {moment(None if event is None else event * 1000)}")
    if found["ls_error"] is not None:
        say(f"  LS error   {found['ls_error']:.4g}, mean of {found['ls_error_over']}")
    if found["classes"]:
        say(f"  labels     {', '.join(f'{name} {count:,}' for name, count in found['classes'].items())}")
    for name, fields in found["drift"].items():
        told = ", ".join(f"{field} {value:.4g}" for field, value in fields.items() if value is not None)
        say(f"  {name:<10} {told}")
    say()
    rows = [
        (one["stage"], one["name"], "x".join(map(str, one["shape"])) or "1", one["bytes"], one["norm"], one["value"])
        for one in found["fields"]
    ]
    table(("stage", "field", "shape", "bytes", "norm", "value"), rows, left=("stage", "field", "shape", "value"))


def diff(
    job: JobFile,
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A file of 'state export --all'.")],
    new: Annotated[
        Path | None, typer.Argument(metavar="[NEW]", help="A later one; absent: the changelog as it is now.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only this key, field by field.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what has changed since a copy was made: keys new, gone and changed; of one key the fields."""
    from streamjobs.job_files import job_of
    from streamjobs.maintenance.copies import differing, shown

    made = job_of(job)
    before, after = copy_of(old), held_in(made, new, key)
    if key is None:
        found = {
            kind: [(shown(name), number) for number, name in places] for kind, places in differing(before, after).items()
        }
        if as_json:
            show(found)
        else:
            _tell_keys(found)
        return
    fields = _fields(made, before, after, key)
    if as_json:
        show({partition: [one._asdict() for one in changes] for partition, changes in fields.items()})
    else:
        _tell_fields(key, fields)


def _fields(job: "Job", before: "Copy", after: "Copy", key: str) -> "dict[int, list[Change]]":
    from streamjobs.errors import ConfigError
    from streamjobs.maintenance.compare import changes

    old = {entry.partition: entry for entry in entries_of(before, key)}
    new = {entry.partition: entry for entry in entries_of(after, key)}
    if old.keys() != new.keys():
        raise ConfigError(
            f"key {key!r}: expected it in the same partitions, got {sorted(old)} before and {sorted(new)} now."
        )
    return {partition: changes(job, entry, new[partition]) for partition, entry in old.items()}


def _tell_keys(found: dict[str, list[tuple[str, int]]]) -> None:
    rows = [(kind, key, number) for kind in ("new", "gone", "changed") for key, number in found[kind]]
    if rows:
        table(("what", "key", "partition"), rows, left=("what", "key"))
    say(", ".join(f"{len(places):,} {kind}" for kind, places in found.items()))


def _tell_fields(key: str, fields: "dict[int, list[Change]]") -> None:
    for partition, changes in fields.items():
        if not changes:
            say(f"{key} in partition {partition}: the same to the last bit")
            continue
        rows = [(one.stage, one.name, _shape(one.before), _shape(one.after), one.largest, one.share) for one in changes]
        say(f"{key} in partition {partition}")
        columns = ("stage", "field", "before", "now", "largest change", "of the norm")
        table(columns, rows, left=("stage", "field", "before", "now"))


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def verify(
    job: JobFile,
    against: Annotated[
        Path | None, typer.Option(help="An older file of 'state export --all' that the states must not fall behind.")
    ] = None,
    copy: CopyFile = None,
    as_json: AsJson = False,
) -> None:
    """Check that every snapshot decodes, is this job's, and stands on input that exists. Anything else: code 4."""
    from streamjobs.errors import MismatchError
    from streamjobs.job_files import job_of
    from streamjobs.maintenance import changelog_edit
    from streamjobs.maintenance.compare import verified

    made = job_of(job)
    older = copy_of(against) if against is not None else None
    held = held_in(made, copy)
    ends = committed = None
    if copy is None:  # after the snapshots: their input was there before them
        ends = changelog_edit.ends(made.settings, made.settings.source.topic, committed_only=False)
        committed = changelog_edit.committed(made.settings, ends)
    found = verified(made, held, ends, committed, older)
    if as_json:
        show(found._asdict())
    if found.problems:
        raise MismatchError("\n".join(found.problems))
    if not as_json:
        ahead = f"; {found.ahead:,} are ahead of the committed offsets and will skip what they know" if found.ahead else ""
        say(f"{found.keys:,} keys: every snapshot decodes, is this job's and stands on input that exists{ahead}")
