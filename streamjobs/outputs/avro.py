"""Avro schemas of a job's output topics, for programs that convert the JSON records: the same fields, of the same types.

Names of classes stay texts: Avro's enums take no other names than identifiers.
"""

from typing import Any

from streamjobs.core.job import Job
from streamjobs.outputs.schema import output_schemas

NAMESPACE = "streamjobs"
_PLAIN = {"string": "string", "integer": "long", "number": "double", "boolean": "boolean", "null": "null"}


def schemas(job: Job) -> dict[str, Any]:
    """By sink; dead letters have none, their values are bytes. Raises ConfigError for a field of several types."""
    return {
        sink: {**_record(schema, sink), "namespace": NAMESPACE}
        for sink, schema in output_schemas(job).items()
        if sink != "dlq"
    }


def _record(schema: dict[str, Any], name: str) -> dict[str, Any]:
    fields = []
    for field, of_field in schema["properties"].items():
        kind = _type(of_field, f"{name}_{field}")
        member: dict[str, Any] = {"name": field, "type": kind, "doc": of_field.get("description", "")}
        if field not in schema["required"]:
            union = kind if isinstance(kind, list) else [kind]
            member |= {"type": ["null", *(one for one in union if one != "null")], "default": None}
        elif isinstance(kind, list) and kind[0] == "null":
            member["default"] = None
        fields.append(member)
    return {"type": "record", "name": name, "doc": schema.get("description", ""), "fields": fields}


def _type(schema: dict[str, Any], name: str) -> Any:
    if "anyOf" in schema:
        kinds = [_type(one, name) for one in schema["anyOf"]]
        return ["null", *(kind for kind in kinds if kind != "null")] if "null" in kinds else kinds
    kind = schema["type"]
    if kind == "array":
        return {"type": "array", "items": _type(schema["items"], f"{name}_item")}
    if kind == "object":
        if "properties" in schema:
            return _record(schema, name)
        return {"type": "map", "values": _type(schema["additionalProperties"], f"{name}_value")}
    return _PLAIN[kind]
