"""What contradicts itself in [source], with its formats and schemas, and in a [window] of its fields."""

from collections import Counter
from collections.abc import Container, Iterable

from algorithms.common.settings import suggestion
from streamjobs.settings.broker import RegistrySection
from streamjobs.settings.rules.drift import LONGEST_TOPIC
from streamjobs.settings.sections import WindowSection
from streamjobs.settings.source import REKEYED, SensorsSection, SourceSection, most_waiting, sensors_of
from streamjobs.settings.types import AUTO, MOST_NUMBERS, TIME_UNITS, Problems
from streamjobs.stages.statistics import least_channels

ENDINGS = {"avro": (".avsc",), "protobuf": (".proto", ".desc")}
FORMATS = ("json", "msgpack", "avro", "protobuf")  # that the parser of sensors reads
MOST_HELD = 100_000  # samples of a key that may wait


def source_contradictions(source: SourceSection) -> Problems:
    if source.base_topic in ("", ".", ".."):
        yield "source.topic", f"topic must be a topic's name; got {source.base_topic!r}."
    if source.format == "raw":
        for name in ("time", "label"):
            if getattr(source, name) is not None:
                yield f"source.{name}", f"{name} has no meaning in raw records: it is in the header streamjobs-{name}."
    yield from _keys(source)
    if source.time_unit == AUTO and source.time is None:
        yield "source.time_unit", "time_unit = 'auto' needs the field with the event time; set time, or remove it."
    yield from _missing(source)
    yield from _categories(source)
    yield from _counters(source)
    yield from _angles(source)
    fields = source.fields
    known = [*(field for _, field in source.columns), *filter(None, [source.label])]
    for name in source.renamed or ():
        if name not in known:
            yield "source.renamed", f"renamed: {name!r} is not one of fields{suggestion(name, known)}"
    if source.width is None:
        example = '\'fields = ["ax", "ay", "az"]\''
        yield (
            "source.fields",
            f"the length of x is unknown; name the fields with its numbers, such as {example}, "
            f"or set 'dim = 3' if field {source.x!r} holds them as a list.",
        )
    named = fields if fields is not None else [source.x] if source.sensors is None else []
    for other in ("time", "label"):
        if getattr(source, other) in named:
            yield f"source.{other}", f"{other} must be a field of its own; {getattr(source, other)!r} is already part of x."
    if source.time is not None and source.time == source.label:
        yield "source.label", f"label must be a field of its own; {source.label!r} is already the time."
    if fields is None:
        return
    if not fields:
        yield "source.fields", "fields must name at least one number of a record; got an empty list."
    for name, times in sorted(Counter(fields).items()):
        if times > 1:
            yield "source.fields", f"fields must differ; {name!r} is named {times} times."
    columns = len(source.columns)
    if source.dim is not None and source.dim != columns:
        what = "fields" if columns == len(fields) else "columns that fields give"
        yield "source.dim", f"dim must be the number of {what} ({columns}), or absent; got {source.dim}."


def format_contradictions(source: SourceSection, registry: RegistrySection | None, refused: bool) -> Problems:
    """refused: there is a [registry], but it has mistakes of its own."""
    file, place = source.schema_file, "source.schema_file"
    if source.envelope == "schema_id" and source.format != "json":
        yield (
            "source.envelope",
            f"envelope = 'schema_id' is for format = 'json' only; remove it for format = '{source.format}'.",
        )
    if not source.has_schema:
        for name in ("schema_file", "message"):
            if getattr(source, name) is not None:
                yield f"source.{name}", f"{name} has no meaning in format = '{source.format}'; remove it, or set the format."
        if registry is not None:
            yield (
                "source.format",
                f"format = '{source.format}' has no schemas; set 'avro' or 'protobuf', or remove [registry], also from the "
                "environment (STREAMJOBS_REGISTRY__URL).",
            )
        return
    if source.time_unit == AUTO:
        yield (
            "source.time_unit",
            f"time_unit = 'auto' has no meaning in format = '{source.format}', because its schemas define times; "
            "set a unit.",
        )
    if file is None and registry is None and not refused:
        yield (
            "source.format",
            f"format = '{source.format}' needs schemas: a [registry] with its url, or one for all values in schema_file.",
        )
    if file is not None and registry is not None:
        yield place, "schema_file and [registry] both set where schemas are; remove one."
    endings = ENDINGS[source.format]
    if file is not None and not file.lower().endswith(endings):
        yield place, f"schema_file must end in {' or '.join(endings)} for format = '{source.format}'; got {file!r}."
    if source.message is not None and (source.format != "protobuf" or file is None):
        yield (
            "source.message",
            "message needs a Protobuf schema_file, because it names a type in that file; remove message, or set the file.",
        )


def _keys(source: SourceSection) -> Problems:
    if source.key is None:
        if source.rekeyed:
            yield "source.rekeyed", "rekeyed has no meaning without the field with the key; set key, or remove rekeyed."
        return
    if source.format == "raw":
        yield "source.key", "key names a field, and raw records have no fields; remove it, and give records their keys."
    if source.rekeyed and source.partitioner != SourceSection.model_fields["partitioner"].default:
        yield (
            "source.partitioner",
            "partitioner has no meaning with rekeyed, because 'streamjobs rekey' partitions records by murmur2; remove it.",
        )
    if len(source.topic) > LONGEST_TOPIC:
        yield "source.topic", f"topic must have at most {LONGEST_TOPIC} characters with {REKEYED!r} after it."


def _categories(source: SourceSection) -> Problems:
    place, fields = "source.categories", source.fields
    if source.categories_of and (fields is None or source.format == "raw"):
        yield place, "categories names fields, so x must be made up of named fields, in json or msgpack; set fields."
        return
    for name, listed in source.categories_of.items():
        if fields is not None and name not in fields:
            yield place, f"categories: {name!r} is not one of fields{suggestion(name, fields)}"
        if len(source.columns) > MOST_NUMBERS:
            yield place, f"categories: x has {MOST_NUMBERS} numbers at most; these give {len(source.columns)}; use codes."
        if len(set(map(repr, listed))) < len(listed):
            yield place, f"categories: the categories of {name!r} must differ; got {listed!r:.80}."
    for name in ("categories_as", "unseen"):
        if getattr(source, name) != SourceSection.model_fields[name].default and not source.categories_of:
            yield f"source.{name}", f"{name} has no meaning without categories; set them, or remove {name}."
    missing = source.missing if isinstance(source.missing, dict) else dict.fromkeys(source.categories_of, source.missing)
    if source.unseen == "missing":
        for name in source.categories_of:
            if missing.get(name, "dlq") == "dlq":
                yield "source.unseen", f"unseen = 'missing' needs missing = 'skip', 'hold' or 'mean' for {name!r}."


def _others(fields: Iterable[str], coded: Container[str]) -> list[str]:
    return [field for field in fields if field not in coded]


def _counters(source: SourceSection) -> Problems:
    place, fields = "source.counters", source.fields
    if source.counters is None:
        return
    if fields is None:
        yield place, "counters names fields, so x must be made up of named fields, without [source.sensors]; set fields."
    for name in source.counters:
        if fields is not None and name not in (numbers := _others(fields, source.categories_of)):
            yield place, f"counters: {name!r} is not one of fields with numbers{suggestion(name, numbers)}"
    if source.lateness > 0:
        yield place, "counters needs samples in order, and lateness allows others; remove lateness."


def _angles(source: SourceSection) -> Problems:
    place, fields = "source.angles", source.fields
    if source.angles and (fields is None or source.format == "raw"):
        yield place, "angles names fields, so x must be made up of named fields, in json or msgpack; set fields."
        return
    for name in source.angles or ():
        if fields is not None and name not in (plain := _others(fields, (*source.categories_of, *(source.counters or ())))):
            yield place, f"angles: {name!r} is not one of fields with plain numbers{suggestion(name, plain)}"


def _missing(source: SourceSection) -> Problems:
    fields, table = source.fields, source.missing
    if isinstance(table, dict):
        if fields is None:
            yield "source.missing", "missing names fields, so x must be made up of named fields; set fields."
        for name in table:
            if fields is not None and name not in fields:
                yield "source.missing", f"missing: {name!r} is not one of fields{suggestion(name, fields)}"
    codes, place = source.missing_values, "source.missing_values"
    if isinstance(codes, dict):
        if fields is None:
            yield place, "missing_values names fields, so x must be made up of named fields; set fields, or give a list."
        for name in codes:
            if fields is not None and name not in (numbers := _others(fields, source.categories_of)):
                yield place, f"missing_values: {name!r} is not one of fields with numbers{suggestion(name, numbers)}"
    if codes is not None and source.sensors is not None:
        yield place, "missing_values cannot be used with [source.sensors] yet; remove it."
    if source.hold_for is not None and "hold" not in (table.values() if isinstance(table, dict) else (table,)):
        yield "source.hold_for", "hold_for has no meaning without missing = 'hold'; set it, or remove hold_for."


def window_contradictions(window: WindowSection, source: SourceSection) -> Problems:
    mirror, fields = window.mirror, source.fields
    channels = source.width
    if channels is not None and channels < least_channels(window.statistics):
        expected = f"needs acceleration in the first three fields; [source] has {channels}. Choose 'rich'."
        yield "window.statistics", f"statistics = {window.statistics!r} {expected}"
    if mirror is None or source.sensors is not None:  # of sensors, another rule reports it
        return
    place = "window.mirror"
    if source.missing_values is not None:
        yield place, "mirror cannot be used with [source] missing_values yet: it changes their signs; remove one of the two."
    if source.format == "raw":
        yield place, f"mirror has no meaning in raw records: they have no field {mirror.field!r}; use json or msgpack."
    elif fields is None:
        yield place, "mirror names columns, so x must be made up of named fields; set [source] fields."
    else:
        if not mirror.columns:
            yield place, "mirror: columns must name at least one of [source] fields; got none."
        for column in dict.fromkeys(mirror.columns):
            if column not in fields:
                yield place, f"mirror: {column!r} is not one of [source] fields{suggestion(column, fields)}"
            elif column in source.categories_of:
                yield place, f"mirror: {column!r} holds categories, which have no sign."
            elif column in (source.angles or ()):
                yield place, f"mirror: {column!r} is an angle, and its cosine has no sign to change; remove one of the two."
            elif mirror.columns.count(column) > 1:
                yield place, f"mirror: columns must differ; {column!r} is named {mirror.columns.count(column)} times."
        if mirror.field in (*fields, source.time, source.label):
            yield place, f"mirror: field must be a field of its own; {mirror.field!r} has another meaning in [source]."


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
