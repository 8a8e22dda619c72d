"""[source] format, envelope and compression, and the [registry] of schemas."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from streamjobs.settings.broker import RegistrySection
from streamjobs.settings.environment import PREFIX
from streamjobs.settings.rules.broker import PLAINTEXT
from streamjobs.settings.sentences import hidden
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import AUTO

Problems = Iterator[tuple[tuple[str, str], str]]  # ((section, setting), sentence about it)

ENDINGS = {"avro": (".avsc",), "protobuf": (".proto", ".desc")}
LOCAL = ("localhost", "127.0.0.1", "::1")


def format_contradictions(source: SourceSection, registry: RegistrySection | None, refused: bool) -> Problems:
    """refused: there is a [registry], but it has mistakes of its own."""
    file, place = source.schema_file, ("source", "schema_file")
    if not source.has_schema:
        for name in ("schema_file", "message"):
            if getattr(source, name) is not None:
                yield ("source", name), f"{name} has no meaning in format = '{source.format}'; remove it, or set the format."
        if registry is not None:
            yield (
                ("source", "format"),
                f"format = '{source.format}' has no schemas; set 'avro' or 'protobuf', or remove [registry].",
            )
        return
    if source.time_unit == AUTO:
        yield (
            ("source", "time_unit"),
            f"time_unit = 'auto' has no meaning in format = '{source.format}', because its schemas define times; "
            "set a unit.",
        )
    if file is None and registry is None and not refused:
        yield (
            ("source", "format"),
            f"format = '{source.format}' needs schemas: a [registry] with its url, or one for all values in schema_file.",
        )
    if file is not None and registry is not None:
        yield place, "schema_file and [registry] both set where schemas are; remove one."
    endings = ENDINGS[source.format]
    if file is not None and not file.lower().endswith(endings):
        yield place, f"schema_file must end in {' or '.join(endings)} for format = '{source.format}'; got {file!r}."
    if source.message is not None and (source.format != "protobuf" or file is None):
        yield (
            ("source", "message"),
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
            ("registry", "url"),
            f"url must not hold credentials; got {hidden(registry.url)!r}. Set username, and password_file or the "
            f"environment's {PREFIX}REGISTRY__PASSWORD.",
        )
    elif not valid:
        yield (
            ("registry", "url"),
            f"url must be https://host:port or http://host:port, with a path or without; got {registry.url!r}.",
        )
    for name in ("password", "key_password", "token"):
        if getattr(registry, name) is not None and getattr(registry, f"{name}_file") is not None:
            yield ("registry", f"{name}_file"), f"{name}_file and {name} both give the same secret; remove one."
    has = {
        name: bool(getattr(registry, name) or getattr(registry, f"{name}_file"))
        for name in ("password", "token", "key_password")
    }
    if registry.username is not None and not has["password"]:
        yield (
            ("registry", "username"),
            f"username {registry.username!r} needs its password; put it in a file named by password_file, or in the "
            f"environment as {PREFIX}REGISTRY__PASSWORD.",
        )
    if registry.username is None and has["password"]:
        yield ("registry", "username"), "password needs a username; set username."
    if registry.username is not None and has["token"]:
        yield ("registry", "username"), "username and token are both set; remove one."
    if (registry.username is not None or has["token"]) and address.scheme == "http" and address.hostname not in LOCAL:
        yield ("registry", "url"), f"credentials over http are refused: {PLAINTEXT}; set an https url."
    if address.scheme == "http":
        for name in ("ca_file", "certificate_file", "key_file"):
            if getattr(registry, name) is not None:
                yield ("registry", name), f"{name} has no meaning with an http url; set https, or remove it."
    elif registry.key_file is not None and registry.certificate_file is None:
        yield ("registry", "key_file"), "key_file needs its certificate; set certificate_file."
    elif registry.certificate_file is None and has["key_password"]:
        yield ("registry", "key_password"), "key_password needs its key; set certificate_file and key_file."
