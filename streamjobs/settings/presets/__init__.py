"""What the files and records of well-known tools contain, as data: a TOML file for each tool.

A preset only fills in settings of [source] that the job file does not have.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

NAMES = ("sensorlogger", "sensorlogger_live", "phyphox", "radar", "applewatch", "edgeimpulse")


class Export(NamedTuple):
    """How a tool exports a recording as a folder or an archive with a file per sensor."""

    marks: Sequence[str]  # a folder with one of these files is an export
    aside: Sequence[str]  # files that hold no samples
    time: str  # the column with the times
    time_unit: str
    drop: Sequence[str] = ()  # columns that say the time again
    prefix: bool = False  # columns are named after their file
    clock: str | None = None  # file that says when the times began
    events: Mapping[str, str] | None = None  # file and column with texts that hold from their time on, and their name


class Preset(NamedTuple):
    """What a tool's files and records contain."""

    name: str
    tool: str
    notes: Sequence[str]  # units and axis signs, a sentence each
    source: Mapping[str, Any]  # settings of [source]
    export: Export | None
    strip: Sequence[str]  # what the columns of its CSV begin with


@cache
def preset_of(name: str) -> Preset:
    table = tomllib.loads((resources.files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))
    export, strip = table.get("export"), table.get("columns", {}).get("strip", ())
    return Preset(name, table["tool"], table["notes"], table["source"], Export(**export) if export else None, strip)


def filled(source: Mapping[str, Any]) -> dict[str, Any]:
    """What the preset of [source] sets: settings that it does not have. Nothing where no known preset is named.

    >>> sorted(filled({"preset": "sensorlogger", "topic": "phone", "fields": ["gyroscope_x"]}))
    ['time', 'time_unit']
    """
    name = source.get("preset")
    if name not in NAMES:
        return {}
    sets = dict(preset_of(str(name)).source)
    if any(other in source for other in ("fields", "x", "dim", "sensors")):
        sets.pop("fields", None), sets.pop("sensors", None)
    if source.get("time", sets["time"]) != sets["time"]:
        sets.pop("time_unit", None)  # it is the unit of another field
    if source.get("format") == "raw":  # which has neither
        for setting in ("time", "fields", "sensors"):
            sets.pop(setting, None)
    return {setting: value for setting, value in sets.items() if setting not in source}
