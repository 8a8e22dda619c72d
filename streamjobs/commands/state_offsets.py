"""`state forget-offsets`: all states go on with another input of the same name."""

import typer

from streamjobs.commands.common import JobFile, say
from streamjobs.commands.state_reading import held_in


def add_to(group: typer.Typer) -> None:
    group.command("forget-offsets")(forget_offsets)


def forget_offsets(job: JobFile) -> None:
    """Let all states go on with an input that was deleted and made anew: from its beginning, models as they are.

    No worker may run. While the input is the same topic it is refused: every record would be learned twice.
    """
    from streamjobs.commands.loading import job_of
    from streamjobs.errors import ConfigError, SetupError
    from streamjobs.shell import identity, operating, scanning, topics
    from streamjobs.state.renewing import unplaced

    made = job_of(job)
    settings = made.settings
    operating.refuse_running(settings)
    changelog, source = topics.changelog(settings), settings.source.topic
    read_at = operating.ends(settings, changelog, committed_only=False)
    present = identity.topic_id(operating.admin_of(settings), source)
    if not present:
        raise SetupError(f"topic {source}: not there, or the broker does not tell its id; nothing was changed.")
    known = scanning.sources(settings)
    if not known:
        raise ConfigError(
            f"topic {changelog}: does not tell which topic these states have learned from (an older release wrote them); "
            "nothing was changed. Give the job a new [job] name where the input was made anew."
        )
    if set(known.values()) == {present}:
        raise ConfigError(f"topic {source}: it is the one these states have learned from; nothing was changed.")
    changes: dict[int, list[tuple[bytes, bytes | None]]]
    changes = {number: [] for number in read_at if known.get(number) != present}  # some go on with it: it was interrupted
    held = [entry for entry in held_in(made, None).entries.values() if entry.partition in changes]
    for entry in held:
        changes[entry.partition].append((entry.key, unplaced(entry)))
    for changed in changes.values():
        if not changed:
            changed.append((b"", None))  # no key's: the partition's local store hears of the new topic by it
    operating.write(settings, changes, read_at, anew=present)
    say(f"{len(held):,} states go on with topic {source} as it is now, from its beginning")
