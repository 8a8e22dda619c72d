"""The command line: commands are in streamjobs/commands; here errors become one line and an exit code.

0 ok, 1 run-time failure, 2 usage or job file, 3 environment (broker, topics, rights), 4 verification mismatch,
130 interrupted. `--debug` prints the traceback instead of the line.
"""

import sys
import traceback
import warnings
from typing import Annotated, Any

import typer

from streamjobs.commands import (
    about,
    add_examples,
    broker,
    check,
    compare,
    demo,
    describe,
    dlq,
    fit,
    init,
    replay,
    state,
    topics,
    tune,
)
from streamjobs.commands import run as worker
from streamjobs.commands.recordings import produce
from streamjobs.commands.workbench import check_learner, export, plot, relearn, settings
from streamjobs.errors import StreamjobsError
from streamjobs.process import use_one_thread

_usual_warning = warnings.formatwarning

app = typer.Typer(
    name="streamjobs",
    help="Online kernel learning on Kafka: one learner per key; features, predictions and drift events out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # the default mode takes "[state]" in a text for a style and drops it
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with 'streamjobs demo', then 'streamjobs init' for your own data.",
)


@app.callback()
def every_command(
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error; may stand anywhere.")] = False,
) -> None:
    pass  # read in `run`, before anything can fail


for group in (
    *(
        demo,
        init,
        check,
        settings,
        check_learner,
        describe,
        topics,
        produce,
        worker,
        fit,
        replay,
        plot,
        tune,
        compare,
        relearn,
        export,
    ),
    *(state, dlq, broker, about),
):
    group.add_to(app)
add_examples(app)


def main() -> None:
    """The console script of earlier releases, which an editable checkout may still have; today's is `__main__`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command line; returns its exit code."""
    use_one_thread()  # before numpy is loaded by any command
    warnings.formatwarning = _one_line
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"]
    try:
        code: Any = app(words, prog_name="streamjobs", standalone_mode=False, obj={"debug": debug})
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - here any error becomes one line
        if debug:
            traceback.print_exc()
            return _code(error)
        if sentence := _sentence(error):
            print(sentence, file=sys.stderr)
        return _code(error)
    return code if isinstance(code, int) else 0


def _one_line(message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None) -> str:
    """A warning of ours is one line for people; any other says where it comes from."""
    if category.__module__.partition(".")[0] in ("algorithms", "streamjobs"):
        return f"streamjobs: {message}\n"
    return _usual_warning(message, category, filename, lineno, line)


def _code(error: Exception) -> int:
    if isinstance(error, (StreamjobsError, typer.TyperException)):
        return error.exit_code
    return 130 if isinstance(error, typer.Abort) else 1


def _sentence(error: Exception) -> str:
    if isinstance(error, StreamjobsError):
        return str(error)
    if isinstance(error, typer.Abort):
        return "streamjobs: interrupted."
    if isinstance(error, typer.TyperException):
        message = error.format_message().strip()
        if not message:  # no command was given, and the help has been printed
            return ""
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "streamjobs"
        return f"{command}: {message}{'' if message[-1] in '.?' else '.'} See '{command} --help'."
    text = str(error).strip().splitlines()
    return f"streamjobs: {type(error).__name__}: {text[0] if text else 'no message'} (--debug prints the traceback)"
