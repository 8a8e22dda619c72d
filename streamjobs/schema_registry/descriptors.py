"""Descriptors of a Protobuf schema as a registry has it: the source, or what it was compiled to, in base64.

Registries that keep schemas as they are given have both: Java's serializers register sources, Python's descriptors.
"""

import base64
import binascii
import importlib
import re
from collections.abc import Mapping
from typing import Any

from streamjobs.schema_registry.protoc import ProtocError, descriptors_of

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
