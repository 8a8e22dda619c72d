"""Decodes Protobuf with the descriptors of its schema, through protobuf's own library.

A field of proto3 without presence that is not there has its default, as Protobuf means it; one with presence (optional, in a
oneof, a message, proto2) is absent, unless its schema states a default. Timestamps and durations become numbers in [source]
time_unit, enums their names, wrappers (DoubleValue, ...) what they hold.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from streamjobs.core.decoding.samples import UNDECODABLE, Problem
from streamjobs.core.decoding.with_schema.wire_format import Definition, Read, SchemaError
from streamjobs.settings.types import TIME_UNITS

MOST_INDEXES = 32  # message types within message types
_FIRST = (0,)  # place of a message type
NANOS = 1_000_000_000
_TIMES = ("google.protobuf.Timestamp", "google.protobuf.Duration")
_WRAPPERS = {
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}

Convert = Callable[[Any], Any]
Fields = Callable[[Message], dict[str, Any]]


def protobuf_reader(definition: Definition, time_unit: str, tops: frozenset[str] | None, fixed: bool) -> Read:
    """tops: the fields that are read; None: all. fixed: the schema is that of all values, which state no message type.

    With a registry, a value's schema is the one it was written with, and a field that it does not have is an error. A fixed
    one may be older than its writers, so their new fields are skipped. Raises SchemaError for a schema that cannot be used.
    """
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(definition.descriptors).file
        for file in files:
            pool.Add(file)  # type: ignore[no-untyped-call]
        main: FileDescriptor = pool.FindFileByName(files[-1].name)
    except (DecodeError, IndexError, KeyError, *UNDECODABLE):
        raise SchemaError("is not a set of Protobuf descriptors") from None
    if fixed:
        chosen = _Type(_named(main, definition.message), time_unit, tops, exact=False)
        return lambda value, _: chosen.read(value)
    types: dict[tuple[int, ...], _Type] = {}

    def read(rest: bytes, elsewhere: bytes | None) -> dict[str, Any]:
        indexes, data = _indexes(rest)
        if elsewhere is not None:
            if data:
                raise Problem(
                    "malformed", f"expected a schema id and message type in its header, got {len(data)} bytes more"
                )
            data = elsewhere
        if indexes not in types:
            types[indexes] = _Type(_placed(main, indexes), time_unit, tops, exact=True)
        return types[indexes].read(data)

    return read


def _named(file: FileDescriptor, name: str | None) -> Descriptor:
    """Raises SchemaError."""
    found = _all_types(file.message_types_by_name.values())
    if not found:
        raise SchemaError("has no message type")
    for one in found:
        if name is None or name in (one.name, one.full_name):
            return one
    raise SchemaError(f"has no message type {name!r}; it has {', '.join(one.full_name for one in found)[:200]}")


def _all_types(types: Iterable[Descriptor]) -> list[Descriptor]:
    return [one for outer in types for one in (outer, *_all_types(outer.nested_types))]


def _placed(file: FileDescriptor, indexes: tuple[int, ...]) -> Descriptor:
    """The message type at this place among those of the file, then of the type found. Raises Problem."""
    types = list(file.message_types_by_name.values())
    found: Descriptor | None = None
    for index in indexes:
        if not 0 <= index < len(types):
            raise Problem("schema", f"expected one of the schema's message types, got number {index} of {len(types)}")
        found = types[index]
        types = list(found.nested_types)
    assert found is not None
    return found


def _indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The place of the message type, which begins the data, and what follows it: a count, then indexes; 0 for the first."""
    if data[:1] == b"\0":
        return _FIRST, data[1:]
    count, at = _zigzag(data, 0)
    if count == 0:
        return _FIRST, data[at:]
    if not 0 < count <= MOST_INDEXES:
        raise Problem("malformed", f"expected a message type of at most {MOST_INDEXES} indexes, got {count}")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        indexes.append(index)
    return tuple(indexes), data[at:]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    """A signed number of at most five bytes, and where it ends. Raises Problem."""
    number = 0
    for place, byte in enumerate(data[at : at + 5]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise Problem("malformed", "expected a message type after the schema id, got bytes that are none")


class _Type:
    """Decodes values of one message type."""

    def __init__(self, descriptor: Descriptor, time_unit: str, tops: frozenset[str] | None, *, exact: bool) -> None:
        self.parse = message_factory.GetMessageClass(descriptor).FromString
        self.exact, self.known = exact, frozenset(descriptor.fields_by_number)
        self.fields = _Conversions(int(TIME_UNITS[time_unit])).fields(descriptor, tops)

    def read(self, data: bytes) -> dict[str, Any]:
        try:
            message = self.parse(data)
        except (DecodeError, *UNDECODABLE):
            raise Problem("malformed", "expected protobuf as its schema says, got bytes that are not") from None
        unknown = UnknownFieldSet(message)  # type: ignore[no-untyped-call]
        if len(unknown):
            self._check(message, unknown)
        return self.fields(message)

    def _check(self, message: Message, unknown: UnknownFieldSet) -> None:
        """Raises Problem for a field of another type than the schema's, which the library calls unknown, like new ones."""
        for one in iter(unknown):  # type: ignore[call-overload]
            if one.field_number in self.known:
                name = message.DESCRIPTOR.fields_by_number[one.field_number].name
                raise Problem("wrong_value", f"expected field {name!r} of the type that its schema says, got another type")
            if self.exact:
                raise Problem(
                    "malformed",
                    f"expected fields of the schema, got number {one.field_number}, which the schema does not have",
                )


class _Conversions:
    """Messages to dicts, lists, numbers and texts, as records in JSON have them."""

    def __init__(self, unit: int) -> None:
        self.per_unit = NANOS // unit
        self.made: dict[str, Fields] = {}  # by message type

    def fields(self, descriptor: Descriptor, only: frozenset[str] | None = None) -> Fields:
        """A function from a message to its fields. only: those that are converted; None: all."""
        fields = [field for field in descriptor.fields if only is None or field.name in only]
        plain = [field.name for field in fields if _is_plain(field)]
        get = operator.attrgetter(*plain) if plain else None
        others = [(field.name, _may_be_absent(field), self._of_field(field)) for field in fields if not _is_plain(field)]
        single = len(plain) == 1

        def convert(message: Message) -> dict[str, Any]:
            if get is None:
                found = {}
            elif single:
                found = {plain[0]: get(message)}
            else:
                found = dict(zip(plain, get(message), strict=True))
            for name, may_be_absent, of_field in others:
                if not may_be_absent or message.HasField(name):
                    found[name] = of_field(getattr(message, name))
            return found

        return convert

    def _of_field(self, field: FieldDescriptor) -> Convert:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value = self._of_value(field.message_type.fields_by_name["value"])
            return lambda entries: {str(key): value(one) for key, one in entries.items()}
        convert = self._of_value(field)
        if not field.is_repeated:
            return convert
        return list if convert is _same else lambda values: list(map(convert, values))

    def _of_value(self, field: FieldDescriptor) -> Convert:
        if field.enum_type is not None:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return lambda number: names.get(number, number)
        if field.message_type is None:
            return _same
        name = field.message_type.full_name
        if name in _TIMES:
            return self._time
        if name in _WRAPPERS:
            return operator.attrgetter("value")
        return self._message

    def _message(self, message: Message) -> dict[str, Any]:
        """Of a nested one; its conversion is made when it first comes, for types may hold themselves."""
        descriptor: Any = message.DESCRIPTOR
        name = descriptor.full_name
        if name not in self.made:
            self.made[name] = self.fields(descriptor)
        return self.made[name](message)

    def _time(self, message: Any) -> int | float:
        nanos = message.seconds * NANOS + message.nanos
        return int(nanos) if self.per_unit == 1 else float(nanos / self.per_unit)


def _same(value: Any) -> Any:
    return value


def _is_plain(field: FieldDescriptor) -> bool:
    """Whether a field is always there, with a value that is what it is."""
    return not (field.is_repeated or field.message_type or field.enum_type or _may_be_absent(field))


def _may_be_absent(field: FieldDescriptor) -> bool:
    return field.has_presence and not field.has_default_value
