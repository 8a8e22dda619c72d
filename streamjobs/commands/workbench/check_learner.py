"""`check-learner`: a learner of one's own under every check that the registry's are held by."""

import dataclasses
import importlib
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard

import typer

from streamjobs.commands.console import AsJson, note, say, show
from streamjobs.errors import ConfigError, MismatchError

if TYPE_CHECKING:
    from algorithms import Learner
    from streamjobs.learner_checks.case import Case


def check_learner(
    learner: Annotated[str, typer.Argument(metavar="MODULE:CLASS", help="The learner, such as my_package.nearest:Nearest.")],
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, written as in a job file; may be repeated."),
    ] = None,
    dim: Annotated[int, typer.Option(min=1, help="Length of x.")] = 3,
    targets: Annotated[int, typer.Option(min=1, help="Targets or classes.")] = 1,
    labels: Annotated[
        Literal["signs", "onehot"], typer.Option(help="Labels of several classes: signs (-1 and 1) or onehot (0 and 1).")
    ] = "signs",
    as_json: AsJson = False,
) -> None:
    """Run a learner through every check of the registry's learners.

    Among others: the outputs do not depend on how rows are split into batches, the state is bounded, a prediction does not
    use its own label, and a restart changes nothing.

    Choose small settings, so that budgets fill within a stream of 150 rows. Ends with code 4 if a check fails.
    """
    from streamjobs.learner_checks.suite import CHECKS, FIRST

    if not __debug__:
        raise ConfigError("check-learner: Python runs with -O, which turns off the checks; run it without -O.")
    case = _case(learner, given or [], dim, targets, labels)
    failed: dict[str, str] = {}
    for name, check in CHECKS.items():
        try:
            check(case)
        except Exception as problem:  # noqa: BLE001 - a learner may raise anything; the check has failed
            words = str(problem) if isinstance(problem, AssertionError) else _with_place(problem, type(case.learner))
            failed[name] = words.strip() or "failed"
        if not as_json:
            note(f"{'FAILED' if name in failed else 'ok':>6}  {_in_words(name)}")
        if name in failed and name == FIRST:
            break  # all other checks would fail for the same reason
    if as_json:
        show({"learner": learner, "settings": case.settings, "checks": len(CHECKS), "failed": failed})
    for words in dict.fromkeys(failed.values()) if not as_json else ():  # one mistake fails many checks
        say(f"{', '.join(_in_words(name) for name in failed if failed[name] == words)}: {words}")
    if FIRST in failed:
        raise MismatchError(f"{learner}: the first of {len(CHECKS)} checks failed; the others need it.")
    if failed:
        raise MismatchError(f"{learner}: {len(failed)} of {len(CHECKS)} checks failed.")
    if not as_json:
        say(f"{learner}: {len(CHECKS)} checks passed")


def _with_place(problem: Exception, cls: type) -> str:
    """The error, with the line of the learner's file where it was raised."""
    file = sys.modules[cls.__module__].__file__
    lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == file]
    return f"{type(problem).__name__}: {problem}" + (f" ({Path(file or '').name}, line {lines[-1]})" if lines else "")


def _in_words(check: str) -> str:
    return check.removeprefix("check_").replace("_", " ")


def _is_learner(found: Any) -> "TypeGuard[type[Learner]]":
    from algorithms import Learner

    return isinstance(found, type) and issubclass(found, Learner)


def _case(path: str, given: list[str], dim: int, targets: int, labels: str) -> "Case":
    """The learner with its settings; raises ConfigError where there is none, or where it refuses them."""
    from algorithms import SettingError, learner_from
    from algorithms.common.settings import build
    from algorithms.drift.report import watches_columns
    from streamjobs.commands.describe import tables_of
    from streamjobs.learner_checks.case import Case
    from streamjobs.settings.learners import with_name

    module, colon, name = path.partition(":")
    if not colon or module.endswith(".py"):
        folder, _, file = module.removesuffix(".py").rpartition("/")
        hint = f"; for the file {module}, set PYTHONPATH={folder or '.'} and give {file}:{name or 'CLASS'}"
        hint = hint if module.endswith(".py") else ""
        raise ConfigError(f"expected MODULE:CLASS such as my_package.nearest:Nearest; got {path!r}{hint}.")
    try:
        there = vars(importlib.import_module(module))
    except ImportError as problem:
        raise ConfigError(
            f"{path}: module {module!r} cannot be imported ({problem}); install it, or set PYTHONPATH to its folder."
        ) from None
    if not _is_learner(cls := there.get(name)):
        names = [name for name, one in there.items() if _is_learner(one) and one.__module__ == module]
        has = f"; {module} has {', '.join(names)}" if names else ""
        raise ConfigError(f"{path}: expected a class that inherits from algorithms.Learner; got {cls!r:.80}{has}.")
    if not dataclasses.is_dataclass(cls):
        raise ConfigError(f"{path}: expected @dataclass(frozen=True, slots=True, kw_only=True) above the class; got none.")
    table = tables_of(given)
    try:
        made = build(cls.name, cls, table, lambda own: learner_from(*with_name(own)))
    except SettingError as problem:
        raise ConfigError(str(problem)) from None
    if made.kind == "drift":
        return Case(cls.name, made, table, dim if watches_columns(made) else 1, 0, labels)
    return Case(cls.name, made, table, dim, targets, labels)
