"""The bytes of one key: last applied offsets, class names and every array of its state, guarded by a checksum.

Layout, little-endian:

    magic "SJ" | version u8 | 0 | fingerprint 16 bytes | described by: u16 length, text
    left out, in version 2: u16 count, then of each array its u16 place and 8 bytes of its hash
    offsets: u16 count, then each u16 length, topic, i32 partition, i64 offset
    names:   u16 count, then each u16 length, text
    arrays:  u16 count, then each dtype code u8, dimensions u8, u32 per dimension, data in C order
    crc32 of all before it, in every version

An array is left out where it is that of a new key, as the job's settings and population give it: of a head without a label.
Version 2 is that of snapshots that leave arrays out. All others have version 1, as earlier releases wrote them.

Never pickle: nothing stored is executed. What cannot be trusted is a SnapshotError and nothing is overwritten.
"""

import json
import math
import struct
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.errors import ForeignStateError, SnapshotError

if TYPE_CHECKING:
    from streamjobs.settings.source import SourceSection

MAGIC, VERSION, LEAVES_OUT = b"SJ", 1, 2
HASH_BYTES = 8
FIELDS = "fields"  # in a snapshot's description
CHARACTERS = 3  # of a hash: another name is not noticed once in 262,144
MOST_NAMED = 4  # columns in a sentence
DTYPES = ("<f8", "<i8", "|i1", "|u1", "<i4", "<u8", "<f4")
_TYPES = tuple(map(np.dtype, DTYPES))
_SIZES = tuple(dtype.itemsize for dtype in _TYPES)
CODES = {dtype: code for code, dtype in enumerate(_TYPES)}
_HEAD = struct.Struct("<2sBB16s")
U16, I32I64, CRC = struct.Struct("<H"), struct.Struct("<iq"), struct.Struct("<I")

Offsets = dict[tuple[str, int], int]  # (input topic, partition) -> last applied offset


class LeftOut:
    """In the place of an array that a snapshot leaves out."""

    __slots__ = ("hash",)
    shape, ndim, size, dtype = (), -1, 0, None  # of no array

    def __init__(self, hash: bytes) -> None:
        self.hash = hash

    @classmethod
    def of(cls, array: Array) -> "LeftOut":
        """
        >>> LeftOut.of(np.zeros(3)).hash == LeftOut.of(np.zeros(4)).hash
        False
        """
        return cls(blake2b(array_header(array.dtype, array.shape) + array.tobytes(), digest_size=HASH_BYTES).digest())


class Snapshot(NamedTuple):
    fingerprint: bytes  # of the job that wrote it
    description: str  # the same for people: what ran
    offsets: Offsets
    names: list[str]  # class names in the order of their columns
    arrays: list[Any]  # each an array or LeftOut


def encode(snapshot: Snapshot) -> bytes:
    parts: list[bytes] = []
    left_out: dict[int, LeftOut] = {}
    for place, array in enumerate(snapshot.arrays):
        if isinstance(array, LeftOut):
            left_out[place] = array
        else:
            parts += (array_header(array.dtype, array.shape), array.tobytes())
    begin = head(snapshot.fingerprint, snapshot.description, left_out)
    return assemble(begin, snapshot.offsets, snapshot.names, parts)


def head(fingerprint: bytes, description: str, left_out: Mapping[int, LeftOut] | None = None) -> bytes:
    """What all snapshots of a job begin with that leave out these arrays, by place."""
    begin = _HEAD.pack(MAGIC, LEAVES_OUT if left_out else VERSION, 0, fingerprint) + text_bytes(description)
    if not left_out:
        return begin
    return begin + U16.pack(len(left_out)) + b"".join(U16.pack(place) + one.hash for place, one in left_out.items())


def array_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return struct.pack(f"<BB{len(shape)}I", CODES[dtype], len(shape), *shape)


def assemble(begin: bytes, offsets: Offsets, names: Sequence[str], arrays: list[bytes]) -> bytes:
    """A snapshot from its parts; `arrays` has a header and the data of each array in turn."""
    parts = [begin, table_of_offsets(offsets), U16.pack(len(names))]
    parts += [text_bytes(name) for name in names]
    parts.append(U16.pack(len(arrays) // 2))
    parts += arrays
    body = b"".join(parts)
    return body + CRC.pack(zlib.crc32(body))


def table_of_offsets(offsets: Offsets) -> bytes:
    parts = [U16.pack(len(offsets))]
    for (topic, partition), offset in offsets.items():
        parts += (text_bytes(topic), I32I64.pack(partition, offset))
    return b"".join(parts)


def decode(data: bytes, last: int | None = None) -> Snapshot:
    """Raises SnapshotError for anything that `encode` of this or an older version did not write.

    It is a ForeignStateError where another release wrote it. last: only so many arrays at the end are wanted.
    """
    if len(data) < _HEAD.size + 4 or data[:2] != MAGIC:
        raise SnapshotError(f"expected a streamjobs snapshot, got {len(data)} bytes that begin otherwise.")
    if zlib.crc32(memoryview(data)[:-4]) != CRC.unpack_from(data, len(data) - 4)[0]:
        raise SnapshotError("snapshot is damaged: its checksum does not fit its bytes.")
    if data[2] not in (VERSION, LEAVES_OUT):
        raise ForeignStateError(
            f"snapshot version {data[2]} is unknown to this release, which reads versions {VERSION} and {LEAVES_OUT}."
        )
    try:
        return _snapshot(data, last)
    except (struct.error, IndexError, ValueError) as problem:
        raise SnapshotError(f"snapshot is damaged although its checksum fits: {problem}.") from problem


def described_by(data: bytes) -> dict[str, Any]:
    """What ran when a snapshot was written, by name; raises SnapshotError as `decode` does."""
    return table_of(decode(data).description)


def table_of(description: str) -> dict[str, Any]:
    """A snapshot's description by name; empty where it is not one."""
    try:
        table = json.loads(description)
    except (ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _snapshot(data: bytes, last: int | None) -> Snapshot:
    reader = Reader(data, _HEAD.size)
    _, version, flags, fingerprint = _HEAD.unpack_from(data)
    if flags:
        raise ValueError(f"expected 0 behind its version, got {flags}")
    description = reader.text()
    left_out = reader.left_out() if version == LEAVES_OUT else {}
    offsets = reader.offsets()
    names = [reader.text() for _ in range(reader.number(U16))]
    arrays: list[Any] = reader.arrays(last)
    for place, one in left_out.items() if last is None else ():
        if place > len(arrays):
            raise ValueError(f"it leaves out array {place} of {len(arrays)}")
        arrays.insert(place, one)
    return Snapshot(fingerprint, description, offsets, names, arrays)


class Reader:
    """Numbers, texts and arrays from position `at` on; the last four bytes are the checksum.

    Raises struct.error, IndexError or ValueError where the bytes are not what is asked for.
    """

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at, self.end = data, at, len(data) - 4

    def left_out(self) -> dict[int, LeftOut]:
        """By place, ascending."""
        found: dict[int, LeftOut] = {}
        for _ in range(self.number(U16)):
            place = self.number(U16)
            if place <= max(found, default=-1):
                raise ValueError("the arrays that it leaves out are not in their order")
            self.at += HASH_BYTES
            if self.at > self.end:
                raise ValueError("a hash runs past the end")
            found[place] = LeftOut(self.data[self.at - HASH_BYTES : self.at])
        if not found:
            raise ValueError("it leaves out no array")
        return found

    def offsets(self) -> Offsets:
        offsets: Offsets = {}
        for _ in range(self.number(U16)):
            topic = self.text()
            partition, offset = I32I64.unpack_from(self.data, self.at)
            self.at += I32I64.size
            if (topic, partition) in offsets:
                raise ValueError("the offset of a partition appears twice")
            offsets[topic, partition] = offset
        return offsets

    def arrays(self, last: int | None = None) -> list[Array]:
        """A count and the arrays, which end the data. last: see `decode`."""
        count = self.number(U16)
        wanted = count if last is None else min(count, last)
        data, at = self.data, self.at
        for _ in range(count - wanted):
            dimensions = data[at + 1]
            shape = struct.unpack_from(f"<{dimensions}I", data, at + 2) if dimensions else ()
            at += 2 + 4 * dimensions + math.prod(shape, start=_SIZES[data[at]])
        self.at = at
        arrays = [self.array() for _ in range(wanted)]
        if self.at != self.end:
            raise ValueError(f"{self.end - self.at} bytes too many")
        return arrays

    def number(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return int(value)

    def text(self) -> str:
        length = self.number(U16)
        self.at += length
        if self.at > self.end:
            raise ValueError("a text runs past the end")
        return self.data[self.at - length : self.at].decode()

    def array(self) -> Array:
        code, dimensions = self.data[self.at], self.data[self.at + 1]
        shape = struct.unpack_from(f"<{dimensions}I", self.data, self.at + 2)
        self.at += 2 + 4 * dimensions
        dtype, count = _TYPES[code], math.prod(shape)
        if self.at + count * dtype.itemsize > self.end:
            raise ValueError("an array runs past the end")
        array = np.frombuffer(self.data, dtype, count, self.at).reshape(shape)
        self.at += count * dtype.itemsize
        return array


def text_bytes(value: str) -> bytes:
    raw = value.encode()
    return U16.pack(len(raw)) + raw


def flatten(state: Any) -> list[Array]:
    """A state's fields as arrays in order, nested states in place; numbers become arrays without dimensions."""
    arrays: list[Array] = []
    for value in state:
        if hasattr(value, "_fields"):
            arrays += flatten(value)
        else:
            arrays.append(np.asarray(value))
    return arrays


def state_fields(state: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """(name, value) of a state's fields; those of a composite state are named part.field."""
    for name, value in zip(state._fields, state, strict=True):
        if hasattr(value, "_fields"):
            yield from state_fields(value, f"{before}{name}.")
        else:
            yield before + name, value


def array_counts(states: Iterable[Any]) -> list[int]:
    """How many arrays `flatten` makes of each state."""
    return [len(flatten(state)) for state in states]


def unflatten(like: Any, arrays: Sequence[Any]) -> Any:
    """A state shaped like `like` from its arrays; raises SnapshotError where count, type or dimensions differ."""
    state, used = _unflatten(like, arrays, 0)
    if used != len(arrays):
        raise SnapshotError(f"snapshot holds {len(arrays)} arrays, this job expects {used}.")
    return state


def _unflatten(like: Any, arrays: Sequence[Any], at: int) -> tuple[Any, int]:
    values: list[Any] = []
    for field, value in zip(like._fields, like, strict=True):
        if hasattr(value, "_fields"):
            nested, at = _unflatten(value, arrays, at)
            values.append(nested)
            continue
        if at >= len(arrays):
            raise SnapshotError(f"snapshot holds {len(arrays)} arrays, this job expects more ({field} is missing).")
        array, wanted = arrays[at], np.asarray(value)
        at += 1
        if isinstance(array, LeftOut):
            if array.hash != LeftOut.of(wanted).hash:
                raise ForeignStateError(
                    f"snapshot leaves out field {field}, because it was as in a new key. With this release, these settings "
                    "or this population, new keys begin with other numbers. Restore them, or reset the state."
                )
            values.append(value)
            continue
        if array.dtype != wanted.dtype or array.ndim != wanted.ndim or array.shape[1:] != wanted.shape[1:]:
            raise SnapshotError(
                f"snapshot field {field} has shape {array.shape} of {array.dtype}, "
                f"this job expects {wanted.shape} of {wanted.dtype}."
            )
        values.append(array if wanted.ndim else array.item())
    return type(like)(*values), at


RESTORE = (
    "Restore those settings; or give the job another [job] name, which begins with new states and keeps these; or delete "
    "these with 'streamjobs state reset JOB --all'."
)


def difference(written: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How the job that wrote a snapshot differs from the one that reads it, in one sentence, and what to do then."""
    return f"{differing(written, now)} {RESTORE}"


def differing(written: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    changed = [key for key in {**written, **now} if written.get(key) != now.get(key) and key != FIELDS]
    pairs = {key: (str(written.get(key, "absent")), str(now.get(key, "absent"))) for key in changed}
    was = ", ".join(f"{key}={_without(one, other)}" for key, (one, other) in pairs.items())
    runs = ", ".join(f"{key}={_without(other, one)}" for key, (one, other) in pairs.items())
    return f"snapshot was written with {was}; this job runs {runs}."


def _without(one: str, other: str) -> str:
    """A repr without the arguments that another one of the same class has too.

    >>> _without("Okfeb(kernel=Kernel(name='gaussian', scale=1.0), rank=20, budget=40)",
    ...          "Okfeb(kernel=Kernel(name='gaussian', scale=1.0), rank=30, budget=40)")
    'Okfeb(rank=20)'
    >>> _without("Chain(extractor='Okfeb(rank=20, budget=40)')", "Chain(extractor='Okfeb(rank=30, budget=40)')")
    'Chain(extractor=Okfeb(rank=20))'
    """
    (name, mine), (its_name, its) = _arguments(one), _arguments(other)
    values = dict(each.split("=", 1) for each in its if "=" in each)
    left = [_inside(each, values) for each in mine if each not in its]
    return f"{name}({', '.join(left)})" if name == its_name and left else one


def _inside(argument: str, values: Mapping[str, str]) -> str:
    """`_without` of an argument that is a repr itself."""
    setting, _, value = argument.partition("=")
    if "(" not in value or setting not in values:
        return argument
    return f"{setting}={_without(_unquoted(value), _unquoted(values[setting]))}"


def _unquoted(value: str) -> str:
    return value[1:-1] if value[:1] in "'\"" else value


def _arguments(text: str) -> tuple[str, list[str]]:
    """Class and arguments of a repr."""
    name, _, inside = text.partition("(")
    depth, parts = 0, [""]
    for character in inside.removesuffix(")"):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return name, [part.strip() for part in parts]


def hashes_of_fields(source: "SourceSection") -> str:
    """Of columns, label, coded categories and turns, which a ':' separates; nothing where a job file has no names."""
    return ":".join("".join(map(_hash, names)) for _, names in _groups(source))


def require_same_fields(written: Mapping[str, Any], described: Mapping[str, str], source: "SourceSection") -> None:
    """Raises ForeignStateError if a state's columns were other fields. Descriptions of a snapshot and of the job.

    States of earlier releases have no hashes. A label, and categories at the end of a list, may be added.
    """
    theirs, ours = str(written.get(FIELDS, "")).split(":"), described.get(FIELDS, "").split(":")
    for (what, names), was, now in zip(_groups(source), theirs, ours, strict=False):
        if not was.startswith(now) and not now.startswith(was):
            raise ForeignStateError(_other_fields(what, list(names), was))


def _groups(source: "SourceSection") -> Iterable[tuple[str, Sequence[str]]]:
    yield "column", source.learned_columns
    yield "label", [source.learned_name(source.label)] if source.label is not None else []
    if source.categories_as == "codes":
        for name, categories in source.categories_of.items():
            yield f"category of {name}", [repr(one) for one in categories]
    turns = source.angles or {}
    for name in (field for field in source.fields or () if field in turns):
        yield f"turn of {name}", [repr(turns[name])]


def _hash(name: str) -> str:
    return urlsafe_b64encode(blake2b(name.encode(), digest_size=CHARACTERS).digest())[:CHARACTERS].decode()


def _other_fields(what: str, names: Sequence[str], written: str) -> str:
    known = {_hash(name): repr(name) for name in names}
    group, _, of_field = what.partition(" of ")
    another = f"another {group if of_field else 'field'}"
    was = [written[at : at + CHARACTERS] for at in range(0, len(written), CHARACTERS)]
    differ = [
        f"{what} {at + 1} was {known.get(one, another)} and is {name!r} now"
        for at, (one, name) in enumerate(zip(was, names, strict=False))
        if known.get(one) != repr(name)
    ]
    more = f" and {len(differ) - MOST_NAMED} more differ" if len(differ) > MOST_NAMED else ""
    return (
        f"snapshot was written with other fields: {', '.join(differ[:MOST_NAMED])}{more}. Restore [source] as it was; if "
        "only the name of a field has changed, set [source] renamed = { NEW = 'FORMER' }; to start over, run 'streamjobs "
        "state reset JOB --all'."
    )
