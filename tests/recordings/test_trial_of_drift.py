"""What `init` concludes from what a way to watch did on its sample, without running any."""

import tomllib
from collections import Counter

import pytest

from streamjobs.commands.recordings.drift_trial import _usual
from streamjobs.commands.recordings.job_template import Written, job_file_text
from streamjobs.commands.recordings.trial import Trial, Tried, worth_leaving_out
from streamjobs.recordings.guess import guess
from streamjobs.recordings.tables import How
from tests.recordings.fleet import START
from tests.recordings.init_told import as_csv


def test_rows_of_the_warm_up_are_named():
    tried = Tried("columns", 15, 60, Counter(), Counter(), 0.006, Counter(), warming=8580)
    assert "of 15 keys and 60 rows (8,580 more rows of warm-up); false_alarms" in str(tried)


def test_a_watch_does_not_fit_if_its_alarms_are_open_for_a_fifth_of_the_rows():
    tried = Tried("columns", 1, 6000, Counter(a=2), Counter(), 0.9, Counter(level=1), warming=3000, opened=1700)
    assert tried.fits and not tried._replace(opened=1900).fits
    assert "they are open for more than 20% of the rows" in str(tried._replace(opened=1900))


def test_alarms_in_most_of_the_keys_that_can_alarm_are_not_faults_however_few_rows_they_have():
    each = Counter(dict.fromkeys("abcd", 1))
    tried = Tried("columns", 7, 679, each, Counter(columns=1), 0.014, Counter(heat=4), warming=5321)
    assert not tried.fits and "close together" not in str(tried) and "columns in them: heat of 4 keys" in str(tried)
    assert tried._replace(keys=9).fits and tried._replace(keys=3).fits and tried._replace(stated=2.0).fits
    of_two = tried._replace(keys=2, alarms=Counter(a=2, b=2), usual=Counter())
    assert of_two.fits and not of_two._replace(daily=True).fits, "weekends are in few parts of the sample"
    assert of_two._replace(daily=True, alarms=Counter(a=4)).fits and of_two._replace(daily=True, keys=5).fits


def test_with_a_reference_most_keys_may_have_faults_but_few_of_them_at_once():
    each = Counter(dict.fromkeys("abcdef", 3))
    tried = Tried("columns", 8, 4000, each, Counter(columns=18), 0.4, Counter(), opened=3000, reference="first 400 rows")
    assert tried._replace(soon=2).fits and not tried._replace(soon=3).fits and not tried._replace(reference=None).fits


def test_false_alarms_to_expect_of_experiments_are_those_soon_after_their_reference():
    of_34 = Tried(
        "columns", 34, 23_801, Counter(a=55), Counter(), 2.4, Counter(), between=10_000, reference="first 400 rows"
    )
    assert "expect up to 1 alarm in 433 rows of a key" in [*Trial([of_34]).lines()][1]
    assert "expect 1 false alarm in 793 rows of a key, not 1 in 10,000" in [*Trial([of_34._replace(soon=3)]).lines()][1]
    rare = of_34._replace(rows=400_000, soon=3, alarms=Counter(a=3), stated=40.0)
    assert len([*Trial([rare]).lines()]) == 1, "fewer than false_alarms states"


@pytest.mark.parametrize("daily", [False, True])
def test_alarms_to_expect_are_named_where_a_trial_has_more_than_stated(daily):
    most = Tried(
        ["columns", "innovations", "rows"], 1, 3126, Counter(a=4), Counter(), 1.0, Counter(), daily=daily, between=3000
    )
    assert len([*Trial([most]).lines()]) == 1, "twice the stated number and two more are chance"
    more = most._replace(alarms=Counter(a=6))
    assert [*Trial([more]).lines()][1].startswith("if the sample has no faults, expect up to 1 alarm in 521 rows of a key")


def test_where_every_way_alarms_too_often_init_says_what_to_do():
    tried = Tried("columns", 1, 9000, Counter(a=40), Counter(columns=40), 0.9, Counter(level=1), between=10_000)
    _, expected, advice = Trial([tried]).lines()
    assert "expect up to 1 alarm in 225 rows of a key, not 1 in 10,000, as false_alarms states; fewer later" in expected
    assert advice.startswith("[drift] alarms too often: if the sample has no such faults")


@pytest.mark.parametrize(
    ("alarms", "gone"),
    [
        ((55, 51, 38), 0),  # faults in all columns
        ((540, 1), 1),  # a battery
        ((1000, 600, 4), 2),  # two columns that trend: both
        ((600, 55, 51, 38), 1),  # a battery beside faults
    ],
)
def test_only_columns_that_make_alarms_rarer_are_left_out(tmp_path, alarms, gone):
    names = ["a", "b", "c", "d"]
    guessed = guess(as_csv(tmp_path / "rows.csv", [dict.fromkeys(["key", *names], n) for n in range(20)]), How())
    own = [Tried("columns", 1, 9000, Counter(k=n), Counter(columns=n), 1.0, Counter()) for n in alarms]
    ways = [(guessed._replace(fields=names[n:]), Trial([one], own=one)) for n, one in enumerate(own)]
    assert worth_leaving_out(ways) == gone


def test_a_few_keys_with_faults_do_not_decide_what_is_watched():
    def usual(**alarms: int) -> int:
        raised = [(key, 1234 * n % 2000, "columns") for key, count in alarms.items() for n in range(count)]
        return _usual(raised, dict.fromkeys("abcdefgh", 2000), keys=8).total()

    assert usual(a=30, b=40, c=5) == 5 and usual(a=30, b=40, c=8) == 8 and usual(a=9, b=9, c=9, d=9) == 16


def test_alarms_of_one_key_that_are_close_together_do_not_decide_what_is_watched():
    def usual(*rows: int) -> Counter[str]:
        return _usual([("m", row, "rows") for row in rows], {"m": 4000}, keys=1)

    faults = 500, 1010, 1015, 1030, 1320, 2400, 2401, 2650, 3900
    assert usual(*faults) == {"rows": 1}, "three of the twelve parts may have faults"
    assert usual(*range(400, 4000, 300)) == {"rows": 8}


@pytest.mark.parametrize("rate", [1, 50])
def test_each_column_is_watched_where_that_was_tried(tmp_path, rate):
    """Windows are tried with other watches too, but not with a chart for each of their many columns."""
    made = [{"device": "d", "ts": START + n / rate, "a": n * 7 % 11 / 3, "b": n * 5 % 13 / 3} for n in range(60)]
    guessed, file = guess(as_csv(tmp_path / "rows.csv", made), How()), tmp_path / "job.toml"
    tried = Tried(["columns", "rows"], 1, 9000, Counter(), Counter(), 1.0, Counter())
    text = job_file_text(guessed, file, Written("in", "kafka://localhost:9092", "json", None, None), Trial([tried]))
    drift = tomllib.loads(text)["drift"]
    assert drift["watch"] == ["columns", "rows"] and ("each" in drift) == (rate == 1)
