"""`schema`, `config show`: which settings there are, and those of a job."""

import difflib
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import BaseModel

from streamjobs import __version__
from streamjobs.commands.console import AsJson, JobFile, job_of, say, show
from streamjobs.errors import ConfigError, SetupError

if TYPE_CHECKING:
    from streamjobs.settings.sections import Settings

DASHBOARDS = Path(__file__).parents[1] / "dashboards"
LIBRARIES = ("numpy", "scipy", "numba", "faust-streaming", "aiokafka", "rocksdict", "confluent-kafka", "msgspec", "pydantic")


def schema(
    job_file: Annotated[Path | None, typer.Argument(metavar="[JOB]", help="With --outputs or --sink: the job file.")] = None,
    outputs: Annotated[bool, typer.Option("--outputs", help="Print the schemas of this job's output topics.")] = False,
    form: Annotated[
        Literal["json", "avro"],
        typer.Option("--format", help="Format of --outputs and --sink: JSON Schema 2020-12, or Avro schemas."),
    ] = "json",
    sink: Annotated[str | None, typer.Option(help="The schema of one output alone, such as alarms.")] = None,
) -> None:
    """Print the JSON Schema of job files, for editors: the meaning, type and range of every setting.

    With --outputs or --sink: the schemas of the job's output topics, with keys and headers.
    """
    if not outputs and sink is None:
        from streamjobs.settings.schema import json_schema

        if job_file is not None or form != "json":
            raise ConfigError("schema: JOB and --format belong to --outputs or --sink; add one, or leave them out.")
        return show(json_schema())
    if job_file is None:
        raise ConfigError(
            "schema: each of --outputs and --sink needs the job file, as in 'streamjobs schema JOB --outputs'."
        )
    from streamjobs.outputs import schema as of_outputs

    job = job_of(job_file)
    found = of_outputs.avro_schemas(job) if form == "avro" else of_outputs.output_schemas(job)
    if sink is not None and sink not in found:
        raise ConfigError(f"schema --sink {sink}: expected an output with a schema; the job has {', '.join(found)}.")
    show(found[sink] if sink is not None else found if form == "avro" else of_outputs.document(job))


def config_show(job_file: JobFile, as_json: AsJson = False) -> None:
    """Print every setting of a job, including defaults and the environment; secrets are masked."""
    from streamjobs.settings.sections import SINKS
    from streamjobs.settings.types import toml

    job = job_of(job_file)
    table = masked(job.settings)
    table["sinks"] |= {sink: job.sinks.get(sink, "") for sink in SINKS}
    if as_json:
        show(table)
    else:
        say(toml(table))


def masked(settings: "Settings") -> dict[str, Any]:
    """Every section as a table, without absent settings; secrets are masked."""
    from streamjobs.settings.composition import sections_of

    return {name: without_secrets(section) for name, section in sections_of(settings).items()}


def without_secrets(section: BaseModel) -> dict[str, Any]:
    from streamjobs.settings.sentences import MASK, is_secret

    values = section.model_dump(exclude_none=True)
    return {name: MASK if is_secret(type(section), name) else value for name, value in values.items()}


def typed_as_option(error: Exception) -> str:
    """Where the job file has what was typed as an option or a command, as a sentence; "" for other errors."""
    from streamjobs.settings.environment import SECTION_MODELS

    command = str(error).partition("No such command '")[2].partition("'")[0]
    if command in SECTION_MODELS:
        return f" [{command}] is a section of the job file; 'streamjobs tune' and 'replay' try it on a recording."
    name = getattr(error, "option_name", "").lstrip("-").replace("-", "_")
    if not name or getattr(error, "possibilities", None):
        return ""
    for section, model in SECTION_MODELS.items():
        if near := difflib.get_close_matches(name, model.model_fields, n=1, cutoff=0.8):
            in_environment = f"STREAMJOBS_{section}__{near[0]}".upper()
            return f" '{near[0]}' is a setting of the job file: [{section}], or {in_environment} for one command."
    return ""


def version_command(as_json: AsJson = False) -> None:
    """Print the versions of streamjobs and of the libraries that its results depend on."""
    versions = {"streamjobs": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = "missing"
    if as_json:
        show(versions)
    else:
        say("\n".join(f"{name:<16} {number}" for name, number in versions.items()))


def write_dashboards(
    folder: Annotated[Path, typer.Argument(help="The folder to write to; it is created where it is missing.")],
) -> None:
    """Write the dashboards (overview, learners, delivery, person) as JSON for Grafana 10.1 or newer.

    Files of the same names are overwritten.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sorted(DASHBOARDS.glob("*.json")):
            say(str(shutil.copyfile(source, folder / source.name)))
    except OSError as error:
        raise SetupError(f"dashboards: {error.filename or folder}: cannot be written ({error.strerror}).") from None
