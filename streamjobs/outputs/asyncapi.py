"""An AsyncAPI 3.0 document of a job's topics: what it receives, and every output with its key, headers and value."""

from typing import Any

from streamjobs import __version__
from streamjobs.core.job import Job
from streamjobs.outputs.schema import output_schemas

_CONTENT = {"json": "application/json", "msgpack": "application/vnd.msgpack"}
_DRAFT = "application/schema+json;version=draft-2020-12"


def document(job: Job) -> dict[str, Any]:
    """Servers are left out: a schema is passed on, and brokers' addresses need not be."""
    settings = job.settings
    source = settings.source.topic
    channels: dict[str, Any] = {
        "input": {
            "address": source,
            "messages": {"input": {"contentType": _CONTENT.get(settings.source.format, "application/octet-stream")}},
            "bindings": {"kafka": {"topic": source}},
        }
    }
    operations: dict[str, Any] = {"receive-input": {"action": "receive", "channel": {"$ref": "#/channels/input"}}}
    for sink, schema in output_schemas(job).items():
        channels[sink] = _channel(sink, schema)
        operations[f"send-{sink}"] = {"action": "send", "channel": {"$ref": f"#/channels/{sink}"}}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": f"streamjobs job {settings.job.name}",
            "version": f"{settings.sinks.version}",
            "description": f"Outputs of streamjobs {__version__}, version {settings.sinks.version} of their records.",
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
    }


def _channel(sink: str, schema: dict[str, Any]) -> dict[str, Any]:
    kafka, body = schema["x-kafka"], {name: part for name, part in schema.items() if name != "x-kafka"}
    message: dict[str, Any] = {
        "name": schema["title"],
        "summary": schema["description"],
        "headers": kafka["headers"],
        "bindings": {"kafka": {"key": kafka["key"]}},
    }
    if sink == "dlq":
        message["contentType"] = "application/octet-stream"
    else:
        message |= {"contentType": "application/json", "payload": {"schemaFormat": _DRAFT, "schema": body}}
    return {"address": kafka["topic"], "messages": {sink: message}, "bindings": {"kafka": {"topic": kafka["topic"]}}}
