"""[source]: the input topic, what its records hold, and what to do with those that are late, twice there or not whole."""

import math
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, PrivateAttr, model_validator

from streamjobs.settings.paths import path_of, quoted
from streamjobs.settings.types import (
    JUDGED,
    MOST_NUMBERS,
    Bytes,
    Categories,
    FieldName,
    Missing,
    Partitioner,
    Seconds,
    Section,
    TimeFormat,
    Topic,
    Zone,
    optional,
    setting,
)
from streamjobs.stages.event_time import END_OF_TIME

MOST_USUAL = 1e9  # absolute value of a number, where the job states none
REKEYED = ".by-key"  # after the name of the topic that `streamjobs rekey` copies
LEAST_WAIT = 2.0  # seconds, where [source.sensors] does not say
PERIODS = 10.0  # of a sensor: a longer pause between two of its samples is a gap, where the job does not say


class SensorSection(Section):
    fields: Annotated[list[FieldName], Field(min_length=1, max_length=MOST_NUMBERS)] = Field(
        description="fields with the sensor's numbers, in this order; paths into the sample"
    )
    rate: float = Field(gt=0, le=100_000, description="sampling rate of the sensor in Hz")
    between: Literal["linear", "hold"] = setting(
        "linear", "numbers of a row between two samples: linear: interpolated; hold: of the earlier sample"
    )
    gap: Seconds | None = optional(
        "a longer pause between two samples is a gap without rows (duration, or seconds); absent: 10 sample periods of "
        "the sensor"
    )

    @property
    def pause(self) -> float:
        """Seconds; a longer one is a gap."""
        return PERIODS / self.rate if self.gap is None else self.gap


class SensorsSection(Section):
    name: FieldName = Field(description="field with the sensor's name or number")
    samples: FieldName | None = optional(
        "field of a record with its list of samples; absent: the record itself is a sample. The other paths of [source] "
        "begin at a sample; the path of the label may also begin at the record"
    )
    each: dict[str, SensorSection] = Field(description="the sensors, by the names that records give them")
    other: Literal["dlq", "skip"] = setting(
        "dlq", "a sample of any other sensor: dlq: its record is a dead letter; skip: it is left out"
    )
    rate: float | None = optional("without [window]: rows a second", gt=0, le=100_000)
    wait: Seconds | None = optional(
        "longest event time that a row waits for a slower sensor (duration, or seconds); absent: two sample periods of "
        "the slowest sensor, but at least 2s"
    )

    @property
    def patience(self) -> float:
        """Seconds of event time that a row waits."""
        if self.wait is not None:
            return self.wait
        return max([LEAST_WAIT, *(2.0 / sensor.rate for sensor in self.each.values())])


class SensorColumns(NamedTuple):
    name: str
    first: int
    columns: list[str]  # names, such as accelerometer.x
    section: SensorSection


def sensors_of(section: SensorsSection) -> list[SensorColumns]:
    """The sensors in the order of the job file, with what their columns are called.

    >>> sensor = {"fields": ["values.x", "values.y"], "rate": 100.0}
    >>> [one.columns for one in sensors_of(SensorsSection(name="name", each={"gyro": sensor}))]
    [['gyro.x', 'gyro.y']]
    """
    found, first = [], 0
    for name, sensor in section.each.items():
        last = [path_of(field).last for field in sensor.fields]
        ends = last if len(set(last)) == len(last) else list(sensor.fields)
        found.append(SensorColumns(name, first, [f"{quoted(name)}.{end}" for end in ends], sensor))
        first += len(ends)
    return found


def most_waiting(sensor: SensorSection, seconds: float) -> int:
    """Samples of a sensor that may wait, where one does so for at most so many seconds of event time."""
    return math.ceil(1.5 * sensor.rate * seconds) + 8


class SourceSection(Section):
    preset: Literal["sensorlogger", "sensorlogger_live", "phyphox", "radar", "applewatch", "edgeimpulse"] | None = optional(
        "the tool that wrote the records; sets `fields` (sensorlogger_live: [source.sensors]), `time` and `time_unit` "
        "where they are absent"
    )
    topic: Topic = Field(description="input topic")
    key: FieldName | None = optional("field with the key, or a path such as device.id; absent: the record's own key")
    rekeyed: bool = setting(False, "with `key`: the job reads TOPIC.by-key, which 'streamjobs rekey' writes")
    partitioner: Partitioner = setting(
        "murmur2",
        "how producers choose a key's partition; with `key` but not rekeyed, or with [alarms] expected, a worker stops at "
        "a record in another partition",
    )
    format: Literal["json", "msgpack", "raw", "avro", "protobuf"] = setting(
        "json", "encoding of record values; avro and protobuf need [registry] or schema_file"
    )
    schema_file: str | None = optional(
        "schema of all values, if they have no schema id: .avsc (avro), .proto or .desc (protobuf)"
    )
    message: str | None = optional("message type of the values in a Protobuf schema_file; absent: the first")
    envelope: Literal["none", "cloudevents", "schema_id"] = setting(
        "none",
        "cloudevents: binary or structured CloudEvents, with paths such as ce.time to attributes; schema_id: JSON behind"
        " its schema's id",
    )
    compression: Literal["none", "gzip"] = setting(
        "none", "gzip: the application compresses values one by one; max_bytes also limits the unpacked value"
    )
    fields: list[FieldName] | None = optional(
        "fields with the numbers of x, in order, or paths: readings.temp, acc[0], sensors[name=temp].value, samples[].ax; a "
        "name with a dot is quoted: '\"value.x\"'"
    )
    x: FieldName = setting("x", "without `fields`: the field with x as a list")
    dim: int | None = optional("length of x; not needed with `fields`", ge=1, le=MOST_NUMBERS)
    time: FieldName | None = optional(
        "field with the event time, or a path; absent: the record's timestamp, and samples keep the order of offsets"
    )
    time_unit: Literal["s", "ms", "us", "ns", "auto"] = setting(
        "s", "unit of numbers in `time`, which count since 1970; auto: the first number of the topic decides"
    )
    time_format: TimeFormat | None = optional(
        "format of texts in `time` other than ISO 8601, for Python's strptime, such as '%d.%m.%Y %H:%M'; excel: days of "
        "a spreadsheet"
    )
    time_zone: Zone | None = optional(
        "zone of event times without a zone, such as UTC, +01:00 or Europe/Berlin; absent: their records are dead letters"
    )
    label: FieldName | None = optional(
        "field with the label, or a path: text, whole number, boolean or numbers; records may lack it"
    )
    no_label: Categories | None = optional(
        "labels that mean 'not known', such as ['null'] or [0]; absent: every label is a class or a number"
    )
    renamed: dict[FieldName, FieldName] | None = optional(
        "former names of fields, so that states continue: { 'acc.x' = 'ax' } if acc.x was ax"
    )
    categories: dict[FieldName, Categories] | None = optional(
        "fields with categories, and their texts, whole numbers or booleans: { valve = ['open', 'shut'] }"
    )
    categories_as: Literal["one_hot", "codes"] = setting(
        "one_hot", "one_hot: a column of 0 or 1 for each category; codes: one column with its index, from 0"
    )
    unseen: Literal["dlq", "other", "missing"] = setting(
        "dlq",
        "a category that is not listed: dlq: a dead letter; other: 0 in all columns, or an extra code; missing: a "
        "missing number",
    )
    angles: dict[FieldName, Annotated[float, Field(ge=1e-3, allow_inf_nan=False)]] | None = optional(
        "fields with angles, and the full turn: { heading = 360 }; x has cosine and sine"
    )
    counters: list[FieldName] | None = optional(
        "fields with meter readings: x has the rise per second; if a reading is lower than the one before, the meter "
        "started again at 0"
    )
    numbers: Literal["strict", "lenient"] = setting(
        "strict", "lenient: texts such as '21.5' are numbers too; 'true' is 1, 'false' 0, and '' or 'NaN' a missing number"
    )
    missing: Missing = setting(
        "dlq",
        "a sample that lacks a number of x (null, NaN or absent): dlq: its record is a dead letter; skip: it is left "
        "out; hold: the key's newest number; mean: the mean of the key's numbers so far; a table for some fields: { temp"
        " = 'hold' }, others: dlq",
    )
    missing_values: list[float] | dict[FieldName, list[float]] | None = optional(
        "numbers that mean 'missing': [-999], or { temp = [-127] }"
    )
    hold_for: Seconds | None = optional(
        "with hold: event time after which a number is too old (duration, or seconds); absent: never"
    )
    late: Literal["learn", "predict_only", "drop", "dlq"] = setting(
        "learn", "with `time`: a sample that is older than the newest applied sample of its key"
    )
    lateness: Seconds = setting(0.0, "with `time`: event time that samples wait to be sorted (duration, or seconds)")
    duplicates: Literal["drop", "learn"] = setting("drop", "with `time`: another sample at the newest time of its key")
    future: Seconds = setting(
        60.0, "how far an event time may be ahead of the record's timestamp (duration, or seconds); beyond: a dead letter"
    )
    sensors: SensorsSection | None = optional(
        "several sensors in one topic, each with its own fields and rate, in place of `fields`"
    )
    linger: Seconds = setting(
        0.0,
        "how long a broker may wait for 64 KB before it answers a fetch: less processor time for small records, but "
        "later outputs (duration, or seconds)",
        le=1,
    )
    max_bytes: Bytes = setting(1 << 20, "largest record value (size, or bytes)")
    max_samples: int = setting(10_000, "most samples of a record", ge=1)
    max_abs: float = setting(MOST_USUAL, "largest absolute number in x", gt=0)
    max_key_bytes: int = setting(256, "longest key, in bytes", ge=1)
    max_headers: int = setting(100, "most headers", ge=0)
    max_header_bytes: Bytes = setting(64 << 10, "largest total of a record's header names and values (size, or bytes)")

    @model_validator(mode="after")
    def _read_rekeyed(self) -> "SourceSection":
        """`topic` is the one that the job reads, wherever it is used."""
        if self.rekeyed:
            self.__dict__["topic"] = self.base_topic + REKEYED  # frozen
        return self

    @model_validator(mode="after")
    def _check_time_format(self) -> "SourceSection":
        if self.time_format is not None and self.time is None:
            raise ValueError("time_format is for the texts of `time`; set time, or remove it.")
        return self

    @model_validator(mode="after")
    def _check_no_label(self) -> "SourceSection":
        if self.no_label is not None and self.label is None and self.format != "raw":
            raise ValueError("no_label is for the values of `label`; set label, or remove it.")
        return self

    @property
    def base_topic(self) -> str:
        """What `streamjobs rekey` reads, and what the names of the job's other topics begin with."""
        return self.topic.removesuffix(REKEYED) if self.rekeyed else self.topic

    _auto: bool = PrivateAttr(default=False)

    def in_unit(self, unit: str) -> "SourceSection":
        """With the unit that was decided for time_unit = "auto"."""
        decided = self.model_copy(update={"time_unit": unit})
        decided._auto = True
        return decided

    @property
    def time_span(self) -> tuple[float, float]:
        """The first event time there may be, and the first there may not be; seconds since 1970."""
        return JUDGED if self._auto else (0.0, END_OF_TIME)

    @property
    def key_in_value(self) -> bool:
        """Whether the job uses the keys inside values. Records of a rekeyed topic have them as their own."""
        return self.key is not None and not self.rekeyed

    @property
    def has_schema(self) -> bool:
        """Whether values can be read with their schema only."""
        return self.format in ("avro", "protobuf")

    @property
    def wrapped(self) -> bool:
        """Whether values are other than those of a file's rows, which are plain JSON, MessagePack or raw."""
        return self.has_schema or self.envelope != "none" or self.compression != "none"

    @property
    def unwrapped(self) -> "SourceSection":
        """How rows of files are read in place of values: bare, and JSON where values have a schema."""
        usual = {"schema_file": None, "message": None, "envelope": "none", "compression": "none"}
        return self.model_copy(update={"format": "json" if self.has_schema else self.format, **usual})

    @property
    def may_miss(self) -> bool:
        """Whether a sample may lack a number and still be one."""
        return self.missing != "dlq"

    @property
    def categories_of(self) -> dict[str, list[str | int | bool]]:
        """Of the fields that hold them."""
        return self.categories or {}

    @property
    def coded(self) -> bool:
        """Whether a field's value is not itself a number of x."""
        return bool(self.categories or self.angles)

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The numbers of x that named fields give, each with its field: "valve=open" of "valve". Empty without `fields`.

        With `sensors` each is a field of its own, such as "accelerometer.x".
        """
        if self.sensors is not None:
            return [(column, column) for sensor in sensors_of(self.sensors) for column in sensor.columns]
        made = {field: [f"{field} cos", f"{field} sin"] for field in self.angles or ()}
        if self.categories_as == "one_hot":
            made |= {field: [f"{field}={one}" for one in listed] for field, listed in self.categories_of.items()}
        return [(column, field) for field in self.fields or () for column in made.get(field, [field])]

    @property
    def learned_columns(self) -> list[str]:
        """Names of `columns` by the former names of fields, where `renamed` has these."""
        return [self.learned_name(field) + column.removeprefix(field) for column, field in self.columns]

    def learned_name(self, field: str) -> str:
        return (self.renamed or {}).get(field, field)

    def column_names(self, dim: int) -> list[str]:
        """What each number of x is called."""
        return [column for column, _ in self.columns] or [f"{self.x}[{n}]" for n in range(dim)]

    @property
    def width(self) -> int | None:
        """Numbers of x; None where the job file does not say."""
        return self.dim if self.fields is None and self.sensors is None else len(self.columns)

    @property
    def record_fields(self) -> list[str]:
        """Paths into a record to what x is made of; with `sensors`, first to what every record has."""
        sensors = self.sensors
        if sensors is None:
            return self.fields or [self.x]
        if sensors.samples is not None:
            return [sensors.samples]
        return list(dict.fromkeys([sensors.name, *(field for one in sensors.each.values() for field in one.fields)]))

    @property
    def record_time(self) -> str | None:
        """Path into a record to its event time, of a list of samples the first one's."""
        if self.sensors is None or self.sensors.samples is None:
            return self.time
        return f"{self.sensors.samples}[0].{self.time}"

    def codes(self, dim: int) -> list[tuple[slice | int, list[float]]]:
        """Columns of x, and the numbers that stand for a missing one there; an angle's are none of x."""
        codes = self.missing_values or []
        if not isinstance(codes, dict) and not self.angles:
            return [(slice(dim), codes)] if codes else []
        named = [(n, field) for n, (_, field) in enumerate(self.columns) if field not in (self.angles or ())]
        each = codes if isinstance(codes, dict) else dict.fromkeys((field for _, field in named), codes)
        return [(n, each[field]) for n, field in named if field in each]

    def policies(self, dim: int) -> tuple[str, ...]:
        """What to do about a missing number of each column of x."""
        if isinstance(self.missing, str):
            return (self.missing,) * dim
        return tuple(self.missing.get(field, "dlq") for _, field in self.columns)
