"""The command line: commands are in streamjobs/commands; here errors become one line and an exit code.

0 ok, 1 run-time failure, 2 usage or job file, 3 environment (broker, topics, rights), 4 verification mismatch,
130 interrupted. `--debug` prints the traceback instead of the line.
"""

import functools
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from streamjobs.commands import (
    check,
    demo,
    describe,
    dlq,
    fit,
    init,
    replay,
    state,
    state_change,
    state_read,
    topics,
    tune,
)
from streamjobs.commands import run as worker
from streamjobs.commands.recordings import produce
from streamjobs.commands.workbench import export, settings
from streamjobs.errors import ConfigError, StreamjobsError
from streamjobs.process import INTERRUPTED, collect_rarely, use_one_thread

Commands = Mapping[str, tuple[Callable[..., None], str]]  # by name, each with the example at the end of its --help
COMMANDS: Commands = {
    "demo": (demo.demo, "--seconds 60"),
    "init": (init.init, "job.toml --sample records.jsonl"),
    "check": (check.check, "job.toml --sample records.jsonl --key person"),
    "size": (check.size, "job.toml --keys 50000 --rate 1/s"),
    "schema": (settings.schema, "job.toml --sink predictions --format avro"),
    "check-learner": (describe.check_learner, "mypackage.nearest:Nearest --set budget=20"),
    "describe": (describe.describe, "okfeb --set rank=10"),
    "rekey": (topics.rekey, "job.toml"),
    "produce": (produce.produce, "job.toml records.jsonl --key person"),
    "run": (worker.run, "job.toml"),
    "fit": (fit.fit, "job.toml --input recordings --key person"),
    "replay": (replay.replay, "job.toml --input records.jsonl --key person --output-dir out"),
    "plot": (export.plot, "drift job.toml --from out --output drift.svg"),
    "tune": (tune.tune, "job.toml --input records.jsonl --key person"),
    "compare": (tune.compare, "job.toml --learners job,rls,krls --input records.jsonl --key person --delay 20s"),
    "export": (export.export, "job.toml predictions --output predictions.csv"),
    "version": (settings.version_command, "--json"),
}
TOPICS: Commands = {
    "plan": (topics.plan, "job.toml --acl --principal User:wrist"),
    "create": (topics.create, "job.toml --partitions 8"),
    "grow": (topics.grow, "job.toml --dry-run"),
}
DRIFT: Commands = {
    "tune": (tune.drift_tune, "job.toml --input records.jsonl --key machine --quiet-until 2026-11-21T12:00"),
    "relearn": (state.relearn, "job.toml pump-7 pump-9"),
}
STATE: Commands = {
    "list": (state_read.list_command, "job.toml --sort ls_error --limit 20"),
    "show": (state_read.show_command, "job.toml p7"),
    "verify": (state_read.verify, "job.toml"),
    "reset": (state_change.reset, "job.toml p7"),
    "forget": (state_change.forget, "job.toml p7 --count"),
    "export": (state_change.export, "job.toml --all --output monday.states"),
    "import": (state_change.import_command, "job.toml healthy.state --key pump-7"),
    "forget-offsets": (state_change.forget_offsets, "job.toml"),
    "migrate": (state.migrate, "job.toml"),
    "repartition": (state.repartition, "job.toml --dry-run"),
    "restore": (state.restore, "job.toml p7 --copy monday.states"),
}
DLQ: Commands = {
    "list": (dlq.list_command, "job.toml --reason malformed"),
    "show": (dlq.show_command, "job.toml 3:1041"),
    "redrive": (dlq.redrive, "job.toml --reason malformed --dry-run"),
}
BROKER: Commands = {"start": (demo.start, "--port 9092"), "stop": (demo.stop, "")}
GROUPS: Mapping[str, tuple[str, Commands]] = {
    "config": ("Show the settings that a job runs with.", {"show": (settings.config_show, "job.toml")}),
    "topics": ("Plan, create and grow the topics of a job.", TOPICS),
    "drift": ("Detectors on recordings, and new references.", DRIFT),
    "state": ("Inspect, compare, export and change the states of a job's keys.", STATE),
    "dlq": ("List dead letters (records that could not be used) and send them back.", DLQ),
    "broker": ("Start and stop a single-node Apache Kafka for development (needs Java 17 and Maven).", BROKER),
    "dashboards": ("Dashboards for Grafana.", {"write": (settings.write_dashboards, "dashboards")}),
}

FOLDER = "to read several files, name the folder or the .zip archive that has them"
ONCE = {
    "--sample": FOLDER,
    "--input": FOLDER,
    "--from-topic": "init guesses from one topic",
    "--key": "it takes one column, or one key",
    "--label": "a job has one label",
}

_usual_warning = warnings.formatwarning

app = typer.Typer(
    name="streamjobs",
    help="Learn online from Kafka topics, one kernel learner for each key: features, predictions and drift alarms.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # the default mode takes "[state]" in a text for a style and drops it
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with 'streamjobs demo', then 'streamjobs init' for your own data. Exit codes: 0 success, 1 failure while "
    "running, 2 wrong usage or job file, 3 problem outside (broker, topics, rights), 4 verification found differences.",
)


class _Command(TyperCommand):
    """Refuses data, a key or a label that is named twice: the parser would use the last name alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = Counter(one.opts[0] for one in self.make_parser(ctx).parse_args([*args])[2] if not one.multiple)
        for option, advice in ONCE.items():
            if (times := given[option]) > 1:
                raise ConfigError(f"{ctx.command_path}: expected {option} once, got it {times} times; {advice}.")
        return super().parse_args(ctx, args)


def _add(group: typer.Typer, commands: Commands, above: str = "") -> None:
    for name, (command, example) in commands.items():
        group.command(name, cls=_Command, epilog=f"Example: streamjobs {above}{name} {example}".rstrip())(command)


def _version(asked: bool) -> None:
    if asked:
        settings.version_command()
        raise typer.Exit


@app.callback()
def every_command(
    debug: Annotated[
        bool, typer.Option("--debug", help="Print the traceback of an error; works anywhere in the line.")
    ] = False,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the versions.")] = False,
) -> None:
    pass  # --debug is read in `run`, before anything can fail


for name, (words, commands) in GROUPS.items():
    group = typer.Typer(help=words, no_args_is_help=True)
    _add(group, commands, f"{name} ")
    app.add_typer(group, name=name)
_add(app, COMMANDS)


@functools.cache
def _built() -> Callable[..., Any]:
    """All commands with their options: made once by a process that runs several commands, 45 ms each time."""
    return get_command(app)


def run(arguments: list[str]) -> int:
    """Run a command line; returns its exit code."""
    use_one_thread()  # before numpy is loaded by any command
    collect_rarely()
    warnings.formatwarning = _one_line
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"]
    try:
        code: Any = _built()(words, prog_name="streamjobs", standalone_mode=False, obj={"debug": debug})
    except Exception as error:  # noqa: BLE001 - here any error becomes one line
        if debug:
            traceback.print_exc()
            return _code(error)
        if sentence := _sentence(error):
            print(sentence, file=sys.stderr)
        return _code(error)
    if code == INTERRUPTED:
        print("streamjobs: interrupted.", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _one_line(message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None) -> str:
    """A warning of ours is one line for people; any other says where it comes from."""
    if category.__module__.partition(".")[0] in ("algorithms", "streamjobs"):
        return f"streamjobs: {message}\n"
    return _usual_warning(message, category, filename, lineno, line)


def _code(error: Exception) -> int:
    if isinstance(error, (StreamjobsError, typer.TyperException)):
        return error.exit_code
    return INTERRUPTED if isinstance(error, typer.Abort) else 1


def _sentence(error: Exception) -> str:
    if isinstance(error, StreamjobsError):
        return str(error)
    if isinstance(error, typer.Abort):
        return "streamjobs: interrupted."
    if isinstance(error, typer.TyperException):
        message = error.format_message().strip().replace(": Value error,", ":", 1)  # as pydantic begins it
        if not message:  # no command was given, and the help has been printed
            return ""
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "streamjobs"
        ends = "" if message[-1] in ".?" else "."
        return f"{command}: {message}{ends}{settings.typed_as_option(error)} See '{command} --help'."
    text = str(error).strip().splitlines()
    return f"streamjobs: {type(error).__name__}: {text[0] if text else 'no message'} (--debug prints the traceback)"
