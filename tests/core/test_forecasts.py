"""Forecasts: a record for each row with what its columns will be, to the bit whatever the batches and crashes."""

import json

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.forecast.filters import FilterForecast
from algorithms.forecast.forecast import Forecast
from algorithms.forecast.table import DUE, NAIVE, RATIO, VALUE
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.messages import Output, Stored
from streamjobs.errors import ConfigError
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.summary import details
from streamjobs.settings.load import composition_from
from tests.core.people import job_of_people, late_labels
from tests.core.streams import START, TOPIC, Worker, record, samples, settings, values

SOURCE = {"topic": TOPIC, "fields": ["ax", "ay", "az"], "time": "ts"}
ALONE = {"source": SOURCE, "window": None, "drift": None, "head": None, "learner": {"name": "scaling"}, "sinks": {}}
GRAVITY = {"forecast": {}, "window": {"length": "1s", "rate": 10.0, "statistics": "gravity"}}
MANY = {"forecast": {"fields": ["speed"]}, "source": {"topic": "imu", "dim": 50}, "window": {"length": "1s", "rate": 10.0}}
SECTION = {"fields": ["ax", "az"], "ahead": [1, "300ms"], "every": "100ms"}


def job(**sections) -> Job:
    return Job.from_settings(settings(**({**ALONE, "forecast": SECTION} | sections)))


def forecasts(outputs: list[Output], key: str = "p0") -> list[dict]:
    told = [json.loads(one.value) for one in outputs if one.sink == "forecasts"]
    return [one for one in told if one["key"] == key]


def series(times: list[float], of=float) -> list[Stored]:
    """Samples of one key at START + times, each in units of a tenth of a second."""
    bodies = [{"ax": of(at), "ay": 0.0, "az": 1.0, "ts": START + 0.1 * at} for at in times]
    return [record(n, b"p0", body) for n, body in enumerate(bodies)]


def test_every_row_has_the_numbers_of_the_learner_alone() -> None:
    records = samples(900)
    told = forecasts(Worker(job()).apply(records))
    rows = [json.loads(one.value) for one in records[::3]]
    X = np.array([[row["ax"], row["az"]] for row in rows])
    learner = Forecast(ahead=(1, 3))
    _, out = learner.run(learner.init(dim=2, targets=0, seed=0), X)
    table = learner.table(out.features, 2)
    assert len(told) == len(rows) == 300 and told[7]["seq"] == 7
    for at, one in enumerate(told):
        assert one["ts"] == rows[at]["ts"]
        assert [(f["column"], f["rows"]) for f in one["forecasts"]] == [("ax", 1), ("ax", 3), ("az", 1), ("az", 3)]
        for of, place in zip(one["forecasts"], np.ndindex(2, 2), strict=True):
            expected = table[at][place]
            got = [
                of["value"],
                of["naive"],
                of["ratio"],
                of["due"],
                *(i[end] for i in of["intervals"] for end in ("low", "high")),
            ]
            wanted = [*expected[[VALUE, NAIVE, RATIO, DUE]], *expected[[5, 6, 8, 9]]]
            assert np.array_equal(np.array(got, float), wanted, equal_nan=True)
            assert of["ts"] == one["ts"] + of["rows"] * 0.1
    last = told[-1]["forecasts"][0]
    assert last["ratio"] is not None and last["intervals"][0]["low"] < last["value"] < last["intervals"][0]["high"]


LEARNED = SECTION | {"learner": {"name": "krls", "budget": 8}, "inputs": ["ax", "ay"], "lags": 3}


@pytest.mark.parametrize("of", ["samples", "windows", "people", "learner", "cautious", "cautious learner"])
def test_a_crash_after_every_record_changes_no_byte(of: str) -> None:
    """With late labels, which must not change a forecast."""
    if of == "people":
        one = job_of_people(labels={"wait": "10s"}, forecast={"ahead": [1, 2]})
        records = late_labels(samples(360), after=6.0)
    else:
        window = {"length": "1s", "hop": "500ms", "rate": 10.0} if of == "windows" else None
        section = SECTION if window is None else {"fields": ["ax", "ay_log_sd"], "ahead": ["500ms", 4]}
        section = LEARNED if of.endswith("learner") else section
        section = section | ({"cautious": True} if of.startswith("cautious") else {})
        one, records = job(window=window, forecast=section), samples(60 if of.endswith("learner") else 300)
    whole = Worker(one)
    expected = [row for row in values(whole.apply(records)) if row[0] == "forecasts"]
    whole.checkpoint()
    assert len(expected) > 50
    worker, got = Worker(one), []
    for single in records:
        got += values(worker.apply([single]))
        worker.checkpoint()
        worker.crash()
    assert [row for row in got if row[0] == "forecasts"] == expected
    assert worker.store == whole.store
    assert not Worker(one, dict(worker.store)).apply(records), "redelivered records send nothing"


def test_a_state_knows_the_newest_forecast_for_each_row_to_come() -> None:
    """`details` has them, for the page and for `state show --json`; of rows after a gap there is none."""
    one = job(forecast={"fields": ["ax"], "ahead": [1, 4], "every": "100ms"})
    told, states = [], {}
    for times in (list(range(100)), [*range(100), 102]):
        worker = Worker(one)
        told.append(forecasts(worker.apply(series(times, of=lambda at: float(np.sin(at))))))
        worker.checkpoint()
        states[len(told) - 1] = details(one, Entry(0, b"p0", worker.store[b"p0"], -1, 0))["forecasts"]
    found = states[0]
    (column,) = found["columns"]
    assert (found["newest"], found["every"], found["rows"]) == (told[0][-1]["ts"], 0.1, [1, 2, 3, 4])
    assert column["values"][-2:] == [np.sin(98.0), np.sin(99.0)]
    made = [told[0][-1]["forecasts"][0], *(told[0][row]["forecasts"][1] for row in (-3, -2, -1))]
    assert column["forecast"] == [row["value"] for row in made]
    assert column["low"] == [[row["intervals"][c]["low"] for row in made] for c in range(2)]
    assert column["high"] == [[row["intervals"][c]["high"] for row in made] for c in range(2)]
    after = states[1]["columns"][0]["forecast"]
    last = told[1][-1]["forecasts"]
    assert after == [last[0]["value"], None, None, last[1]["value"]], "rows 100 and 101, which are missing, foresaw nothing"


def test_rows_that_are_missing_count_where_rows_come_at_equal_intervals() -> None:
    """A forecast that is due in a gap is not judged, and the first one after it is of the row `rows` intervals ago."""
    times = [*range(100), *range(110, 140)]
    one = job(forecast={"fields": ["ax"], "ahead": [2, 12], "every": "100ms"})
    told = forecasts(Worker(one).apply(series(times)))
    after = told[100]["forecasts"]
    assert after[0]["due"] is None and after[1]["due"] == told[98]["forecasts"][1]["value"]
    assert told[102]["forecasts"][0]["due"] == told[100]["forecasts"][0]["value"]
    anyhow = forecasts(Worker(job(forecast={"fields": ["ax"], "ahead": [2]})).apply(series(times)))
    assert anyhow[100]["forecasts"][0]["due"] == anyhow[98]["forecasts"][0]["value"]
    assert anyhow[0]["forecasts"][0]["ts"] is None


def test_a_late_row_has_no_forecast_and_changes_none() -> None:
    source = {**SOURCE, "late": "predict_only"}
    in_order, late = series(list(range(60))), record(60, b"p0", {"ax": 99.0, "ay": 0.0, "az": 1.0, "ts": START + 1.05})
    rest = [one._replace(offset=one.offset + 1) for one in in_order[40:]]
    stream = [*in_order[:40], late._replace(offset=40), *rest]
    told = forecasts(Worker(job(source=source)).apply(stream))
    whole = forecasts(Worker(job(source=source)).apply(in_order))
    assert [one["value"] for one in told[40]["forecasts"]] == [None] * 4 and told[40]["ts"] == START + 1.05
    assert [one["forecasts"] for one in [*told[:40], *told[41:]]] == [one["forecasts"] for one in whole]


def test_labels_are_learned_beside_forecasts() -> None:
    with_labels = settings(window=None, drift=None, forecast=SECTION)
    outputs = Worker(Job.from_settings(with_labels)).apply(samples(600))
    without = Worker(Job.from_settings(settings(window=None, drift=None))).apply(samples(600))
    assert [one for one in values(outputs) if one[0] != "forecasts"] == values(without)
    assert len(forecasts(outputs)) == 200


def test_states_are_read_with_without_and_with_another_forecast() -> None:
    kinds = [
        job(),
        job(forecast=None),
        job(forecast={"ahead": [1, 2, 3]}),
        job(forecast=LEARNED),
        job(drift={"watch": "columns"}, forecast=SECTION),
        job(forecast=SECTION | {"cautious": True}),
        job(forecast=LEARNED | {"cautious": True}),
    ]
    for writer in (*kinds[:4], *kinds[5:]):
        for reader in (*kinds[:4], *kinds[5:]):
            old = Worker(writer)
            old.apply(samples(300))
            old.checkpoint()
            new = Worker(reader, dict(old.store))
            assert len(new.apply(samples(600))) == (0 if reader is kinds[1] else 300)
            new.checkpoint()
            states, _, _ = decode_snapshot(reader, new.store[b"p0"])
            if reader is not kinds[1]:
                learner = states["forecasts"].learner
                seen = learner.series.seen if reader in (kinds[3], kinds[6]) else learner.seen
                assert seen == (200 if reader is writer else 100)
    relearned, _, _ = decode_snapshot(kinds[4], stored(kinds[0]), drift_anew=True)
    assert relearned["forecasts"].learner.seen == 100
    without, _, _ = decode_snapshot(kinds[4], stored(kinds[3]), drift_anew=True)
    assert without["forecasts"].learner.seen == 0


def test_a_job_states_later_that_fields_are_never_negative_and_goes_on() -> None:
    for section in (SECTION, LEARNED):
        before, after = job(forecast=section), job(forecast=section | {"not_negative": ["az"]})
        old = Worker(before)
        old.apply(samples(600))
        old.checkpoint()
        new = Worker(after, dict(old.store))
        entries = [one["forecasts"] for one in forecasts(new.apply(samples(900)))]
        assert len(entries) == 100
        low = [of["intervals"][0]["low"] for one in entries for of in one if of["column"] == "az"]
        assert min(low) == 0.0
        new.checkpoint()
        assert len(Worker(before, dict(new.store)).apply(samples(930))) == 30


def test_only_what_is_forecast_can_be_never_negative() -> None:
    with pytest.raises(ConfigError, match="not_negative: 'ay' is not forecast; add it to fields"):
        job(forecast=SECTION | {"not_negative": ["ay"]})


def test_a_learner_forecasts_from_the_columns_that_it_is_given() -> None:
    """The numbers are those of `FilterForecast` alone, with a column that is not forecast among the inputs."""
    section = {**LEARNED, "fields": ["az"], "ahead": [1, 3]}
    made = job(forecast=section)
    records = samples(900)
    told = forecasts(Worker(made).apply(records))
    rows = [json.loads(one.value) for one in records[::3]]
    X = np.array([[row["az"], row["ax"], row["ay"]] for row in rows])
    learner = learner_from("krls", {"budget": 8})
    model = FilterForecast(learner=learner, ahead=(1, 3), lags=3, inputs=(1, 2))
    table = model.forecasts(model.init(dim=3, targets=1, seed=made.seed_of(b"p0")), X)
    got = [[(of["value"], of["naive"], of["ratio"], of["due"]) for of in one["forecasts"]] for one in told]
    assert np.array_equal(np.array(got, float), table[:, 0][:, :, [VALUE, NAIVE, RATIO, DUE]], equal_nan=True)
    assert [(of["column"], of["rows"]) for of in told[0]["forecasts"]] == [("az", 1), ("az", 3)]


def stored(one: Job) -> bytes:
    worker = Worker(one)
    worker.apply(samples(300))
    worker.checkpoint()
    return worker.store[b"p0"]


def test_reports_count_what_was_judged() -> None:
    one = job(forecast={"fields": ["ax"], "ahead": [1], "coverage": [0.5, 0.9]})
    report = advance(one, Live(one, lambda key: None), samples(900)).report
    judged, error, naive, bounded, half, most = report.forecasts["ax 1"]
    assert judged == 897 and 0.5 < error / naive < 1.0
    assert bounded == 837 and abs(half / bounded - 0.5) < 0.1 and abs(most / bounded - 0.9) < 0.05


def test_a_job_needs_no_learner() -> None:
    made = Job.from_composition(composition_from({"source": SOURCE, "forecast": {}}))
    outputs = Worker(made).apply(samples(300))
    assert {one.sink for one in outputs} == {"forecasts"} and len(outputs) == 300
    assert [one["column"] for one in forecasts(outputs)[0]["forecasts"]] == ["ax", "ay", "az"]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"forecast": {"ahead": ["1h"]}}, "ahead: '1h' can be counted in rows only if they come at equal intervals"),
        ({"forecast": {"ahead": ["90s"], "every": "1m"}}, "ahead must be a multiple of the interval of rows (60 s)"),
        ({"forecast": {"ahead": ["soon"]}}, "ahead must be rows, or a duration such as"),
        ({"forecast": {"ahead": [3, 1]}}, "ahead must be rows from 1 to 10,000, ascending"),
        ({"forecast": {"coverage": [1.5]}}, "coverage must be shares between 0 and 1"),
        ({"forecast": {"season": 200_000}}, "season must have at most 100,000 rows"),
        ({"forecast": {"every": 0}}, "every must be above 0"),
        ({"forecast": {"fields": ["bx"]}}, "fields: 'bx' is not one of the numbers of a row; known: ax"),
        (MANY, "fields: 'speed' is not one of the numbers of a row; known: x[0]_echo_160ms, x[0]_echo_500ms,"),
        (MANY, ", x[18]_upper_quartile and 320 more."),
        ({"forecast": {"fields": ["ax", "ax"]}}, "fields must differ"),
        ({"forecast": {"fields": []}}, "fields must name at least one number"),
        (GRAVITY, "which have no mean of it with [window] statistics = 'gravity'; name others, such as"),
        (GRAVITY | {"source": {"topic": "imu", "fields": ["ax"]}}, "needs acceleration in the first three fields"),
        ({"forecast": {"ahead": list(range(1, 101))}}, "a row has 256 forecasts at most"),
        ({"forecast": {"learner": "okfeb"}}, "learner must be one that predicts numbers, such as krls or rls; okfeb gives"),
        ({"forecast": {"learner": "pegasos"}}, "rls; pegasos predicts classes."),
        ({"forecast": {"learner": "klms"}}, "klms with these settings stores every sample; set a budget (max"),
        ({"forecast": {"learner": {"name": "krls", "bugdet": 3}}}, "unknown setting 'bugdet' for krls; did you mean"),
        ({"forecast": {"inputs": ["ax"]}}, "inputs needs learner, such as 'rls'"),
        ({"forecast": {"learner": "rls", "inputs": ["bx"]}}, "inputs: 'bx' is not one of the numbers of a row"),
        ({"forecast": {"every": "1s"}, "window": {"length": "1s", "rate": 10.0}}, "every has no meaning with [window]"),
        (
            {"sinks": {"forecasts": "f"}, "learner": {"name": "okfeb"}},
            "no forecasts would be sent without a [forecast] section",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(sections: dict, message: str) -> None:
    table = {"source": SOURCE} | sections
    with pytest.raises(ConfigError) as problem:
        composition_from(table)
    assert message in str(problem.value)


@pytest.mark.parametrize(
    ("sections", "season", "columns"),
    [
        ({"forecast": {"every": "5m"}}, 288, ("ax", "ay", "az")),
        ({"forecast": {"every": "1s"}}, 0, ("ax", "ay", "az")),
        ({"forecast": {"season": 0, "every": "5m"}}, 0, ("ax", "ay", "az")),
        ({"forecast": {}}, 0, ("ax", "ay", "az")),
        ({"forecast": {}, "window": {"length": "1m", "rate": 1.0}}, 1440, ("ax_mean", "ay_mean", "az_mean")),
    ],
)
def test_season_and_columns_that_the_job_does_not_state(sections: dict, season: int, columns: tuple[str, ...]) -> None:
    made = composition_from({"source": SOURCE} | sections)
    assert made.forecasts is not None and made.forecasts.learner.season == season
    assert tuple(made.columns[at] for at in made.forecasts.columns) == columns
