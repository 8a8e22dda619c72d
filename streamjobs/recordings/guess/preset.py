"""What a preset alone says of a job's input, for `init` without a recording, or with what a phone pushes live."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from streamjobs.errors import ConfigError
from streamjobs.recordings.guess.result import Guess
from streamjobs.settings.presets import NAMES, Preset, preset_of
from streamjobs.settings.source import SensorsSection, sensors_of
from streamjobs.settings.types import TIME_UNITS


def guess_of_preset(name: str, rows: Sequence[Mapping[str, Any]] = ()) -> Guess:
    """As `guess`, from a preset. rows: records, which tell the rate. Raises ConfigError for an unknown one."""
    if name not in NAMES:
        raise ConfigError(f"--preset must be {', '.join(NAMES)}; got {name!r}.")
    preset = preset_of(name)
    source, stated = preset.source, preset.source.get("sensors")
    rate, because = None, {"time": f"as {preset.tool} has it", "fields": f"those of the preset {name!r}"}
    fields = list(source.get("fields", ()))
    if stated is not None:
        section = SensorsSection.model_validate(stated)
        fields = [column for sensor in sensors_of(section) for column in sensor.columns]
        rate = _measured(rows, section, source)
        because["rate"] = "of the fastest of its sensors in the sample" if rate else "that of the preset's sensors"
        rate = rate or max(sensor.rate for sensor in section.each.values())
    return Guess(
        rows=len(rows),
        fields=fields,
        time=source["time"],
        time_unit=source.get("time_unit", "s"),
        rate=rate,
        choose={"label": "a label may be a field of a record, or of a sample"},
        because=because,
        remarks=[],
        preset=preset,
    )


def live_preset(rows: Sequence[Mapping[str, Any]]) -> Preset | None:
    """The preset with the lists of samples that records have; None where most of them are something else."""
    for preset in map(preset_of, NAMES):
        stated = preset.source.get("sensors")
        if stated is None:
            continue
        name, time, lists = stated["name"], preset.source["time"], [row.get(stated["samples"]) for row in rows]
        fitting = sum(
            all(isinstance(one, dict) and isinstance(one.get(name), str) and time in one for one in samples)
            for samples in lists
            if isinstance(samples, list) and samples
        )
        if 2 * fitting > len(rows):
            return preset
    return None


def _measured(rows: Sequence[Mapping[str, Any]], section: SensorsSection, source: Mapping[str, Any]) -> float | None:
    """Hz of the fastest sensor by the median of its pauses, to two digits; None where no record has two samples of one."""
    pauses: dict[str, list[float]] = {}
    for row in rows:
        times: dict[str, list[float]] = {}
        for one in row.get(section.samples or "", ()):
            if isinstance(one, dict) and one.get(section.name) in section.each and isinstance(one.get(source["time"]), int):
                times.setdefault(one[section.name], []).append(one[source["time"]])
        for name, moments in times.items():
            pauses.setdefault(name, []).extend(b - a for a, b in pairwise(sorted(moments)) if b > a)
    usual = [sorted(found)[len(found) // 2] for found in pauses.values() if found]
    return float(f"{TIME_UNITS[source.get('time_unit', 's')] / min(usual):.2g}") if usual else None
