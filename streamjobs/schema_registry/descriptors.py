"""Schemas of [source] schema_file, and descriptors of a Protobuf schema as a registry has it.

A registry has the source, or what it was compiled to, in base64. Registries that keep schemas as they are given have both:
Java's serializers register sources, Python's descriptors. protoc compiles sources in a process of its own: a source that
breaks it breaks nothing else.
"""

import base64
import binascii
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamjobs import install_line
from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.errors import ConfigError
from streamjobs.settings.source import SourceSection

WITHIN = 60.0  # seconds
LARGEST = 16 << 20  # bytes of a schema_file
_NAME = re.compile(r"(?!/)(?!.*\.\.)[\w./ -]{1,200}")
_COMMAND = (
    "import sys, grpc_tools, os; from grpc_tools import protoc; "
    "sys.exit(protoc.main([*sys.argv, '-I' + os.path.join(os.path.dirname(grpc_tools.__file__), '_proto')]))"
)


class ProtocFailed(OSError):
    """protoc did not end as it should, which is not the source's fault for sure."""


class ProtocError(Exception):
    """A source that protoc refuses; the message is the end of a sentence."""


def definition_of(source: SourceSection) -> Definition | None:
    """The schema in the file that [source] names; None where it names none. Raises ConfigError."""
    if source.schema_file is None:
        return None
    path, where = Path(source.schema_file), f"[source]: schema_file {source.schema_file!r}"
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ConfigError(f"{where}: expected a schema of at most {LARGEST >> 20} MB, got more.")
        if source.format == "avro":
            return Definition("AVRO", text=data.decode())
        if path.suffix.lower() == ".proto":
            data = descriptors_of({path.name: data.decode()}, path.name, path.parent)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read ({error.strerror}); correct the path or its permissions.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: expected text in UTF-8, got other bytes.") from None
    except ProtocError as error:
        raise ConfigError(f"{where} {error}.") from None
    return Definition("PROTOBUF", descriptors=data, message=source.message)


def require_protoc() -> None:
    """Raises ConfigError where it is not installed."""
    try:
        import grpc_tools.protoc  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"[source]: .proto sources need grpcio-tools, which has protoc: {install_line('protobuf')}."
        ) from None


def descriptors_of(sources: Mapping[str, str], main: str, folder: Path | None = None) -> bytes:
    """A FileDescriptorSet of `main` and all that it imports, `main` last. Takes a while, in which nothing else runs here.

    sources: texts by the names under which they are imported. folder: where imports are looked for besides.
    Raises ProtocError, ConfigError, and OSError where the machine is at fault.
    """
    require_protoc()
    for name in sources:
        if not _NAME.fullmatch(name):
            raise ProtocError(f"imports a file with an invalid name: {name!r:.80}")
    with tempfile.TemporaryDirectory(prefix="streamjobs-protoc-") as place:
        for name, text in sources.items():
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        output = Path(place, "descriptors.streamjobs")
        paths = [f"-I{place}", *([f"-I{folder}"] if folder is not None else [])]
        command = [sys.executable, "-c", _COMMAND, *paths, "--include_imports", f"--descriptor_set_out={output}", main]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=WITHIN, check=False)
        except subprocess.TimeoutExpired:
            raise ProtocFailed(f"protoc took more than {WITHIN:.0f} s") from None
        if done.returncode < 0 or (not done.returncode and not output.is_file()):
            raise ProtocFailed(f"protoc ended with {done.returncode}")
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith(main)]
            raise ProtocError(f"is not a Protobuf schema: {lines[0] if lines else 'protoc failed'}".rstrip(". ")[:300])
        return output.read_bytes()


_USUAL = re.compile(r"google/(protobuf|type)/(\w+)\.proto")  # that Protobuf and Google's packages bring along
DEEPEST = 50  # imports of imports


def descriptor_set(sources: Mapping[str, str], main: str) -> bytes:
    """A FileDescriptorSet of `main` and all that it imports, `main` last.

    sources: by the names under which they are imported. Raises ProtocError, and OSError where the machine is at fault.
    """
    from google.protobuf import descriptor_pb2

    if _compiled(sources[main]) is None:
        return descriptors_of({name: text for name, text in sources.items() if _compiled(text) is None}, main)
    found: dict[str, Any] = {}
    _add(main, sources, found, 0)
    return descriptor_pb2.FileDescriptorSet(file=found.values()).SerializeToString()


def _add(name: str, sources: Mapping[str, str], found: dict[str, Any], depth: int) -> None:
    """Add a file's descriptor after those of its imports."""
    from google.protobuf import descriptor_pb2

    if depth > DEEPEST:
        raise ProtocError(f"has imports nested more than {DEEPEST} deep")
    if name in sources:
        file = _compiled(sources[name])
        if file is None:
            compiled = descriptor_pb2.FileDescriptorSet.FromString(descriptors_of(sources, name))
            found.update((one.name, one) for one in compiled.file)
            return
    else:
        file = _usual(name)
    for other in file.dependency:
        if other not in found:
            _add(other, sources, found, depth + 1)
    found[name] = file


def _compiled(text: str) -> Any:
    """The file's descriptor; None where the text is none, and so a source."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    return file if file.message_type or file.enum_type or file.dependency else None


def _usual(name: str) -> Any:
    """The descriptor of a file that comes with Protobuf or Google's packages. Raises ProtocError for any other."""
    from google.protobuf import descriptor_pb2

    usual = _USUAL.fullmatch(name)
    try:
        module = importlib.import_module(f"google.{usual[1]}.{usual[2]}_pb2") if usual else None
    except ImportError:
        module = None
    if module is None:
        raise ProtocError(f"imports {name!r:.80}, which the registry does not have with it")
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file
