"""`describe`: one learner's settings, size, cost and source; without a name, the list of learners."""

import ast
import json
import re
import textwrap
import tomllib
from typing import Annotated, Any

import typer

from streamjobs.commands.console import AsJson, say, show
from streamjobs.errors import ConfigError
from streamjobs.settings.toml import toml_value
from streamjobs.settings.types import readable

WRAP_AT = 110


def describe(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A learner; absent: list all of them.")] = None,
    dim: Annotated[int, typer.Option(min=1, help="Length of x, for the size of a state.")] = 6,
    targets: Annotated[int, typer.Option(min=1, help="Targets or classes, for the size of a state.")] = 1,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, written as in a job file; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a learner: what it does, its settings with ranges and defaults, the size of a key's state, its cost
    and source."""
    from streamjobs import learner_reference as reference
    from streamjobs.own_learners import load_own_learners

    load_own_learners()
    if name is None:
        _print_list(as_json)
        return
    _require_known(name)
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


def _require_known(name: str) -> None:
    from algorithms import LEARNERS
    from algorithms.common.settings import suggestion

    if name not in LEARNERS:
        raise ConfigError(f"unknown learner {name!r}{suggestion(name, LEARNERS)}")


def _print_list(as_json: bool) -> None:
    from streamjobs import learner_reference as reference

    families = reference.families().items()
    found = {family: {name: reference.sections(name)["title"] for name in names} for family, names in families}
    if as_json:
        show(found)
        return
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
        words = f"{setting.name} = {_default(setting)}"
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


def _default(setting: Any) -> str:
    if setting.needed:
        return "(needed)"
    return "(none)" if setting.default is None else toml_value(setting.default)


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
