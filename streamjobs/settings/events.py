"""The sections of drift, of alarms of sensors, of bouts and of forecasts."""

from typing import Annotated, Any, Literal

from pydantic import Field

from streamjobs.settings.types import FirstRows, RowsOrTime, Seconds, Section, optional, setting

COMPARED = 300  # latest block means that innovations are compared with, without `cycle`
WatchName = Literal["ls_error", "loss", "columns", "innovations", "rows"]


class DriftSection(Section):
    extractor: dict[str, Any] | None = optional("learner with the LS error to watch, as a table; absent: the [learner]")
    detector: str | dict[str, Any] | None = optional(
        "its name, or a table with settings; absent: column_chart for columns, conformal for errors "
        "(page_hinkley without false_alarms); with reference = 'first ...': reference_chart, reference_level; with "
        "'population': glr_chart"
    )
    false_alarms: str | None = optional(
        "most alarms of a key while nothing changes, on average: '1 per 10000 rows', or with [window] '1/day', "
        "'6/h'; absent: the detector decides"
    )
    reference: FirstRows | None = optional(
        "'first 400 rows' or 'first 2h': these rows are normal, and extractor and detector stop learning after them; "
        "'population' (for watch = 'columns'): a row is normal if it resembles the rows before; needs false_alarms; "
        "absent: extractor and detector continue to learn"
    )
    reference_from: Literal["own", "start_from"] = setting(
        "own", "own: a new key's first rows; start_from: the reference in the file of [state] start_from"
    )
    relearn_after: RowsOrTime | None = optional(
        "with reference: after an alarm of this length, such as '5000 rows' or '7d', the next rows become the reference;"
        " absent: only after `drift relearn`"
    )
    watch: WatchName | list[WatchName] = setting(
        "ls_error",
        "ls_error: of the extractor; columns: numbers of each row; innovations: errors of a forecast of each number from"
        " the 16 rows before; rows: single rows with an unusual innovation; loss: the prediction's error; the entries of "
        "a list share false_alarms",
    )
    learn: int | None = optional(
        "rows that teach column_chart; absent: 1000, or 300 next to innovations or rows", ge=60, le=100_000
    )
    cycle: int | None = optional("rows of a day or other cycle, for innovations; absent: 300", ge=COMPARED, le=10_000)
    counts: bool = setting(False, "for innovations and rows: some columns are counts that are mostly 0")
    each: bool = setting(False, "for columns: also watch each column by itself, so that a wandering column hides no other")
    daily: bool = setting(False, "watch deviations from the same time on the days before")
    week: str | None = optional("with daily: a letter for each day from Monday on; days with the same letter are compared")
    slopes: dict[str, Annotated[Seconds, Field(gt=0)]] | None = optional(
        "watch how fast levels fall or rise, not the levels: { volts = '4h' } for mean slopes over 4 hours"
    )
    beside: list[str | dict[str, Any]] = setting(
        [], "controls (simple learners for comparison), such as last_points: their LS errors are watched too"
    )
    idle: int = setting(
        10, "repeats of a sample after which more repeats are not watched, also in windows; 0: never", ge=0, le=1_000_000
    )

    @property
    def watch_names(self) -> list[str]:
        """What is watched, in order; the topic of rows is about the first."""
        return [self.watch] if isinstance(self.watch, str) else list(self.watch)


class BoutsSection(Section):
    shortest: Seconds = setting(10.0, "a shorter activity or pause joins the bout before it (duration, or seconds)")


class AlarmsSection(Section):
    stuck: bool | Seconds = setting(
        False,
        "alarm when a column that usually changes repeats one number at least 30 times, and 10 times as often as ever "
        "before; a time, such as '10m': the repeats must also last that long",
    )
    silent: Seconds | None = optional(
        "alarm when a key sends nothing new for this time, by the event time of its partition", gt=0
    )
    group: float | None = optional(
        "with silent: alarm when this share of a partition's keys, at least 5, alarm within group_within", gt=0, le=1
    )
    group_within: Seconds = setting(600.0, "longest time between the alarms of a group (duration, or seconds)", gt=0)
    expected: list[str] = setting([], "with silent: keys that must send; a key without any sample for this time alarms")

    @property
    def kinds(self) -> list[str]:
        """What is alarmed of, as records and metrics name it."""
        asked = {"stuck": self.stuck is not False, "silent": self.silent is not None, "group": self.group is not None}
        asked["missing"] = bool(self.expected)
        return [kind for kind, on in asked.items() if on]


class ForecastSection(Section):
    fields: list[str] | None = optional(
        "fields, or with [window] numbers such as temp_mean; absent: all fields, or all means"
    )
    ahead: list[int | str] = setting([1], "rows ahead, ascending, or times such as '1h' if rows have equal intervals")
    season: int | str | None = optional("rows or time of a season; 0: none; absent: a day, if it has 4 to 2880 rows")
    every: Seconds | None = optional("interval of rows (duration, or seconds); absent: [window] hop, or any intervals")
    learner: str | dict[str, Any] | None = optional(
        "learner that predicts numbers; absent: a mean of eight simple forecasts"
    )
    inputs: list[str] | None = optional("with learner: fields that it sees for each forecast; absent: the forecast field")
    lags: int | None = optional("with learner: latest values of each input that it sees; absent: 8", ge=1, le=1000)
    coverage: list[float] = setting([0.8, 0.95], "share of values in each interval")
    cautious: bool = setting(False, "keep forecasts near the last value, unless larger differences have reduced the error")
    not_negative: list[str] | None = optional("fields that are never below 0, so forecasts and intervals are not either")
