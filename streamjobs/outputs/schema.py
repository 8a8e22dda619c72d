"""JSON Schema (2020-12) and Avro schemas of a job's output topics, as they are for this job, made from the records' structs.

Fields that the job never sends are left out, and those it always sends are required. A field that may be null has the type
null; no number is NaN.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from streamjobs.core.job import Job
from streamjobs.core.messages import LETTER_HEADERS
from streamjobs.core.output_records import ID, RECORDS, SCHEMA, schema_name
from streamjobs.errors import REASONS

NAMESPACE = "streamjobs"  # of Avro
_AVRO = {"string": "string", "integer": "long", "number": "double", "boolean": "boolean", "null": "null"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
JsonSchema = dict[str, Any]
PLACE = r"^.+-[0-9]+-[0-9]+"  # topic-partition-offset
IDS = {  # what stands behind it, by sink
    "features": "(-[0-9]+)?$",
    "predictions": "(-[0-9]+)?$",
    "drift": "(-[0-9]+)?$",
    "alarms": "(-[0-9]+)?(-(columns|innovations|rows|ls_error|loss|(stuck|silent|group)-[0-9a-f]{14}))?(-end)?$",
    "bouts": "(-[0-9]+)?-bout-[0-9]+$",
    "forecasts": "(-[0-9]+)?$",
    "dlq": "$",
}
_SAID = {
    "features": "Coordinates and LS error of every row.",
    "predictions": "Prediction of every row, and the label where it is known.",
    "drift": "What the detector says of every row.",
    "alarms": "An alarm when it is raised, and when it ends.",
    "bouts": "An activity that is over, and the minutes of its days.",
    "forecasts": "What each row's columns will be, with intervals.",
    "dlq": "A record that could not be used, as it came: any bytes, or none.",
}
_OF_TASK = {  # fields of a prediction
    "classes": (*("predicted_class", "true_class", "score", "smoothed", "classes", "labelled", "head", "share"),),
    "number": ("predicted_value", "true_value"),
    "numbers": ("predicted_values", "true_values"),
}
_SCORES = ("scores", "first", "first_score", "second", "second_score")


def output_schemas(job: Job) -> dict[str, JsonSchema]:
    """By sink, each a schema of the record's value; for dead letters, which may have any value, of their headers alone.

    `x-kafka` has the topic, and the schemas of key and headers.
    """
    return {sink: _schema(job, sink, topic) for sink, topic in job.sinks.items()}


def document(job: Job) -> JsonSchema:
    """All of them in one schema, each under `$defs`; a value fits if it fits one of them."""
    schemas = output_schemas(job)
    for schema in schemas.values():
        del schema["$schema"]
    values = [{"$ref": f"#/$defs/{sink}"} for sink in schemas if sink != "dlq"]
    return {"$schema": DIALECT, "title": f"outputs of the job {job.settings.job.name}", "anyOf": values, "$defs": schemas}


def _schema(job: Job, sink: str, topic: str) -> JsonSchema:
    head: JsonSchema = {
        "$schema": DIALECT,
        "title": schema_name(sink) if sink in RECORDS else sink,
        "description": _SAID[sink],
    }
    kafka = {"x-kafka": {"topic": topic, "key": _KEY, "headers": headers(sink)}}
    record = RECORDS.get(sink)
    return {**head, **kafka} if record is None else {**head, **_inline(_narrowed(job, sink, record)), **kafka}


_KEY = {"type": "string", "description": "the key of the record it is of, unchanged"}


def headers(sink: str) -> JsonSchema:
    known: JsonSchema = {
        ID: {
            "type": "string",
            "pattern": PLACE + IDS[sink],
            "description": "topic-partition-offset of the record that caused it, and which of that record's outputs it is; "
            "after the topic's name a ~ and a hash of its id, if it was recreated; readers drop repeats by it",
        }
    }
    if sink == "dlq":
        for name in LETTER_HEADERS[1:]:
            number = name.endswith(("-partition", "-offset", "-timestamp", "-attempt"))
            known[name] = {"type": "string", **({"pattern": "^-?[0-9]+$"} if number else {})}
        known["streamjobs-error-reason"]["enum"] = list(REASONS)
    else:
        known[SCHEMA] = {"const": schema_name(sink), "description": "topic's kind and version of its records"}
    return {"type": "object", "properties": known, "required": list(known)}


def _narrowed(job: Job, sink: str, record: type[msgspec.Struct]) -> JsonSchema:
    """The record's schema with this job's fields and types."""
    _, definitions = msgspec.json.schema_components([record], ref_template="#/$defs/{name}")
    body = definitions.pop(record.__name__)
    fields = body["properties"]
    for name in _absent(job, sink):
        fields.pop(name, None)
    for name, _, comment in commented(record):
        if name in fields:
            fields[name] = {**fields[name], "description": comment}
            fields[name].pop("default", None)
    # Fields that are absent in some jobs: where a job has them, every record of it does.
    optional = {one.name for one in msgspec.structs.fields(record) if one.default is msgspec.UNSET}
    body["required"] = [name for name in fields if name in body.get("required", ()) or name in optional]
    for name in ("predicted_values", "true_values"):
        if name in fields:
            fields[name]["anyOf"][0] |= _length(job.composition.targets)
    if sink == "features":
        parts = job.composition
        fields["z"] |= _length((parts.map or parts.learner).width_for(job.width))
    body.pop("title", None)
    body.pop("description", None)
    for one in definitions.values():
        one["additionalProperties"] = False
    return {**body, "additionalProperties": False, **({"$defs": definitions} if definitions else {})}


def _absent(job: Job, sink: str) -> Iterator[str]:
    """Fields that this job never sends."""
    settings = job.settings
    if job.composition.fill is None:
        yield "filled"
    if sink == "alarms" and job.steps.group is None:
        yield from ("keys", "keys_alarmed")
    if sink == "drift":
        if len(job.watches) < 2:
            yield "beside"
        return
    if sink != "predictions":
        return
    classifies = job.task == "classification"
    if not (settings.sinks.scores and classifies):
        yield from _SCORES
    if job.rejection is None:
        yield "unknown"
    own = "classes" if classifies else "number" if job.composition.targets == 1 else "numbers"
    for task, names in _OF_TASK.items():
        yield from names if task != own else ()


def _length(targets: int) -> JsonSchema:
    return {"minItems": targets, "maxItems": targets}


def lengths(fields: JsonSchema) -> dict[str, int]:
    """Of a schema's fields those that are lists of numbers of one length, by name."""
    found = {}
    for name, field in fields.items():
        for one in field.get("anyOf", [field]):
            if one.get("type") == "array" and "maxItems" in one:
                found[name] = one["maxItems"]
    return found


def _inline(schema: JsonSchema) -> JsonSchema:
    """The schema with the records inside it where they stand, so that it can be moved."""
    definitions = schema.pop("$defs", {})

    def resolved(node: Any) -> Any:
        if isinstance(node, list):
            return [resolved(one) for one in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            own = {name: value for name, value in node.items() if name != "$ref"}
            return resolved(definitions[node["$ref"].rpartition("/")[2]] | own)
        return {name: resolved(one) for name, one in node.items()}

    return dict(resolved(schema))


def commented(record: type) -> Iterator[tuple[str, str, str]]:
    """Name, type and comment of every field, from the source: what is said there is what people read."""
    for line in inspect.getsource(record).splitlines():
        found = re.fullmatch(r"    (\w+): (.+?)  # (.+)", line)
        if found:
            kind = found[2].removesuffix(" = UNSET").replace(" | UnsetType | None", " | null | absent")
            kind = kind.replace(" | UnsetType", " | absent")
            yield found[1], kind.replace(" | ", " or ").replace("None", "null"), found[3]


def avro_schemas(job: Job) -> dict[str, Any]:
    """Avro schemas by sink, for programs that convert the JSON records: the same fields, of the same types.

    Dead letters have none, because their values are bytes. Names of classes stay texts: Avro's enums take identifiers only.
    Raises ConfigError for a field of several types.
    """
    return {
        sink: {**_avro_record(schema, sink), "namespace": NAMESPACE}
        for sink, schema in output_schemas(job).items()
        if sink != "dlq"
    }


def _avro_record(schema: dict[str, Any], name: str) -> dict[str, Any]:
    fields = []
    for field, of_field in schema["properties"].items():
        kind = _avro_type(of_field, f"{name}_{field}")
        member: dict[str, Any] = {"name": field, "type": kind, "doc": of_field.get("description", "")}
        if field not in schema["required"]:
            union = kind if isinstance(kind, list) else [kind]
            member |= {"type": ["null", *(one for one in union if one != "null")], "default": None}
        elif isinstance(kind, list) and kind[0] == "null":
            member["default"] = None
        fields.append(member)
    return {"type": "record", "name": name, "doc": schema.get("description", ""), "fields": fields}


def _avro_type(schema: dict[str, Any], name: str) -> Any:
    if "anyOf" in schema:
        kinds = [_avro_type(one, name) for one in schema["anyOf"]]
        return ["null", *(kind for kind in kinds if kind != "null")] if "null" in kinds else kinds
    kind = schema["type"]
    if kind == "array":
        return {"type": "array", "items": _avro_type(schema["items"], f"{name}_item")}
    if kind == "object":
        if "properties" in schema:
            return _avro_record(schema, name)
        return {"type": "map", "values": _avro_type(schema["additionalProperties"], f"{name}_value")}
    return _AVRO[kind]
