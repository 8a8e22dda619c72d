"""`describe`: a learner's settings, size, cost and source, out of the registry; without a name, all learners."""

import json
import tomllib
from typing import Annotated, Any

import typer

from streamjobs.commands.console import AsJson, say, show
from streamjobs.settings.types import readable

WRAP_AT = 110


def add_to(app: typer.Typer) -> None:
    app.command("describe")(describe)


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
    """Say what a learner does, its settings with ranges and defaults, the size of a key's state, its cost and source."""
    from streamjobs import learner_reference as source

    if name is None:
        _list(as_json)
        return
    _known(name)
    told = described(name, dim, targets, tables_of(given or []))
    if as_json:
        show(told)
    else:
        _tell(told, {setting.name: setting for setting in source.settings(name)})


def described(name: str, dim: int, targets: int, table: dict[str, Any]) -> dict[str, Any]:
    """Everything about one learner, as JSON has it; without needed settings there is no size."""
    from streamjobs import learner_reference as source

    learner = source.made(name, table)
    of_drift = learner is not None and learner.kind == "drift"
    return {
        "name": name,
        "family": source.family(name),
        "meaning": source.meaning(name),
        **source.sections(name),
        "settings": [setting._asdict() for setting in source.settings(name)],
        "given": table,
        "size": source.size(learner, 1 if of_drift else dim, 0 if of_drift else targets) if learner else None,
    }


def tables_of(given: list[str]) -> dict[str, Any]:
    """["rank=5", "kernel.bandwidth=2", "role=head"] as a table; a text may go without quotes.

    >>> tables_of(["kernel.bandwidth=2.5", "role=head", 'head={name="rls"}'])
    {'kernel': {'bandwidth': 2.5}, 'role': 'head', 'head': {'name': 'rls'}}
    """
    from streamjobs.errors import ConfigError

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


def _known(name: str) -> None:
    from algorithms import LEARNERS
    from algorithms.common.settings import suggestion
    from streamjobs.errors import ConfigError

    if name not in LEARNERS:
        raise ConfigError(f"unknown learner {name!r}{suggestion(name, LEARNERS)}")


def _list(as_json: bool) -> None:
    from streamjobs import learner_reference as source

    found = {family: {name: source.sections(name)["title"] for name in names} for family, names in source.families().items()}
    if as_json:
        show(found)
        return
    for family, learners in found.items():
        say(family)
        for name, title in learners.items():
            say(f"  {name:<18} {title}")


def _tell(told: dict[str, Any], settings: dict[str, Any]) -> None:
    import textwrap

    def block(word: str, text: str) -> None:
        say(textwrap.fill(text, WRAP_AT, initial_indent=f"  {word:<9} ", subsequent_indent=" " * 12))

    say(f"{told['name']} ({told['family']}): {told['title']}")
    say(textwrap.fill(told["meaning"], WRAP_AT, initial_indent="  ", subsequent_indent="  "))
    say()
    block("source", told.get("source", ""))
    block("cost", f"of a row {told.get('cost_of_a_row', '')}")
    block("state", told.get("state", ""))
    block("size", _size(told["size"], settings))
    for word, section in (("model", "model"), ("one row", "one_row"), ("symbols", "symbols"), ("readings", "readings")):
        if section in told:
            block(word, told[section])
    if "departs_from_the_source" in told:
        block("departs", told["departs_from_the_source"])
    say()
    for setting in settings.values():
        words = f"{setting.name} = {_shown(setting)}"
        said = "; ".join(part for part in (setting.type, _beside(setting), setting.meaning) if part)
        say(textwrap.fill(said, WRAP_AT, initial_indent=f"  {words:<34} ", subsequent_indent=" " * 37))


def _size(size: dict[str, Any] | None, settings: dict[str, Any]) -> str:
    if size is None:
        missing = ", ".join(name for name, setting in settings.items() if setting.needed)
        return f"give the needed settings to see it: --set for {missing}"
    made_for = f"x of length {size['dim']}" + (f", {size['targets']} targets" if size["targets"] > 1 else "")
    gives = f"; {size['features']} features a row" if size["features"] else ""
    if not size["bounded"]:
        return f"grows with the stream; a job refuses it with these settings{gives}"
    return (
        f"at most {readable(size['state_bytes'])} a key for {made_for} "
        f"({readable(size['workspace_bytes'])} in a worker's memory){gives}"
    )


def _shown(setting: Any) -> str:
    if setting.needed:
        return "(needed)"
    if setting.default is None:
        return "(none)"
    value = setting.default
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {json.dumps(number)}" for name, number in value.items()) + " }"
    return json.dumps(value)


def _beside(setting: Any) -> str:
    """The range, where neither the meaning nor the choices say it already."""
    told = setting.range
    return "" if told in setting.meaning or "|" in setting.type else told
