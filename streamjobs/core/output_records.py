"""The records of the output topics as structs. A field with `| None` may be null; a field with UNSET may be absent.

The comments are the descriptions in the published schemas and in README.md.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


class Features(msgspec.Struct):
    """A record of the features topic."""

    key: str  # key of the record, as text
    ts: float  # event time, seconds since 1970; of a window its end
    seq: int  # number of this row within its key, from 0
    model: str  # learner and head
    z: list[float | None]  # features of x, before x was learned
    ls_error: float | None  # squared distance of phi(x) to what the model spans, before x was learned
    n_seen: int  # rows that the learner received before this row, with the rows of a warm start
    filled: int | UnsetType = UNSET  # missing numbers filled since the key's previous row


class Prediction(msgspec.Struct):
    """A record of the predictions topic: the fields of the job's task, each of one type."""

    key: str  # key of the record, as text
    ts: float  # event time, seconds since 1970; of a window its end
    seq: int  # number of this row within its key, from 0
    model: str  # learner and head
    n_seen: int  # rows that the learner received before this row, with the rows of the population
    ls_error: float | None  # squared distance of phi(x) to what the model spans; null if the learner has no LS error
    drift: bool | None  # this row raised an alarm; null without a detector
    predicted_class: str | UnsetType | None = UNSET  # classification; null until a label has been learned, and if unknown
    true_class: str | UnsetType | None = UNSET  # classification: the label that came with the record
    score: float | UnsetType | None = UNSET  # score of the predicted class; with [head] filter a probability
    smoothed: float | UnsetType | None = UNSET  # score of the predicted class after smoothing; null without [head] smooth
    classes: int | UnsetType = UNSET  # classification: number of classes that the head can predict
    labelled: list[str] | UnsetType = UNSET  # classification: classes of the labels that the key's head has learned
    head: str | UnsetType | None = UNSET  # which head has more weight: frozen (the population's) or adapted (the key's own)
    share: float | UnsetType | None = UNSET  # weight of the adapted head in the scores, 0 to 1
    predicted_value: float | UnsetType | None = UNSET  # regression of one number; null until something has been learned
    true_value: float | UnsetType | None = UNSET  # regression of one number: the label that came with the record
    predicted_values: list[float] | UnsetType | None = UNSET  # regression of several numbers
    true_values: list[float] | UnsetType | None = UNSET  # regression of several numbers: the label that came
    filled: int | UnsetType = UNSET  # with [source] missing: numbers filled since the key's previous row
    unknown: bool | UnsetType = UNSET  # with [head] reject: the scores resemble no known activity
    scores: dict[str, float] | UnsetType | None = UNSET  # with [sinks] scores: scores by class, after smoothing
    first: str | UnsetType | None = UNSET  # with [sinks] scores: class with the highest score, also of an unknown row
    first_score: float | UnsetType | None = UNSET  # score of first
    second: str | UnsetType | None = UNSET  # with [sinks] scores: class with the next highest score
    second_score: float | UnsetType | None = UNSET  # score of second


class Beside(msgspec.Struct):
    """Report of the same detector on a control, or of the detector of a further watched value."""

    value: float | None  # the control's LS error
    statistic: float | None  # statistic of the detector
    alarm: bool  # this row raised an alarm


class Drift(msgspec.Struct, omit_defaults=True):
    """A record of the drift topic, one for every row."""

    key: str  # key of the record, as text
    ts: float  # event time, seconds since 1970; of a window its end
    seq: int  # number of this row within its key, from 0
    model: str  # learner and head
    detector: str  # name of the detector
    extractor: str  # the learner of the watched error: the job's own, or a separate extractor
    watch: str  # what is watched: columns, innovations, rows, ls_error or loss
    value: float | None  # the watched value; null if the row is not watched, such as from an idle sensor
    statistic: float | None  # statistic of the detector
    alarm: bool  # this row raised an alarm
    before: float | None  # mean before the suspected change
    after: float | None  # mean since the suspected change
    n_seen: int  # rows that the learner received before this row
    filled: int | UnsetType = UNSET  # missing numbers filled since the key's previous row
    beside: dict[str, Beside] = {}  # by control, or by further watched value; absent without any
    warming_up: bool = False  # the detector has too few rows to raise an alarm; absent afterwards
    open: bool = False  # an alarm is open; absent otherwise
    since: int | None = None  # in an alarm: rows from the estimated change to this row; otherwise absent
    columns: dict[str, float] = {}  # in an alarm of columns: the columns that moved most, in standard deviations


class Moved(msgspec.Struct):
    """A column with a changed mean."""

    column: str  # its name
    deviations: float  # change of the mean in standard deviations; below 0: it fell
    before: float  # its mean while the detector learned, in its own units; of innovations and rows: its forecast for the row
    after: float  # its mean in the newest rows, at most 8 deviations from `before`; of innovations and rows: its value


class Alarm(msgspec.Struct, omit_defaults=True):
    """A record of the alarms topic: one when an alarm is raised, and one when it ends."""

    id: str  # the same in both records of the alarm, also after a crash
    key: str  # key of the record, as text
    start: float  # event time of the row that raised it, seconds since 1970
    open: bool  # false in the record of the alarm's end
    end: float | None  # event time of the row that ended it; null while it lasts
    outcome: str | None  # recovered; learned anew: new values are normal; replaced: by another column; at once; null: open
    since: float | None  # estimated event time of the change; null where the detector estimates none
    rows: int | None  # number of rows from the change to the alarm
    columns: list[Moved]  # at most 3 that moved most, or 16 that are stuck; empty if one number is watched or no mean moved
    watch: str  # what is watched: columns, innovations, rows, ls_error or loss; of [alarms]: stuck, silent, missing or group
    extractor: str  # the learner of the watched error; 'columns' if the columns are watched, 'samples' if the sensor is
    detector: str  # name of the detector
    chart: str | None  # with watch columns, what changed: mean, whitened mean, whitened row; else null
    before: float | None  # mean of the watched number in the reference rows
    after: float | None  # mean of the watched number since the change
    size: float | None  # after / before
    evidence: float  # how sure: an alarm is raised at 1
    false_alarms: str | None  # [drift] false_alarms; null if absent, or if the reference is too short to keep this limit
    reference: int | None  # number of reference rows that the newest rows are compared with
    warm_up: int | None  # rows of the key at which the detector could not alarm yet; null if they were not counted
    rows_learned: int  # rows of the key that the detector had learned before the alarm
    model: str  # learner and head
    keys: list[str] = []  # keys of a group by the time of their alarms, at most 100; absent in other alarms
    keys_alarmed: int = 0  # number of keys of a group; absent in other alarms


class Minutes(msgspec.Struct):
    """How long a key did something on a day."""

    day: str  # such as 2026-11-21, in [source] time_zone, or UTC
    minutes: float  # minutes of the activity on this day, in all bouts of the key so far


class Bout(msgspec.Struct):
    """A record of the bouts topic: one when a bout is over and no late label can change it."""

    key: str  # key of the record, as text
    number: int  # number of the bout within its key, from 0
    activity: str  # class of the rows: the label, or without a label the predicted class
    start: float  # event time, seconds since 1970
    end: float  # event time, seconds since 1970
    score: float | None  # mean score of the predicted rows; with [head] filter a probability; null if all have labels
    rows: int  # number of rows, with shorter activities that joined it
    labelled: int  # rows with a label
    days: list[Minutes]  # the days from start to end
    model: str  # learner and head


class Interval(msgspec.Struct):
    """An interval that contains the forecast value in a share of the rows."""

    coverage: float  # the share of rows, such as 0.8
    low: float | None  # null until 20 forecasts so far ahead have been judged
    high: float | None


class Ahead(msgspec.Struct):
    """The forecast of a column so many rows ahead."""

    column: str  # its name
    rows: int  # number of rows ahead
    ts: float | None  # event time of the row that is forecast; null if rows do not come at equal intervals
    value: float | None  # null if this row came late
    naive: float | None  # forecast that nothing changes: the column's value in this row
    ratio: float | None  # running mean error of the forecasts, divided by that of naive; null until 20 were judged
    due: float | None  # forecast for this row, made that many rows ago
    intervals: list[Interval]  # by [forecast] coverage


class Forecast(msgspec.Struct):
    """A record of the forecasts topic, one for every row."""

    key: str  # key of the record, as text
    ts: float  # event time, seconds since 1970; of a window its end
    seq: int  # number of this row within its key, from 0
    forecasts: list[Ahead]  # by column, then by rows ahead


ID, SCHEMA = "streamjobs-id", "streamjobs-schema"  # headers
RECORDS: dict[str, type[msgspec.Struct]] = {  # by sink; dead letters have none
    "features": Features,
    "predictions": Prediction,
    "drift": Drift,
    "alarms": Alarm,
    "bouts": Bout,
    "forecasts": Forecast,
}
_lines = msgspec.json.Encoder().encode_lines
_ABSENT = repeat(UNSET)


def encoded(shape: Callable[..., msgspec.Struct], *fields: Iterable[Any]) -> list[bytes]:
    """JSON of the structs made of the fields' columns; one call for all of them, in which no line break is a text's."""
    return _lines(list(map(shape, *fields))).split(b"\n")[:-1]


def encoded_by_name(shape: type[msgspec.Struct], columns: Mapping[str, Iterable[Any]]) -> list[bytes]:
    """The same of columns by the names of the fields; all others are absent."""
    names = _up_to_last(shape, tuple(columns))
    return encoded(shape, *[columns[name] if name in columns else _ABSENT for name in names])  # noqa: SIM401 - no calls


@cache
def _up_to_last(shape: type[msgspec.Struct], given: tuple[str, ...]) -> tuple[str, ...]:
    """The fields as far as the last given one; asked for by every batch."""
    fields = shape.__struct_fields__
    return fields[: 1 + max(map(fields.index, given))]


def output_headers(sink: str, ids: Sequence[bytes]) -> list[list[tuple[str, bytes]]]:
    """The headers of outputs of these ids; they name the schema of the value."""
    schema = _schema_header(sink)
    return [[(ID, one), schema] for one in ids]


@cache
def _schema_header(sink: str) -> tuple[str, bytes]:
    return SCHEMA, schema_name(sink).encode()


def schema_name(sink: str) -> str:
    """2: the version of all records."""
    return f"{sink}/2"
