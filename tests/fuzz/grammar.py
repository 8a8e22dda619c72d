"""Values and texts made up by rule: JSON and MessagePack values of any kind in the fields a job reads, and odd TOML."""

import json
import struct
from random import Random
from typing import Any

from tests.fuzz.bytes import EDGES, REALS

NUMBERS = (
    "1e400",
    "-1e400",
    "1e-400",
    "NaN",
    "Infinity",
    "-Infinity",
    "9" * 400,
    "-" + "9" * 25,
    "1.",
    ".5",
    "0x10",
    "01",
    "1e",
)
TEXTS = ("", "run", "sit", "é", "\x00", "a" * 300, "\u2028", "1", "nan", "true", "\x1b[2J", "𝔘", "\u202e")
ESCAPES = ('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\uD83D\\uDE00"', '"\\x41"', '"\xff"', '"\ud7ff"')
LONG = ("[" * 100_000, "[" * 600 + "]" * 600, '{"a":' * 2000, "[" + "0," * 20_000 + "0]")


SIZES = (
    *((b"\xcc", ">B", 0, 1 << 8), (b"\xcd", ">H", 0, 1 << 16), (b"\xce", ">I", 0, 1 << 32)),
    *((b"\xd0", ">b", -(1 << 7), 1 << 7), (b"\xd1", ">h", -(1 << 15), 1 << 15), (b"\xd2", ">i", -(1 << 31), 1 << 31)),
)  # heads of whole numbers in MessagePack, and which numbers they hold


def value(rnd: Random, depth: int = 0) -> Any:
    """Anything JSON can say."""
    kind = rnd.randrange(12 if depth < 4 else 8)
    if kind == 0:
        return None
    if kind == 1:
        return rnd.random() < 0.5
    if kind == 2:
        return rnd.choice(EDGES) * rnd.choice((1, -1))
    if kind == 3:
        return rnd.choice(REALS)
    if kind in (4, 5):
        return rnd.choice((rnd.gauss(0, 1), 1_700_000_000 + rnd.randrange(10**6) / 10, rnd.randrange(100)))
    if kind in (6, 7):
        return rnd.choice(TEXTS)
    if kind == 11:
        return {rnd.choice(TEXTS): value(rnd, depth + 1) for _ in range(rnd.randrange(4))}
    return [value(rnd, depth + 1) for _ in range(rnd.choice((0, 1, 2, 3, 4, 4, 10)))]


def near(rnd: Random, wanted: Any) -> Any:
    """The wanted value, or one that is off by its kind, its size or its number."""
    kind = rnd.randrange(40)
    if kind > 2:
        return wanted
    if kind == 0 and isinstance(wanted, list):
        return [near(rnd, one) for one in wanted]
    if kind == 1:
        return [wanted] * rnd.choice((0, 1, 2, 3, 1000))
    return value(rnd)


def as_json(rnd: Random, body: dict[str, Any]) -> bytes:
    """The object as text; now and then with what Python's writer would never write."""
    parts = [(json.dumps(name), json.dumps(one)) for name, one in body.items()]
    while rnd.random() < 0.15 and parts:
        at = rnd.randrange(len(parts))
        odd = rnd.choice(LONG if rnd.random() < 0.03 else (*NUMBERS, *ESCAPES))
        parts[at] = (parts[at][0], odd if rnd.random() < 0.5 or len(odd) > 500 else f"[{odd},{odd},{odd}]")
    if rnd.random() < 0.1 and parts:
        parts.append((rnd.choice(parts)[0], rnd.choice(parts)[1]))  # a field twice
    rnd.shuffle(parts)
    return ("{" + ",".join(f"{name}:{one}" for name, one in parts) + "}").encode("utf-8", "surrogatepass")


def as_msgpack(rnd: Random, one: Any, depth: int = 0) -> bytes:
    """The value in one of the forms MessagePack has for it; now and then with a length that lies, or of an odd type."""
    odd = rnd.random()
    if odd < 0.002:
        return rnd.choice(
            (b"\xdd\x7f\xff\xff\xff", b"\xdd\x80\x00\x00\x00", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff")
        )
    if odd < 0.004:
        return rnd.choice(
            (b"\xd4\x01a", b"\xc7\x0c\xff" + bytes(12), b"\xd6\xff" + rnd.randbytes(4), b"\xc1", b"\xc9" + bytes(9))
        )
    if odd < 0.0042:
        return rnd.choice((b"\x91", b"\xdc\xff\xff", b"\x81\xa1a")) * rnd.choice((600, 2000, 20_000))
    if one is None or isinstance(one, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[one]
    if isinstance(one, int):
        return _integer(rnd, one)
    if isinstance(one, float):
        small = not abs(one) > 3e38
        return b"\xca" + struct.pack(">f", one) if small and rnd.random() < 0.3 else b"\xcb" + struct.pack(">d", one)
    if isinstance(one, str):
        raw = one.encode() if odd < 0.99 else one.encode()[:-1]
        if rnd.random() < 0.2 or len(raw) > 31:
            head, size = rnd.choice(((b"\xda", ">H"), (b"\xdb", ">I"), (b"\xd9", ">B")) * 6 + ((b"\xc4", ">B"),))
            return head + struct.pack(size, len(raw) & 0xFF if size == ">B" else len(raw)) + raw
        return bytes([0xA0 + len(raw)]) + raw
    if isinstance(one, bytes):
        return b"\xc5" + struct.pack(">H", len(one)) + one
    if isinstance(one, dict):
        entries = list(one.items())
        if entries and rnd.random() < 0.05:
            entries.append((rnd.choice(entries)[0], rnd.choice(entries)[1]))  # a field twice
        rnd.shuffle(entries)
        if len(entries) > 15 or rnd.random() < 0.1:
            head = rnd.choice((b"\xde" + struct.pack(">H", len(entries)), b"\xdf" + struct.pack(">I", len(entries))))
        else:
            head = bytes([0x80 + len(entries)])
        return head + b"".join(as_msgpack(rnd, name, 9) + as_msgpack(rnd, inner, depth + 1) for name, inner in entries)
    if one and rnd.random() < 0.3:
        numbers = [number for row in one for number in row] if all(type(row) is list for row in one) else one
        if numbers and all(type(number) is float for number in numbers):
            kind = "f" if rnd.random() < 0.5 and max(map(abs, numbers)) < 3e38 else "d"
            return as_msgpack(rnd, struct.pack(f"<{len(numbers)}{kind}", *numbers))
    head = b"\xdc" + struct.pack(">H", len(one)) if len(one) > 15 or rnd.random() < 0.1 else bytes([0x90 + len(one)])
    return head + b"".join(as_msgpack(rnd, inner, depth + 1) for inner in one)


def _integer(rnd: Random, one: int) -> bytes:
    if 0 <= one < 128 and rnd.random() < 0.8:
        return bytes([one])
    if one >= 2**63:
        return b"\xcf" + struct.pack(">Q", min(one, 2**64 - 1))
    for head, size, first, end in SIZES:
        if first <= one < end and rnd.random() < 0.5:
            return head + struct.pack(size, one)
    return b"\xd3" + struct.pack(">q", max(one, -(2**63)))


def as_toml(rnd: Random, one: Any, depth: int = 0) -> str:
    """A TOML value; now and then one that looks like none, or is far too large."""
    odd = rnd.random()
    if odd < 0.01:
        return rnd.choice(
            ("inf", "-inf", "nan", "1e400", "9" * 400, "0x" + "f" * 40, "1979-05-27", "07:32:00", "9" * 5000, "-0")
        )
    if odd < 0.012:
        return rnd.choice(("[" * 2000, "[" * 300 + "]" * 300, "{a=" * 500, '"""', "'\x00'", '"\\ud800"', '"\\U00110000"'))
    if isinstance(one, bool):
        return str(one).lower()
    if isinstance(one, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {as_toml(rnd, inner, depth + 1)}" for name, inner in one.items()) + "}"
    if isinstance(one, list):
        return "[" + ", ".join(as_toml(rnd, inner, depth + 1) for inner in one) + "]"
    if isinstance(one, str):
        return json.dumps(one)
    return "''" if one is None else repr(one)
