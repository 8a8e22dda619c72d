"""`check`, `schema`, `config show`: before running."""

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from streamjobs.commands.console import AsJson, JobFile, note, say, show
from streamjobs.settings.types import readable

if TYPE_CHECKING:
    from streamjobs.core.job import Job
    from streamjobs.settings.sections import Settings

SAMPLED = 10_000  # records of a sample that are decoded


def add_to(app: typer.Typer) -> None:
    app.command("check")(check)
    app.command("schema")(schema)
    group = typer.Typer(help="The settings a job really runs with.", no_args_is_help=True)
    group.callback()(_group)  # keeps 'config show' a group of one
    group.command("show")(config_show)
    app.add_typer(group, name="config")


def _group() -> None:
    pass


def check(
    job: JobFile,
    online: Annotated[bool, typer.Option("--online", help="Also the broker: topics, partition counts, rights.")] = False,
    sample: Annotated[Path | None, typer.Option(help="A recording; its first rows are decoded as the worker would.")] = None,
    key: Annotated[str | None, typer.Option(help="The sample's column with the key.")] = None,
    keys: Annotated[int, typer.Option(min=1, help="How many keys to predict sizes for.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Find every mistake in a job file at once, and predict the size of its states."""
    from streamjobs.errors import SetupError
    from streamjobs.job_files import job_of
    from streamjobs.kafka.certificates import check_authority
    from streamjobs.kafka.secrets import exposed, unreadable
    from streamjobs.settings.notes import notes

    made = job_of(job)
    check_authority(made.settings.broker)
    told = [*notes(made.settings), *unreadable(made.settings.broker), *exposed(made.settings.broker)]
    found: dict[str, Any] = {"job": str(job), "advice": told, **_predicted(made, keys)}
    if sample is not None:
        found["sample"] = _sampled(made, sample, key)
    if online:
        from streamjobs.kafka.preflight import expiring_certificates, obstacles

        problems = obstacles(made.settings, made)
        if problems:
            raise SetupError("\n".join(problems))
        found["advice"] += expiring_certificates(made.settings.broker)
        found["online"] = "the broker answers; every topic is there and fits; every right is granted"
    if as_json:
        show(found)
    else:
        _tell(found, keys)


def _predicted(job: "Job", keys: int) -> dict[str, Any]:
    checkpoint = job.settings.state.checkpoint
    stages = {name: text for name, text in job.described.items() if name not in ("dim", "labels", "classes")}
    return {
        "model": job.model,
        "dim": job.dim,
        "learner_dim": job.width,
        "stages": stages,
        "topics": {"input": job.settings.source.topic, **job.sinks},
        "state_bytes_per_key": job.state_bytes,
        "keys": keys,
        "state_bytes": job.state_bytes * keys,
        "changelog_bytes_per_second": job.state_bytes * keys / checkpoint,
        "checkpoint_seconds": checkpoint,
    }


def _sampled(job: "Job", path: Path, key: str | None) -> dict[str, Any]:
    from streamjobs.errors import ConfigError
    from streamjobs.recordings.files import records_of

    if key is None:
        raise ConfigError("--sample needs --key, the column with the key.")
    records = list(islice(records_of(path, job.settings.source, key, side=job.settings.side), SAMPLED))
    decoded = job.decode(records)
    reasons: dict[str, int] = {}
    for _, error in decoded.errors:
        reasons[error.reason] = reasons.get(error.reason, 0) + 1
    return {
        "records": len(records),
        "samples": len(decoded.owner),
        "keys": len({record.key for record in records}),
        "labelled": sum(label is not None for label in decoded.labels),
        "dead_letters": reasons,
        "first_error": str(decoded.errors[0][1]) if decoded.errors else None,
    }


def _tell(found: dict[str, Any], keys: int) -> None:
    for sentence in found["advice"]:
        note(f"note: {sentence}")
    topics = "  ".join(f"{role} {topic}" for role, topic in found["topics"].items())
    say(f"{found['job']}: no mistakes")
    say(f"  model      {found['model']} on {found['learner_dim']} numbers a row ({found['dim']} a sample)")
    for name, text in found["stages"].items():
        say(f"  {name:<10} {text}")
    say(f"  topics     {topics}")
    say(
        f"  state      at most {readable(found['state_bytes_per_key'])} a key; "
        f"{keys:,} keys: {readable(found['state_bytes'])}"
    )
    say(
        f"  changelog  at most {readable(found['changelog_bytes_per_second'])}/s with {keys:,} active keys "
        f"(a write per changed key every {found['checkpoint_seconds']:g} s)"
    )
    if "sample" in found:
        taken = found["sample"]
        say(
            f"  sample     {taken['records']:,} records of {taken['keys']:,} keys: {taken['samples']:,} samples, "
            f"{taken['labelled']:,} labelled, {sum(taken['dead_letters'].values()):,} dead letters"
        )
        if taken["first_error"]:
            counts = ", ".join(f"{reason} {count}" for reason, count in taken["dead_letters"].items())
            say(f"             {counts}; the first: {taken['first_error']}")
    if "online" in found:
        say(f"  online     {found['online']}")


def schema() -> None:
    """Print the job file's JSON Schema, for editors: every setting with its meaning, type and range."""
    from streamjobs.settings.schema import json_schema

    show(json_schema())


def config_show(job: JobFile, as_json: AsJson = False) -> None:
    """Print every setting as the job would run with it, defaults and environment included; secrets are masked."""
    from streamjobs.job_files import job_of

    made = job_of(job)
    table = masked(made.settings)
    table["sinks"] = {sink: made.sinks.get(sink, "") for sink in ("features", "predictions", "drift", "dlq")}
    if as_json:
        show(table)
    else:
        say(toml(table))


def masked(settings: "Settings") -> dict[str, Any]:
    """Every section as a table, without what is absent; secrets are replaced."""
    names = type(settings).model_fields
    sections = {name: section for name in names if (section := getattr(settings, name)) is not None}
    return {name: without_secrets(section) for name, section in sections.items()}


def without_secrets(section: BaseModel) -> dict[str, Any]:
    """A section's settings, those marked as secret replaced by asterisks."""
    from streamjobs.settings.sentences import MASK, is_secret

    values = section.model_dump(exclude_none=True)
    return {name: MASK if is_secret(type(section), name) else value for name, value in values.items()}


def toml(table: Mapping[str, Any]) -> str:
    """Sections of settings as TOML.

    >>> print(toml({"learner": {"name": "okfeb", "kernel": {"bandwidth": 1.5}}}))
    [learner]
    name = "okfeb"
    kernel = { bandwidth = 1.5 }
    """
    sections = []
    for section, settings in table.items():
        lines = [f"{name} = {_value(value)}" for name, value in settings.items()]
        sections.append("\n".join([f"[{section}]", *lines]))
    return "\n\n".join(sections)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_value(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(inner) for inner in value) + "]"
    return json.dumps(value, ensure_ascii=False)  # texts, numbers, true and false look the same in TOML
