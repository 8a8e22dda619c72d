"""`size`: what a number of keys needs."""

from typing import Annotated

import typer

from streamjobs.commands.console import AsJson, JobFile, compile_loops, job_of, note, say, show, table
from streamjobs.settings.types import readable

REPLAY = 10.0  # seconds of [state] replay that a shorter time is compared with


def add_to(app: typer.Typer) -> None:
    app.command("size")(size)


def size(
    job_file: JobFile,
    keys: Annotated[int, typer.Option(min=1, max=1_000_000_000, help="Number of keys that send records.")] = 10_000,
    rate: Annotated[str, typer.Option(help="Records of each key: a number for each s, min, h or day.")] = "1/s",
    as_json: AsJson = False,
) -> None:
    """Predict cores, memory, disk, changelog, partitions and workers for a number of keys.

    Measures the job's learner on this machine for a few seconds, and scales what a worker was measured to need.
    """
    from streamjobs.sizing.measure import cost, slopes
    from streamjobs.sizing.slopes import BUSY, Load, need, rate_of

    job, each = job_of(job_file), rate_of(rate)
    compile_loops(job)
    note("measuring the job's learner on this machine, a few seconds ...")
    measured, known, state = cost(job, each), slopes(), job.settings.state
    counts = sorted({keys, 10_000, 100_000, 1_000_000})
    needs = [need(known, measured, Load(count, each, state.cache, state.checkpoint, state.replay)) for count in counts]
    if as_json:
        asked = needs[counts.index(keys)]._asdict()
        show({"job": str(job_file), **asked, "table": [one._asdict() for one in needs], "cost": measured._asdict()})
        return
    say(
        f"{job_file}: {job.model}, {rate} of each key; a state has at most {readable(job.state_bytes)}, "
        f"{readable(measured.slot_bytes)} in memory"
    )
    if job.untaught is not None:
        least = readable(job.state_bytes - job.untaught.nbytes)
        say(f"of a key without a label: at most {least}, {readable(measured.untaught_bytes)} in memory")
    rows = [
        (
            f"{one.keys:,}" + (" <" if one.keys == keys and len(needs) > 3 else ""),
            f"{one.records_per_second:,.0f}",
            f"{one.cpu_us:.0f} us",
            f"{one.cores:.2f}",
            one.workers,
            one.partitions,
            readable(one.memory),
            readable(one.disk),
            f"{100 * one.live:.0f} %",
            readable(one.changelog),
            f"{one.recovery:.0f} s",
        )
        for one in needs
    ]
    columns = ("keys", "records/s", "a record", "cores", "workers", "partitions", "memory", "disk", "live", "changelog")
    table((*columns, "recovery"), rows)
    say("memory and disk: of each worker; changelog: written a day; recovery: of a worker that lost its disk")
    room = readable(state.cache)
    say(f"workers: at {100 * BUSY:.0f} % of a core each; live: keys with a state in [state] cache, {room}")
    say(
        f"measured here: {measured.live:.1f} us a record of a live key, {measured.miss:.1f} us more where its state is read "
        f"and written, fixed loop {measured.fixed_loop:.2f} s"
    )
    say(f"scaled from: {known.data['command']} (fixed loop {known.data['fixed_loop_seconds']} s)")
    rarely = need(known, measured, Load(keys, each, state.cache, state.checkpoint, REPLAY))
    as_set = needs[counts.index(keys)]
    if 2 * rarely.changelog < as_set.changelog:
        note(
            f'note: [state] replay = "{REPLAY:.0f}s" writes {readable(rarely.changelog)} a day to the changelog of '
            f"{keys:,} keys instead of {readable(as_set.changelog)}; a worker that takes over then applies up to "
            f"{REPLAY:.0f} s of records again, without their outputs."
        )
