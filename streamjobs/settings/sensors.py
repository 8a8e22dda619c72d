"""[source.sensors]: records of several sensors of one device, each with columns and a rate of its own."""

import math
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from streamjobs.settings.paths import path_of, quoted
from streamjobs.settings.types import MOST_NUMBERS, FieldName, Seconds, Section, optional, setting

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
