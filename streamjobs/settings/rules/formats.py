"""[source] format, envelope and compression, and the [registry] of schemas."""

import re
from urllib.parse import urlsplit

from streamjobs.settings.broker import RegistrySection
from streamjobs.settings.environment import PREFIX
from streamjobs.settings.rules.broker import (
    PLAINTEXT,
    certificate_contradictions,
    is_set,
    secrets_given_twice,
    username_without_password,
)
from streamjobs.settings.sentences import hidden
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import AUTO, Problems

ENDINGS = {"avro": (".avsc",), "protobuf": (".proto", ".desc")}
LOCAL = ("localhost", "127.0.0.1", "::1")


def format_contradictions(source: SourceSection, registry: RegistrySection | None, refused: bool) -> Problems:
    """refused: there is a [registry], but it has mistakes of its own."""
    file, place = source.schema_file, "source.schema_file"
    if source.envelope == "schema_id" and source.format != "json":
        yield (
            "source.envelope",
            f"envelope = 'schema_id' is for format = 'json' only; remove it for format = '{source.format}'.",
        )
    if not source.has_schema:
        for name in ("schema_file", "message"):
            if getattr(source, name) is not None:
                yield f"source.{name}", f"{name} has no meaning in format = '{source.format}'; remove it, or set the format."
        if registry is not None:
            yield (
                "source.format",
                f"format = '{source.format}' has no schemas; set 'avro' or 'protobuf', or remove [registry].",
            )
        return
    if source.time_unit == AUTO:
        yield (
            "source.time_unit",
            f"time_unit = 'auto' has no meaning in format = '{source.format}', because its schemas define times; "
            "set a unit.",
        )
    if file is None and registry is None and not refused:
        yield (
            "source.format",
            f"format = '{source.format}' needs schemas: a [registry] with its url, or one for all values in schema_file.",
        )
    if file is not None and registry is not None:
        yield place, "schema_file and [registry] both set where schemas are; remove one."
    endings = ENDINGS[source.format]
    if file is not None and not file.lower().endswith(endings):
        yield place, f"schema_file must end in {' or '.join(endings)} for format = '{source.format}'; got {file!r}."
    if source.message is not None and (source.format != "protobuf" or file is None):
        yield (
            "source.message",
            "message needs a Protobuf schema_file, because it names a type in that file; remove message, or set the file.",
        )


def registry_contradictions(registry: RegistrySection) -> Problems:
    """Each contradiction in [registry] with its setting."""
    try:
        address = urlsplit(registry.url)
        valid = bool(re.fullmatch(r"https?://[^\s?#]+", registry.url)) and bool(address.hostname) and address.port != 0
    except ValueError:
        address, valid = urlsplit(""), False
    if "@" in registry.url:
        yield (
            "registry.url",
            f"url must not hold credentials; got {hidden(registry.url)!r}. Set username, and password_file or the "
            f"environment's {PREFIX}REGISTRY__PASSWORD.",
        )
    elif not valid:
        yield (
            "registry.url",
            f"url must be https://host:port or http://host:port, with a path or without; got {registry.url!r}.",
        )
    yield from secrets_given_twice("registry", registry)
    if registry.username is not None and not is_set(registry, "password"):
        yield "registry.username", username_without_password("registry", registry.username)
    if registry.username is None and is_set(registry, "password"):
        yield "registry.username", "password needs a username; set username."
    if registry.username is not None and is_set(registry, "token"):
        yield "registry.username", "username and token are both set; remove one."
    http, sent = address.scheme == "http", registry.username is not None or is_set(registry, "token")
    if http and sent and address.hostname not in LOCAL:
        yield "registry.url", f"credentials over http are refused: {PLAINTEXT}; set an https url."
    yield from certificate_contradictions("registry", registry, "with an http url; set https" if http else "")
