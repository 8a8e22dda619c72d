"""The sections of drift, of alarms of sensors, of bouts and of forecasts."""

from typing import Any, Literal

from pydantic import Field

from streamjobs.settings.types import FirstRows, RowsOrTime, Seconds, Section

WatchName = Literal["ls_error", "loss", "columns", "innovations", "rows"]


class DriftSection(Section):
    extractor: dict[str, Any] | None = Field(
        default=None,
        description="learner with the LS error to watch: a table with name and settings; absent: the [learner]",
    )
    detector: str | dict[str, Any] | None = Field(
        default=None,
        description="drift detector: its name, or a table with settings; absent: column_chart for columns, "
        "conformal for others with false_alarms, page_hinkley without; with reference: reference_chart for "
        "columns, reference_level for others; with reference = 'population': glr_chart",
    )
    false_alarms: str | None = Field(
        default=None,
        description="most alarms of a key while nothing changes, on average: '1 per 10000 rows', or with [window] '1/day', "
        "'6/h'; for conformal, column_chart and the detectors with a reference; absent: the detector's own "
        "settings decide",
    )
    reference: FirstRows | None = Field(
        default=None,
        description="normal rows of each key, such as 'first 400 rows' or 'first 2h' of event time: then extractor and "
        "detector stop learning, and an alarm lasts until the values are back; 'population': rows like those just before, "
        "with limits from 'streamjobs fit' and watch = 'columns'; needs false_alarms; absent: they continue to learn",
    )
    reference_from: Literal["own", "start_from"] = Field(
        default="own",
        description="normal rows of a new key: its own first, or, to be watched at once, of [state] start_from",
    )
    relearn_after: RowsOrTime | None = Field(
        default=None,
        description="with reference: how long an alarm lasts, such as '5000 rows' or '7d' of event time, before the "
        "key's next rows become its new reference; absent: only `drift relearn` does",
    )
    watch: WatchName | list[WatchName] = Field(
        default="ls_error",
        description="what the detector watches in each row; columns: the numbers of the row, unchanged, with "
        "column_chart; innovations: their errors of a forecast from the 16 rows before, with column_chart; rows: "
        "single rows with an unusual one, with row_tail; a list: all of these under one false_alarms",
    )
    beside: list[str | dict[str, Any]] = Field(
        default=[],
        description="controls, such as last_points and running_mean: the same detector also watches their LS "
        "errors; names, or tables",
    )
    idle: int = Field(
        default=10,
        ge=0,
        le=1_000_000,
        description="samples that repeat the previous one more often than this, and their windows, are not watched; 0: all",
    )

    @property
    def watch_names(self) -> list[str]:
        """What is watched, in order; the topic of rows is about the first."""
        return [self.watch] if isinstance(self.watch, str) else list(self.watch)


class BoutsSection(Section):
    shortest: Seconds = Field(
        default=10.0,
        description="a shorter activity, or pause, is flicker: it joins the bout before it (duration, or seconds)",
    )


class AlarmsSection(Section):
    stuck: bool | Seconds = Field(
        default=False,
        description="alarm of a column that usually changes: it repeats one number 30 times, and 10 times as "
        "often as before; a time, such as '10m': also for so long",
    )
    silent: Seconds | None = Field(
        default=None,
        gt=0,
        description="alarm of a key without a new sample for this time, such as '10m', by its partition's event time; "
        "absent: off",
    )
    group: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="with silent: alarm of a group: this share of a partition's keys (5 or more) alarm within "
        "group_within; absent: off",
    )
    group_within: Seconds = Field(default=600.0, gt=0, description="time in which a group alarms (duration, or seconds)")
    expected: list[str] = Field(
        default=[],
        description="with silent: keys; one without a sample so long after its partition's first is missing",
    )

    @property
    def kinds(self) -> list[str]:
        """What is alarmed of, as records and metrics name it."""
        asked = {"stuck": self.stuck is not False, "silent": self.silent is not None, "group": self.group is not None}
        asked["missing"] = bool(self.expected)
        return [kind for kind, on in asked.items() if on]


class ForecastSection(Section):
    fields: list[str] | None = Field(
        default=None,
        description="fields, or numbers of windows such as temp_mean; absent: all, of windows the means",
    )
    ahead: list[int | str] = Field(
        default=[1], description="how far ahead, ascending: rows, or with equal intervals times such as '1h'"
    )
    season: int | str | None = Field(
        default=None,
        description="rows of a season, or a time; 0: none; absent: a day, if it has 4 to 2880",
    )
    every: Seconds | None = Field(
        default=None, description="interval of a key's rows (duration, or seconds); absent: [window] hop, or any"
    )
    learner: str | dict[str, Any] | None = Field(
        default=None,
        description="learner that predicts numbers: name, or table with settings; absent: eight experts",
    )
    inputs: list[str] | None = Field(
        default=None, description="with learner: fields that each forecast uses; absent: its own"
    )
    lags: int | None = Field(default=None, ge=1, le=1000, description="with learner: latest values of each input; absent: 8")
    coverage: list[float] = Field(default=[0.8, 0.95], description="shares of rows inside")
    cautious: bool = Field(default=False, description="begin at the last value")
