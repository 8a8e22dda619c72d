"""The generated sections of the pages, made from the code: settings, learners, commands, topics, metrics."""

import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import click
import msgspec
import typer

from algorithms import LEARNERS
from streamjobs import learner_reference
from streamjobs.cli import app
from streamjobs.core.job import Job
from streamjobs.core.output_records import RECORDS
from streamjobs.errors import REASONS
from streamjobs.kafka.topics import changelog
from streamjobs.outputs.schema import commented
from streamjobs.settings.sections import Settings
from streamjobs.worker.metrics.table import METRICS, PREFIX
from tests.docs.pages import SECTION_IN

BEGIN, END = "<!-- reference:{} -->", "<!-- /reference:{} -->"


@cache
def sections() -> dict[str, str]:
    """Text of every section by name."""
    return {
        "commands": commands(),
        "settings": settings(),
        "learners": learners(),
        "topics": topics(),
        "metrics": metrics(),
    }


DURATION, SIZE, SECRET = "duration", "size", "secret"


def renewed(text: str, page: str, place: Mapping[str, str] = SECTION_IN) -> str:
    """A page with each of its generated sections as it should be; `place` says which page a section stands in.

    Raises ValueError where a section's markers are missing, or stand in another page.
    """
    for name, where in place.items():
        begin, end = BEGIN.format(name), END.format(name)
        here = 1 if where == page else 0
        if text.count(begin) != here or text.count(end) != here:
            times = "once each" if here else f"not at all: they stand in {where}"
            raise ValueError(f"{page} needs {begin} and, after it, {end}, {times}.")
        if not here:
            continue
        if text.index(begin) > text.index(end):
            raise ValueError(f"{page} needs {begin} and, after it, {end}, once each.")
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{sections()[name]}\n{end}{rest.partition(end)[2]}"
    return text


def settings() -> str:
    """A table per section of the job file."""
    schema = Settings.model_json_schema()
    parts = []
    for section, reference in schema["properties"].items():
        model = schema["$defs"][_model(reference)]
        needed = section in schema.get("required", ())
        optional = section in schema["properties"] and Settings.model_fields[section].default is None
        state = "needed" if needed else "optional; absent: off" if optional else "optional"
        rows = list(_rows(model, schema["$defs"], ""))
        if model.get("additionalProperties") is True:
            rows.append(("...", "", "", "the learner's own settings: [learners](../../algorithms/reference.md)"))
        parts.append(f"**`[{section}]`** ({state})\n\n" + _table(("setting", "values", "default", "what"), rows))
    return "\n\n".join(parts)


def _rows(model: dict[str, Any], definitions: dict[str, Any], before: str) -> Iterator[tuple[str, str, str, str]]:
    """A row per setting, those of a table inside it as `table.setting`."""
    for name, field in model["properties"].items():
        told = field.get("description", "").replace("<", "&lt;")
        if _values(field) in (DURATION, SIZE):  # which say that already
            told = told.replace(" (duration, or seconds)", "").replace(" (size, or bytes)", "")
        names = f"`{before}{name}`"
        if field.get("secret"):
            told, read = told.removesuffix("; from the environment only"), _of_file(model, name).partition(", ")[2]
            names, told = f"{names}, `{before}{name}_file`", f"{told}; the file is {read}" if read else told
        elif model["properties"].get(name.removesuffix("_file"), {}).get("secret"):
            continue  # in the row of the secret
        yield names, _values(field), _default(name, field, model), told
        for option in (field, *field.get("anyOf", ()), *field.get("allOf", ())):
            if "$ref" in option:
                yield from _rows(definitions[option["$ref"].rpartition("/")[2]], definitions, f"{before}{name}.")
        entries = field.get("additionalProperties")
        if isinstance(entries, dict) and "$ref" in entries:  # tables by a name that the job file gives them
            inner = definitions[entries["$ref"].rpartition("/")[2]]
            yield from _rows(inner, definitions, f"{before}{name}.NAME.")


def _of_file(model: dict[str, Any], secret: str) -> str:
    return str(model["properties"][f"{secret}_file"]["description"])


def learners() -> str:
    rows = []
    for name, cls in sorted(LEARNERS.items()):
        own = [f"`{s.name}` {s.type.replace(' | ', '/')}{_default_in_words(s)}" for s in learner_reference.settings(name)]
        sentence = learner_reference.meaning(name).partition(". ")[0].removesuffix(".") + "."
        rows.append((f"`{name}`", learner_reference.kind(cls), sentence, "; ".join(own) or "none"))
    return _table(("name", "kind", "what", "settings (default)"), rows)


def _default_in_words(setting: learner_reference.Setting) -> str:
    value = setting.default
    if setting.needed:
        return " (needed)"
    if value is None:
        return ""
    if isinstance(value, dict):
        value = ", ".join(f"{name} {number}" for name, number in value.items())
    return f" ({str(value).lower() if isinstance(value, bool) else value})"


def commands() -> str:
    rows = []
    for words, command in leaf_commands():
        parameters = []
        for parameter in command.params:
            if isinstance(parameter, click.Argument) or getattr(parameter, "param_type_name", "") == "argument":
                parameters.append(f"`{parameter.metavar or (parameter.name or '').upper()}`")
            elif "--help" not in parameter.opts:
                parameters.append(f"`{'`, `'.join([*parameter.opts, *parameter.secondary_opts])}`")
        rows.append((f"`{' '.join(words)}`", " ".join((command.help or "").split()), " ".join(parameters)))
    return _table(("command", "what it does", "arguments and options"), rows)


def leaf_commands() -> Iterator[tuple[list[str], Any]]:
    """(["topics", "plan"], command) of every command of the command line."""

    def walk(words: list[str], command: Any) -> Iterator[tuple[list[str], Any]]:
        below = getattr(command, "commands", None)
        if below is None:
            yield words, command
            return
        for name, one in below.items():
            yield from walk([*words, name], one)

    yield from walk([], typer.main.get_command(app))


def default_topics() -> dict[str, str]:
    """role -> topic of a job that names only its input, `imu`, and uses everything."""
    job = Job.from_settings(
        Settings.model_validate(
            {
                "job": {"name": "wrist"},
                "source": {"topic": "imu", "fields": ["ax", "ay", "az"]},
                "learner": {"name": "okfeb"},
                "head": {"name": "rls"},
                "drift": {},
                "bouts": {},
                "forecast": {},
                "sinks": {"features": "imu.features", "alarms": "imu.alarms", "drift": "imu.drift"},
            }
        )
    )
    return {"input": job.settings.source.topic, **job.sinks, "state": changelog(job.settings)}


def topics() -> str:
    said = {
        "input": "`[source] topic`: the records, keyed by person, device or machine",
        "features": "coordinates and LS error of every row",
        "predictions": "prediction, and the label where it is known",
        "drift": "the detector's report on every row, and on the controls",
        "alarms": "with `[drift] false_alarms` or `[alarms]`: a record when an alarm is raised, and one when it ends",
        "bouts": "with `[bouts]`: an activity from its start to its end, when no label can change it any more",
        "forecasts": "with `[forecast]`: what each row's columns will be, with intervals and the naive forecast",
        "dlq": "records that could not be used, unchanged, with headers that give the reason",
        "state": "compacted: every key's newest snapshot",
    }
    for role, record in RECORDS.items():
        fields = ", ".join(f"`{field.name}`{_within(field.type)}" for field in msgspec.structs.fields(record))
        said[role] += f"; JSON with {fields}"
    rows = [(f"`{topic}`", role, said[role]) for role, topic in default_topics().items()]
    reasons = ", ".join(f"`{reason}`" for reason in REASONS)
    prediction, alarm = (
        [(f"`{a}`", f"`{b}`", c) for a, b, c in commented(RECORDS[sink])] for sink in ("predictions", "alarms")
    )
    return (
        _table(("topic", "role", "what is in it"), rows)
        + f"\n\nReasons of dead letters: {reasons}.\n\nA prediction:\n\n"
        + _table(("field", "type", "what"), prediction)
        + "\n\nAn alarm ([how to read one](../../deploy/alarms.md#alarms)):\n\n"
        + _table(("field", "type", "what"), alarm)
    )


def _within(kind: Any) -> str:
    """The fields of a record that stands in another one, by name."""
    inner = [one for one in typing.get_args(kind) if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    told = [", ".join(f"`{field.name}`" for field in msgspec.structs.fields(one)) for one in inner]
    return f" (by name: {told[0]})" if told else ""


def metrics() -> str:
    rows = [(f"`{PREFIX}{m.name}`", m.kind, ", ".join(f"`{label}`" for label in m.labels), m.help) for m in METRICS]
    return _table(("metric", "kind", "labels", "what"), rows)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("-" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _model(reference: dict[str, Any]) -> str:
    options = [reference, *reference.get("anyOf", []), *reference.get("allOf", [])]
    return next(option["$ref"].rpartition("/")[2] for option in options if "$ref" in option)


def _values(field: dict[str, Any]) -> str:
    """Type and range in words, from a field's JSON Schema."""
    if field.get("secret"):
        return SECRET
    options = [option for option in field.get("anyOf", [field]) if option.get("type") != "null"]
    options = [inner for option in options for inner in option.get("anyOf", [option])]
    kinds = [option.get("type") for option in options]
    if kinds == ["boolean", "number", "string"]:
        return f"{_one(options[0])} or {DURATION}"
    if len(options) == 2 and {*kinds} == {"number", "string"}:
        return DURATION
    if len(options) == 2 and {*kinds} == {"integer", "string"} and "minimum" in options[0]:
        return SIZE
    return " or ".join(_one(option) for option in options)


def _one(option: dict[str, Any]) -> str:
    if "enum" in option or "const" in option:
        return ", ".join(f"`{value}`" for value in option.get("enum", [option.get("const")]))
    kind = option.get("type", "object" if "$ref" in option else "any")
    word = {"integer": "integer", "number": "number", "string": "text", "boolean": "boolean"}.get(kind, kind)
    if kind == "array":
        inner = [one.get("type") for one in option.get("items", {}).get("anyOf", [option.get("items", {})])]
        word = "list of " + " or ".join(
            dict.fromkeys({"string": "texts", "object": "tables"}.get(one, "values") for one in inner)
        )
    if kind == "object":
        word = "table"
    ends = [
        f"{word_for} {_number(option[key])}"
        for key, word_for in (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"))
        if key in option
    ]
    return " ".join([word, *ends])


def _default(name: str, field: dict[str, Any], model: dict[str, Any]) -> str:
    if name in model.get("required", ()):
        return "needed"
    value = field.get("default")
    if value is None or value == []:
        return ""
    if isinstance(value, list):
        return f"`[{', '.join(map(_number, value))}]`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if _values(field).startswith("duration"):
        return f"`{_number(value)}s`"
    if _values(field).startswith("size"):
        return f"`{value >> 20}MB`" if value >= 1 << 20 else f"`{value >> 10}KB`"
    return f"`{value if isinstance(value, str) else _number(value)}`"


def _number(value: float) -> str:
    return f"{value:g}" if abs(value) < 1e6 or isinstance(value, float) else str(value)
