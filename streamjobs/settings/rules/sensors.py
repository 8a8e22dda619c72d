"""[source.sensors] with the rest of [source] and [window]."""

from collections import Counter

from streamjobs.settings.sections import WindowSection
from streamjobs.settings.sensors import SensorsSection, most_waiting, sensors_of
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import MOST_NUMBERS, TIME_UNITS, Problems

FORMATS = ("json", "msgpack", "avro", "protobuf")  # that the parser of sensors reads
MOST_HELD = 100_000  # samples of a key that may wait


def sensor_contradictions(source: SourceSection, sensors: SensorsSection, window: WindowSection | None) -> Problems:
    place = "source.sensors"
    if source.format not in FORMATS:
        yield "source.format", f"format must be one of {', '.join(FORMATS)} with sensors; got {source.format!r}."
    if source.time_unit not in TIME_UNITS:
        yield "source.time_unit", f"time_unit must be one of {', '.join(TIME_UNITS)} with sensors."
    if source.time is None:
        yield "source.time", "time must name the field with a sample's event time: sensors are brought together by it."
    for name in ("fields", "categories", "hold_for"):
        if getattr(source, name) is not None:
            yield (
                f"source.{name}",
                f"{name} has no meaning with sensors, because [source.sensors] each names their columns; remove it.",
            )
    if source.x != "x":
        yield "source.x", "x has no meaning with sensors, because [source.sensors] each names their columns; remove it."
    if source.missing not in ("dlq", "skip"):
        yield (
            "source.missing",
            "missing must be 'dlq' or 'skip' with sensors, because `between` fills in their numbers; got "
            f"{source.missing!r:.80}.",
        )
    if source.duplicates != "drop":
        yield (
            "source.duplicates",
            "duplicates must be 'drop' with sensors, because a sensor has one sample at a time; remove it.",
        )
    if source.late == "predict_only":
        yield (
            "source.late",
            "late must be 'learn', 'drop' or 'dlq' with sensors, because a sample that is older than the newest row "
            "cannot be in a row.",
        )
    yield from _each(source, sensors)
    if window is None and sensors.rate is None:
        yield place, "sensors: set rate, the rows a second, or add a [window]."
    if window is not None:
        if sensors.rate is not None:
            yield place, "sensors: rate has no meaning with a [window], because rows have the window's rate; remove it."
        if window.mirror is not None:
            yield "window.mirror", "mirror cannot be used with [source.sensors]; remove it."


def _each(source: SourceSection, sensors: SensorsSection) -> Problems:
    place = "source.sensors"
    if not sensors.each:
        yield place, "sensors: each must name at least one sensor; got none."
        return
    for name, sensor in sensors.each.items():
        for field, times in sorted(Counter(sensor.fields).items()):
            if times > 1:
                yield place, f"sensors: each.{name}: fields must differ; {field!r} is named {times} times."
            if field in (source.time, source.label, sensors.name):
                yield place, f"sensors: each.{name}: {field!r} has another meaning in [source]."
        if sensor.pause * sensor.rate < 1:
            got = f"got {sensor.pause:g} s"
            yield place, f"sensors: each.{name}: gap must be at least a sample period ({1 / sensor.rate:g} s); {got}."
        if sensor.between == "linear" and sensors.patience < 1 / sensor.rate:
            yield (
                place,
                f"sensors: wait must be at least the sample period of {name} ({1 / sensor.rate:g} s), because a "
                f"row waits for its next sample; got {sensors.patience:g} s. Or set between = 'hold' for it.",
            )
    columns = [column for one in sensors_of(sensors) for column in one.columns]
    if len(columns) > MOST_NUMBERS:
        yield place, f"sensors: x has {MOST_NUMBERS} numbers at most; these give {len(columns)}."
    if len(set(columns)) < len(columns):
        twice = Counter(columns).most_common(1)[0][0]
        yield place, f"sensors: columns must differ; {twice!r} comes twice."
    if source.dim is not None and source.dim != len(columns):
        yield "source.dim", f"dim must be the number of columns of all sensors ({len(columns)}), or absent."
    seconds = sensors.patience + source.lateness
    waiting = sum(most_waiting(sensor, seconds) for sensor in sensors.each.values())
    if waiting > MOST_HELD:
        yield (
            place,
            f"sensors: {waiting:,} samples of a key may wait ({seconds:g} s of wait and [source] lateness at these rates); "
            f"at most {MOST_HELD:,} may. Lower one of them.",
        )
