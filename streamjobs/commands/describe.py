"""`describe`: one learner's settings, size, cost and source; without a name, the list of learners.

`check-learner`: a learner of one's own under every check that the registry's are held by.
"""

import ast
import dataclasses
import importlib
import json
import re
import sys
import textwrap
import tomllib
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeGuard

import typer

from streamjobs.commands.console import AsJson, note, say, show
from streamjobs.errors import ConfigError, MismatchError
from streamjobs.settings.types import readable, toml_value

if TYPE_CHECKING:
    from algorithms import Learner
    from streamjobs.learner_checks.case import Case

WRAP_AT = 110
Given = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, written as in a job file; may be repeated."),
]


def describe(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A learner; absent: list all of them.")] = None,
    dim: Annotated[int, typer.Option(min=1, help="Length of x, for the size of a state.")] = 6,
    targets: Annotated[int, typer.Option(min=1, help="Targets or classes, for the size of a state.")] = 1,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Describe a learner: what it does, its settings with ranges and defaults, the size of a key's state, its cost
    and source."""
    from algorithms import LEARNERS
    from algorithms.common.settings import suggestion
    from streamjobs import learner_reference as reference
    from streamjobs.own_learners import load_own_learners

    load_own_learners()
    if name is None:
        return _print_list(as_json)
    if name not in LEARNERS:
        raise ConfigError(f"unknown learner {name!r}{suggestion(name, LEARNERS)}")
    facts = facts_of(name, dim, targets, tables_of(given or []))
    if as_json:
        show(facts)
    else:
        _print_learner(facts, {setting.name: setting for setting in reference.settings(name)})


def facts_of(name: str, dim: int, targets: int, table: dict[str, Any]) -> dict[str, Any]:
    """Everything about one learner, as `--json` prints it; the size is None while needed settings are missing."""
    from algorithms import LEARNERS
    from algorithms.drift.report import watches_columns
    from streamjobs import learner_reference as reference

    learner = reference.make_learner(name, table)
    of_drift = learner is not None and learner.kind == "drift"
    length = 1 if of_drift and not watches_columns(learner) else dim
    return {
        "name": name,
        "family": LEARNERS.family(name),
        "meaning": reference.meaning(name),
        **reference.sections(name),
        "settings": [setting._asdict() for setting in reference.settings(name)],
        "given": table,
        "size": reference.size(learner, length, 0 if of_drift else targets) if learner else None,
    }


def tables_of(given: list[str]) -> dict[str, Any]:
    """["rank=5", "kernel.bandwidth=2", "role=head"] as a table; text may stand without quotes.

    >>> tables_of(["kernel.bandwidth=2.5", "role=head", 'head={name="rls"}'])
    {'kernel': {'bandwidth': 2.5}, 'role': 'head', 'head': {'name': 'rls'}}
    """
    table: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set must be NAME=VALUE; got {text!r}.")
        try:
            one = tomllib.loads(f"{name} = {value}")
        except tomllib.TOMLDecodeError:
            try:
                one = tomllib.loads(f"{name} = {json.dumps(value.strip())}")
            except tomllib.TOMLDecodeError as error:
                raise ConfigError(f"--set must be NAME=VALUE as in a job file; got {text!r}.") from error
        _merge(table, one)
    return table


def _merge(into: dict[str, Any], table: dict[str, Any]) -> None:
    for name, value in table.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def _print_list(as_json: bool) -> None:
    from streamjobs import learner_reference as reference

    families = reference.families().items()
    found = {family: {name: reference.sections(name)["title"] for name in names} for family, names in families}
    if as_json:
        return show(found)
    for family, learners in found.items():
        say(family)
        for name, title in learners.items():
            say(f"  {name:<18} {title}")


def _print_learner(facts: dict[str, Any], settings: dict[str, Any]) -> None:
    def block(word: str, text: str) -> None:
        say(textwrap.fill(text, WRAP_AT, initial_indent=f"  {word:<9} ", subsequent_indent=" " * 12))

    say(f"{facts['name']} ({facts['family']}): {facts['title']}")
    say(textwrap.fill(facts["meaning"], WRAP_AT, initial_indent="  ", subsequent_indent="  "))
    say()
    block("source", facts.get("source", ""))
    block("cost", f"of a row {facts.get('cost_of_a_row', '')}")
    block("state", facts.get("state", ""))
    block("size", _size(facts["size"], settings))
    for word, section in (("model", "model"), ("one row", "one_row"), ("symbols", "symbols"), ("readings", "readings")):
        if section in facts:
            block(word, facts[section])
    if "departs_from_the_source" in facts:
        block("departs", facts["departs_from_the_source"])
    say()
    for setting in settings.values():
        default = "(none)" if setting.needed or setting.default is None else toml_value(setting.default)
        words = f"{setting.name} = {'(needed)' if setting.needed else default}"
        # The range is left out where the meaning or the choices state it already.
        allowed = "" if setting.range in setting.meaning or "|" in setting.type else str(setting.range)
        text = "; ".join(part for part in (setting.type, allowed, setting.meaning) if part)
        say(textwrap.fill(text, WRAP_AT, initial_indent=f"  {words:<34} ", subsequent_indent=" " * 37))


def _size(size: dict[str, Any] | None, settings: dict[str, Any]) -> str:
    if size is None:
        missing = ", ".join(name for name, setting in settings.items() if setting.needed)
        return f"give the needed settings to see it: --set for {missing}"
    made_for = f"x of length {size['dim']}" + (f", {size['targets']} targets" if size["targets"] > 1 else "")
    features = f"; {size['features']} features a row" if size["features"] else ""
    if not size["bounded"]:
        return f"grows with the stream; a job refuses it with these settings{features}"
    return (
        f"at most {readable(size['state_bytes'])} a key for {made_for} "
        f"({readable(size['workspace_bytes'])} in a worker's memory){features}"
    )


def stage_in_words(stage: str, text: str) -> str:
    """What a stage's description says, without the notation of Python.

    >>> stage_in_words("windows", "Windows(length=2.0, hop=1.0, gap=None)")
    'length 2, hop 1'
    >>> stage_in_words("learner", "Chain(extractor='Okfeb(rank=5)', head='Rls(intercept=True)')")
    'okfeb (rank 5) + rls (intercept true)'
    """
    try:
        node = ast.parse(re.sub(r" of \d+ arrays$", "", text), mode="eval").body
    except (SyntaxError, ValueError):
        return text
    if not isinstance(node, ast.Call):
        return text
    words = _words(node)
    return words.removeprefix(f"{stage} (").removesuffix(")") if words.startswith(f"{stage} (") else words


def _words(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(")"):
        return _words(ast.parse(node.value, mode="eval").body)  # a learner in a learner
    if not isinstance(node, ast.Call):
        value = ast.literal_eval(node)
        return f"{value:g}" if type(value) is float else str(value).lower() if isinstance(value, bool) else str(value)
    name = "".join(f"_{one.lower()}" if one.isupper() else one for one in ast.unparse(node.func)).removeprefix("_")
    settings = {str(one.arg): _words(one.value) for one in node.keywords if ast.unparse(one.value) != "None"}
    if name == "chain":
        return " + ".join(settings.values())
    if name == "kernel" and settings["name"] != "polynomial":  # which alone has the other settings
        return " ".join([settings["name"], settings.get("bandwidth", "")]).strip()
    inside = ", ".join(f"{setting} {value}" for setting, value in settings.items())
    return f"{name} ({inside})" if inside else name


def check_learner(
    learner: Annotated[str, typer.Argument(metavar="MODULE:CLASS", help="The learner, such as my_package.nearest:Nearest.")],
    given: Given = None,
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
