"""Types shared by the sections: durations, sizes, times, topics, secrets; the base class of every section; and TOML, which
Python's own library only reads."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, WithJsonSchema

from streamjobs.settings.paths import field_path
from streamjobs.settings.times import example_of, zone_of

DURATION = r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)\s*"
SIZE = r"\s*([0-9]+)\s*(B|KB|MB|GB)\s*"
TIME_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # of event times: units per second
AUTO = "auto"  # [source] time_unit: the first number decides
JUDGED = (1e8, 1e11)  # seconds since 1970, 1973-03-03 to 5138-11-16: of each unit, numbers that no other one has
MOST_NUMBERS = 4096  # numbers of a sample
POPULATION = "population"  # as a reference: what [population] knows
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
SECONDS = {  # of a unit of durations (7d) and of rates (1/day)
    **{"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0},
    **{"min": 60.0, "day": 86_400.0, "week": 604_800.0},
}
Problems = Iterator[tuple[str, str]]  # ("section.setting", sentence about it) of settings that contradict others
T = TypeVar("T")
MOST_DIGITS = 64  # of a number that is a text
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*")
_NAN = float("nan")
_TEXTS = {"": _NAN, "nan": _NAN, "true": 1.0, "false": 0.0}
_SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def seconds(value: Any) -> Any:
    """Seconds of a duration: "500ms" -> 0.5. Other values pass: pydantic checks that they are numbers, in seconds."""
    if isinstance(value, str):
        match = re.fullmatch(DURATION, value)
        if not match:
            raise ValueError("a duration such as '500ms', '2s', '5m', '1h' or '90d'")
        return float(match[1]) * SECONDS[match[2]]
    return value


def reference(text: str) -> tuple[int, float]:
    """Rows, or seconds, of a reference: "first 400 rows" or "first 2h"; the other is 0. Raises ValueError.

    >>> reference("first 400 rows"), reference("first 2h")
    ((400, 0.0), (0, 7200.0))
    """
    try:
        rows, span = rows_or_time(text.removeprefix("first").removeprefix(" "))
    except ValueError:
        rows, span = 0, 0.0
    if not text.startswith("first") or not (rows or span):
        raise ValueError("such as 'first 400 rows' or 'first 2h'")
    return rows, span


def rows_or_time(text: str) -> tuple[int, float]:
    """Rows, or seconds, of a text; the other is 0. Raises ValueError.

    >>> rows_or_time("5000 rows"), rows_or_time("7d")
    ((5000, 0.0), (0, 604800.0))
    """
    if of_rows := re.fullmatch(r"([0-9]{1,9}) rows", text):
        return int(of_rows[1]), 0.0
    if of_time := re.fullmatch(DURATION, text):
        return 0, float(of_time[1]) * SECONDS[of_time[2]]
    raise ValueError("such as '5000 rows' or '7d'")


def first_rows(value: str) -> None:
    """Raises ValueError unless a text says how long a reference is, or that it is the population's."""
    if value != POPULATION:
        try:
            reference(value)
        except ValueError as problem:
            raise ValueError(f"{problem}, or 'population'") from None


def lasting(value: str) -> None:
    """Raises ValueError unless a text says how many rows, or how long."""
    if not any(rows_or_time(value)):
        raise ValueError("longer than nothing, such as '5000 rows' or '7d'")


def size(value: Any) -> Any:
    """Bytes of a size: "64MB" -> 67108864. Other values pass: pydantic checks that they are numbers, in bytes."""
    if isinstance(value, str):
        match = re.fullmatch(SIZE, value)
        if not match:
            raise ValueError("a size such as '512KB', '64MB' or '1GB'")
        return int(match[1]) * _SIZES[match[2]]
    return value


def many(count: int, noun: str) -> str:
    """A number with its noun.

    >>> many(1, "row"), many(0, "row"), many(1200, "key")
    ('1 row', '0 rows', '1,200 keys')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def listed(names: Sequence[str], most: int) -> str:
    """The first names, for a sentence.

    >>> listed(["a", "b", "c"], 2)
    'a, b ...'
    """
    return ", ".join(names[:most]) + (" ..." if len(names) > most else "")


def printable(text: str) -> str:
    """Text for a terminal, with a space for each control character."""
    return "".join(one if one.isprintable() else " " for one in text)


def readable(size: float) -> str:
    """A number of bytes as text for people.

    >>> readable(8400), readable(3 << 20)
    ('8.2 KB', '3 MB')
    """
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if size < 1024 or unit == "TB":
            break
        size /= 1024
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"


def shortened(text: str, most: int = 100) -> str:
    """The text, or its first characters and its length: a key may have a megabyte.

    >>> shortened("p7"), shortened("p" * 2000, 3)
    ('p7', 'ppp... (2,000 characters)')
    """
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def plain(value: Any) -> Any:
    if not isinstance(value, (str, int, float)):
        raise ValueError("a text, a number, true or false")
    return value


MISSING = ("dlq", "skip", "hold", "mean")  # what may be done about a missing number


def read_by(reader: Callable[[str], object]) -> AfterValidator:
    """Checks that `reader` accepts a text, which stays as it is."""

    def check(value: str) -> str:
        reader(value)
        return value

    return AfterValidator(check)


def missing(value: Any) -> Any:
    """Checks what is to be done about missing numbers: one policy, or one each for some fields."""
    policies = list(value.values()) if isinstance(value, dict) else [value]
    if not all(isinstance(policy, str) and policy in MISSING for policy in policies):
        named = ", ".join(map(repr, MISSING[:-1]))
        raise ValueError(f"{named} or {MISSING[-1]!r}, or a table of them by field such as {{ temp = 'hold' }}")
    return value


Seconds = Annotated[
    float,
    BeforeValidator(seconds),
    Field(ge=0, allow_inf_nan=False),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": f"^{DURATION}$"}]}),
]
Bytes = Annotated[
    int,
    BeforeValidator(size),
    Field(ge=1),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": f"^{SIZE}$"}]}),
]
Side = Annotated[str | int | float | bool, BeforeValidator(plain)]
FieldName = Annotated[str, AfterValidator(field_path)]
FirstRows = Annotated[str, read_by(first_rows)]
RowsOrTime = Annotated[str, read_by(lasting)]
Zone = Annotated[str, read_by(zone_of)]
TimeFormat = Annotated[str, read_by(example_of)]
Categories = Annotated[list[str | int | bool], Field(min_length=1, max_length=MOST_NUMBERS)]
Missing = Annotated[
    str | dict[FieldName, str],
    BeforeValidator(missing),
    WithJsonSchema(
        {"anyOf": [{"enum": list(MISSING)}, {"type": "object", "additionalProperties": {"enum": list(MISSING)}}]}
    ),
]
Partitioner = Literal["murmur2", "crc32", "fnv1a"]  # how producers choose a key's partition
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,249}$")]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


Secret = Annotated[SecretStr, Field(min_length=1)]


def setting(default: T, description: str, **bounds: Any) -> T:
    """A setting; bounds: as pydantic's Field takes them."""
    made: T = Field(default=default, description=description, **bounds)
    return made


def optional(description: str, **bounds: Any) -> Any:
    """A setting that is None where the job file does not have it."""
    return setting(None, description, **bounds)


def secret(what: str) -> Any:
    """A setting that comes from the environment only and is never printed."""
    return Field(default=None, description=f"{what}; from the environment only", json_schema_extra={"secret": True})


def number_in(text: str) -> float | None:
    """The number that a text states ([source] numbers = "lenient"), NaN for one that states none is there; else None.

    >>> number_in(" 21.5 "), number_in("true"), number_in("NaN"), number_in("21,5")
    (21.5, 1.0, nan, None)
    """
    if len(text) > MOST_DIGITS:
        return None
    return float(text.strip()) if _NUMBER.fullmatch(text) else _TEXTS.get(text.strip().lower())


def unit_of(number: object) -> str | None:
    """The unit in which a number is a time from 1973-03-03 to 5138-11-16; None for what is not a number, or none such.

    >>> unit_of(1_700_000_000), unit_of(1.7e12), unit_of(1_700_000_000_000_000), unit_of(17e17), unit_of(12.5)
    ('s', 'ms', 'us', 'ns', None)
    """
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    first, end = JUDGED
    return next((unit for unit, scale in TIME_UNITS.items() if first * scale <= number < end * scale), None)


def toml(table: Mapping[str, Any]) -> str:
    """Sections of a job file, without a line's end behind the last.

    >>> print(toml({"learner": {"name": "okfeb", "kernel": {"bandwidth": 2.0}}, "head": {"name": "rls"}}))
    [learner]
    name = "okfeb"
    kernel = { bandwidth = 2.0 }
    <BLANKLINE>
    [head]
    name = "rls"
    """
    sections = []
    for section, settings in table.items():
        sections.append("\n".join([f"[{section}]", *(toml_line(name, value) for name, value in settings.items())]))
    return "\n\n".join(sections)


def toml_line(name: str, value: Any) -> str:
    """A setting, such as `rank = 5`."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return f"{name if plain else quoted(name)} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    """A value in one line: a table is written in braces."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(toml_line(name, inner) for name, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, float):
        return repr(float(value))  # also of a kind that Python writes with its name, such as numpy's
    return quoted(value)  # texts, integers, true and false are the same in TOML


def quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the one character that TOML refuses in a text
