"""Decodes Avro with the schema it was written with, through fastavro.

Logical types become what records in JSON have: times are numbers in [source] time_unit, local ones ISO 8601 without a zone,
decimals numbers, UUIDs texts. They are read by functions of our own, under names of our own, so that fastavro's usual
types stay as they are for others in this process.
"""

import io
import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import fastavro
import fastavro.read
from fastavro.schema import SchemaParseException, UnknownType

from streamjobs.core.decoding.samples import UNDECODABLE, Problem
from streamjobs.core.decoding.with_schema.wire_format import Definition, Read, SchemaError
from streamjobs.settings.types import TIME_UNITS

DEEPEST = 32  # types within types
DAY = 86_400  # seconds
_EPOCH = datetime(1970, 1, 1)
_DAMAGED = (*UNDECODABLE, EOFError, LookupError, AssertionError)
_SIZES = {"null": 0, "float": 4, "double": 8}  # least bytes of a value; of others 1
_PARTS = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}  # of a second
_OURS = "streamjobs-"  # begins the names of our logical types


def avro_reader(definition: Definition, time_unit: str) -> Read:
    """time_unit: that times become numbers in. Raises SchemaError for a schema that cannot be used."""
    named: dict[str, Any] = {}
    try:
        for text in definition.references:
            fastavro.parse_schema(json.loads(text), named_schemas=named)
        schema = fastavro.parse_schema(json.loads(definition.text), named_schemas=named)
    except (SchemaParseException, UnknownType, KeyError, AttributeError, *UNDECODABLE) as error:
        name = f": unknown type {error.name}" if isinstance(error, UnknownType) else ""
        raise SchemaError(f"is not an Avro schema{name}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise SchemaError("is not of a record")
    try:
        _Preparation(named, time_unit).least_bytes(schema, ())
    except (KeyError, TypeError, ValueError, AttributeError):
        raise SchemaError("is not an Avro schema") from None
    read = fastavro.schemaless_reader

    def message(rest: bytes, elsewhere: bytes | None) -> dict[str, Any]:
        data = rest
        if elsewhere is not None:
            data = elsewhere
            if rest:
                raise Problem("malformed", f"expected a schema id alone in its header, got {len(rest)} bytes more")
        stream = io.BytesIO(data)
        try:
            decoded: dict[str, Any] = read(stream, schema, None)  # type: ignore[assignment]
        except _DAMAGED:
            raise Problem("malformed", "expected avro as its schema says, got bytes that are not") from None
        if stream.tell() != len(data):
            left = len(data) - stream.tell()
            raise Problem("malformed", f"expected avro as its schema says, got {left} bytes more")
        return decoded

    return message


class _Preparation:
    """Checks a parsed schema, and gives its logical types the names under which we read them.

    A schema may not name itself: fastavro follows nested values with the processor's stack, which a million levels of them
    (a byte each) overflow, and the process is gone. Nor may an array hold items of no bytes: a few bytes could promise a
    billion of them.
    """

    def __init__(self, named: dict[str, Any], time_unit: str) -> None:
        self.named, self.time_unit = named, time_unit
        self.sizes: dict[str, int] = {}  # of named types that were seen

    def least_bytes(self, schema: Any, within: tuple[str, ...]) -> int:
        """The fewest bytes of a value. within: the names of the types around it, '' for those without."""
        if len(within) > DEEPEST:
            raise SchemaError(f"has types nested more than {DEEPEST} deep")
        if isinstance(schema, list):
            for option in schema:
                self.least_bytes(option, (*within, ""))
            return 1
        if isinstance(schema, str):
            if schema not in self.named:
                return _SIZES.get(schema, 1)
            return self._named(schema, self.named[schema], within)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.least_bytes(kind, (*within, ""))
        if kind in ("record", "error", "fixed", "enum"):
            return self._named(schema["name"], schema, within)
        if kind == "array":
            if not self.least_bytes(schema["items"], (*within, "")):
                raise SchemaError("has an array with items of 0 bytes")
            return 1
        if kind == "map":
            self.least_bytes(schema["values"], (*within, ""))
            return 1
        _rename(schema, self.time_unit)
        return self.least_bytes(kind, (*within, "")) if kind in self.named else _SIZES.get(kind, 1)

    def _named(self, name: str, schema: dict[str, Any], within: tuple[str, ...]) -> int:
        if name in within:
            raise SchemaError(f"is recursive: a {name!r} may contain another {name!r}")
        if name not in self.sizes:
            if schema["type"] == "fixed":
                _rename(schema, self.time_unit)
                self.sizes[name] = int(schema["size"])
            elif schema["type"] == "enum":
                self.sizes[name] = 1
            else:
                inner = (*within, name)
                self.sizes[name] = sum(self.least_bytes(field["type"], inner) for field in schema["fields"])
        return self.sizes[name]


def _rename(schema: dict[str, Any], time_unit: str) -> None:
    """Have a schema's values read by our functions where it has a logical type."""
    stated = schema.get("logicalType")
    if stated is None or str(stated).startswith(_OURS):
        return
    name, part = str(stated).rpartition("-")[::2]
    if stated == "decimal":
        schema["logicalType"] = f"{_OURS}decimal"
    elif stated == "date":
        schema["logicalType"] = f"{_OURS}date-{time_unit}"
    elif name in ("timestamp", "time") and part in _PARTS:
        schema["logicalType"] = f"{_OURS}{part}-{time_unit}"
    elif name == "local-timestamp" and part in _PARTS:
        schema["logicalType"] = f"{_OURS}local-{part}"
    else:
        del schema["logicalType"]  # its values stay what they are without it


def scaled(number: int, parts: int, unit: int) -> int | float:
    """A number of parts of a second, in units of which a second has `unit`; exact, or the nearest float.

    >>> scaled(1_700_000_000_123, 1_000, 1), scaled(5, 1_000, 1_000_000), scaled(86_400, 1, 1_000)
    (1700000000.123, 5000, 86400000)
    """
    return number * (unit // parts) if unit >= parts else number / (parts // unit)


def _decimal(data: Any, schema: Any, *_: Any) -> float:
    return float(int.from_bytes(data, signed=True) / 10 ** schema.get("scale", 0))


def _local(parts: int, number: int, *_: Any) -> str:
    return (_EPOCH + timedelta(microseconds=number * 1_000_000 // parts)).isoformat()


def _register() -> None:
    readers: dict[str, Any] = fastavro.read.LOGICAL_READERS
    for kind in ("int", "long"):
        for unit, per_second in TIME_UNITS.items():
            readers[f"{kind}-{_OURS}date-{unit}"] = lambda days, *_, of_day=DAY * int(per_second): days * of_day
            for part, parts in _PARTS.items():
                to = parts, int(per_second)
                readers[f"{kind}-{_OURS}{part}-{unit}"] = lambda number, *_, to=to: scaled(number, *to)
        readers |= {f"{kind}-{_OURS}local-{part}": partial(_local, parts) for part, parts in _PARTS.items()}
    for kind in ("bytes", "fixed"):
        readers[f"{kind}-{_OURS}decimal"] = _decimal


_register()
