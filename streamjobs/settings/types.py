"""Types of settings that sections share: durations, sizes, topics, secrets; and what every section is."""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, WithJsonSchema

DURATION = r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)\s*"
SIZE = r"\s*([0-9]+)\s*(B|KB|MB|GB)\s*"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def seconds(value: Any) -> Any:
    """ "500ms" -> 0.5; numbers are seconds already."""
    if isinstance(value, str):
        found = re.fullmatch(DURATION, value)
        if not found:
            raise ValueError("a duration such as '500ms', '2s', '5m', '1h' or '90d'")
        return float(found[1]) * _UNITS[found[2]]
    return value


def size(value: Any) -> Any:
    """ "64MB" -> 67108864; numbers are bytes already."""
    if isinstance(value, str):
        found = re.fullmatch(SIZE, value)
        if not found:
            raise ValueError("a size such as '512KB', '64MB' or '1GB'")
        return int(found[1]) * _SIZES[found[2]]
    return value


def readable(size: float) -> str:
    """A number of bytes as people say it.

    >>> readable(8400), readable(3 << 20)
    ('8.2 KB', '3 MB')
    """
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size /= 1024
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"


def plain(value: Any) -> Any:
    """A value as a record's field may hold it."""
    if not isinstance(value, (str, int, float)):
        raise ValueError("a text, a number, true or false")
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
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,249}$")]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


Secret = Annotated[SecretStr, Field(min_length=1)]


def secret(what: str) -> Any:
    """A setting that no job file may hold and nothing ever shows."""
    return Field(default=None, description=f"{what}; from the environment only", json_schema_extra={"secret": True})
