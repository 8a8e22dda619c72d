"""What is found in the decisions for new people: the learning curve, mislabelled recordings, and the advice."""

import re

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.heads.gated_rls import GatedRls
from streamjobs.fit.evaluation import Runs
from streamjobs.fit.learning import Recipe, learned_from
from streamjobs.fit.recordings import Recordings, Stream, shuffled, worth
from streamjobs.fit.reports import findings
from streamjobs.fit.reports.findings import Curve, learning_curve
from streamjobs.fit.reports.page import Chart, _chart
from streamjobs.fit.reports.report import LAST, MAJORITY, Evaluated, as_page, curves_of, summary
from streamjobs.stages import statistics

NAMES = ["sit", "walk", "run"]
RECIPE = Recipe(learner_from("scaling", {"clip": 5.0}), None, GatedRls(intercept=True))


def _people(count: int, spread: float) -> Recordings:
    """People differ from each other by `spread` of the distance of two activities."""
    random = np.random.default_rng(3)
    person, recording = np.repeat(np.arange(count), 90), np.repeat(np.arange(3 * count), 30)
    activity = recording % 3
    own = random.normal(size=(count, 3, 4)) * spread
    X = np.eye(4)[activity] * 2 + own[person, activity] + random.normal(size=(len(person), 4)) * 0.3
    return Recordings(X, activity, person, recording, NAMES)


def test_more_people_help_where_people_differ():
    data = _people(9, 0.8)
    learned = learned_from(shuffled(data, data.person >= 0, [0]), RECIPE, 3)
    curve = learning_curve(data, RECIPE, learned, 20)
    assert curve is not None and curve.people[0] == 2 and curve.people[-1] == 8 and curve.total == 9
    assert curve.right[-1] > curve.right[0] and 0 < curve.gain < 0.1
    few = data.of(data.person < 3)
    assert learning_curve(few, RECIPE, learned, 20) is None


def _recordings(labels: dict[int, int], windows: int = 20) -> Recordings:
    """One person's recordings by number, with their labels."""
    recording = np.repeat(list(labels), windows)
    activity, nobody = np.array([labels[one] for one in recording.tolist()]), np.zeros(len(recording), np.int64)
    return Recordings(np.empty((len(recording), 0)), activity, nobody, recording, NAMES, ["p0"], [str(n) for n in labels])


def _suspicious(decided: dict[int, int], labels: dict[int, int], windows: int = 20) -> list[findings.Suspicious]:
    """decided: the class of all windows of each recording."""
    data = _recordings(labels, windows)
    return findings.suspicious(data, np.repeat(list(decided.values()), windows), lambda one: np.full(windows, decided[one]))


def test_a_recording_looks_mislabelled_if_it_is_decided_unlike_others_of_its_label():
    labels = {n: n % 3 for n in range(30)}
    decided = {**labels, 4: 0}
    (one,) = _suspicious(decided, labels)
    assert one == ("p0", "4", "walk", "sit", 20, 20, 0.0)
    assert _suspicious(decided, labels, windows=5) == []  # too short
    for two in ((1, 0), (0, 1)):  # walking often looks like sitting, or sitting like walking
        confused = {n: two[1] if label == two[0] and n in (6, 7, 12, 13) else label for n, label in decided.items()}
        assert _suspicious(confused, labels) == []


def test_a_wrong_label_is_found_by_what_others_taught_and_no_right_one_is_named():
    data = _people(9, 0.4)._replace(people=[f"p{n}" for n in range(9)], recordings=[str(n) for n in range(27)])
    wrong = data._replace(activity=np.where(data.recording == 13, 2, data.activity))
    for one, named in ((data, []), (wrong, [("p4", "13", "run", "walk")])):
        learned = learned_from(shuffled(one, one.person >= 0, [0]), RECIPE, 3)
        others = findings.ByOthers(one, RECIPE, learned)
        found = findings.suspicious(one, others.decided(), others.with_own)
        assert [each[:4] for each in found] == named


def test_a_person_who_always_does_an_activity_as_others_do_another_has_no_wrong_label():
    """The other recordings of this person say what the label means; without them each of these looks mislabelled."""
    data = _people(9, 0.0)._replace(people=[f"p{n}" for n in range(9)])
    half = np.arange(len(data.X)) % 30 >= 15
    data = data._replace(recording=2 * data.recording + half, recordings=[str(n) for n in range(54)])
    odd = (data.person == 4) & (data.activity == 1)
    X = data.X.copy()
    X[odd] += 0.9 * 2 * (np.eye(4)[2] - np.eye(4)[1]) + np.eye(4)[3]
    data = data._replace(X=X)
    others = findings.ByOthers(data, RECIPE, learned_from(shuffled(data, data.person >= 0, [0]), RECIPE, 3))
    decided = others.decided()
    assert (decided[odd] == 2).all() and findings.suspicious(data, decided, others.with_own) == []
    assert len(findings.suspicious(data, decided, lambda one: decided[data.recording == one])) == 2


@pytest.mark.parametrize("people", [3, 5, 10])
def test_the_mean_of_other_people_is_within_the_stated_shares_in_nine_of_ten_cases(people):
    """Shares of right windows with a long tail, as people have them."""
    random = np.random.default_rng(people)
    shares = random.beta(18.0, 2.0, size=(2000, people + findings.OTHERS))
    ranges = np.array([findings.of_others(one[:people], 100 * people) for one in shares])
    others = shares[:, people:].mean(axis=1)
    within = ((ranges[:, 0] <= others) & (others <= ranges[:, 1])).mean()
    assert 0.9 < within < 0.96, within
    assert findings.of_others(np.array([0.99, 1.0, 1.0]), 30)[1] == 1.0
    assert findings.of_others(np.ones(people), 98) == (0.99, 1.0), "no one is certain of others"


GOOD, POOR = np.array([0.95, 0.94, 0.96]), np.array([0.7, 0.72, 0.74])
CURVES = {gain: Curve([2, 3], [0.9, 0.95], gain, total) for gain, total in ((0.001, 7), (0.0, 6), (0.02, 3))}


@pytest.mark.parametrize(
    ("figures", "more", "bad", "said"),
    [
        ((POOR, POOR - 0.1, GOOD), None, 0, "Repeating the last label is right more often (95.0% against 72.0%)"),
        ((GOOD, POOR, GOOD + 0.003), None, 0, "Repeating the last label is right more often (95.3% against 95.0%)"),
        (
            (GOOD, GOOD, POOR),
            None,
            0,
            "Run the job: it is right in 95.0%, and labels of these people gain nothing.",
        ),
        ((GOOD, POOR, POOR), 0.02, 0, "Run the job: it is right in 95.0%, and repeating the last label in 72.0%."),
        ((GOOD, POOR, POOR), 0.02, 0, "Record 5 more people (about +0.020)"),
        ((GOOD, POOR, POOR), 0.001, 0, "5 more people (about +0.001) are hardly worth their recordings"),
        ((GOOD, POOR, POOR), 0.0, 0, "Record 5 more people: 6 people are too few to estimate what more people gain"),
        ((GOOD, POOR, POOR), None, 2, "Look at the recordings that look mislabelled"),
        ((np.array([0.95, 0.6, 0.96]), POOR, POOR), None, 0, "Look at b (60.0%)"),
        ((POOR - 0.4, POOR - 0.4, POOR - 0.5), None, 0, "Do not rely on this job: it is right in 32.0% only."),
    ],
)
def test_the_advice_follows_the_figures(figures, more, bad, said):
    text = findings.advice(*figures, ["a", "b", "c"], CURVES.get(more), bad)
    assert text.startswith("Advice: ") and said in text


def test_the_advice_names_the_cause_of_the_worst_persons_wrong_windows():
    text = findings.advice(np.array([0.95, 0.6, 0.96]), POOR, POOR, ["a", "b", "c"], None, 0, cause="it is known")
    assert "Look at b (60.0%): it is known." in text and "wears" not in text


@pytest.mark.parametrize("tested", [False, True])
def test_an_activity_that_no_other_person_teaches_is_the_cause(tested: bool) -> None:
    """The advice was to look at how this person wears the sensor."""
    person, recording = np.repeat([1, 2, 3], 60), np.repeat(np.arange(9), 20)
    activity = recording % 3  # person 3 alone runs
    activity[(activity == 2) & (person < 3)] = 0
    data = Recordings(np.zeros((180, 1)), activity, person, recording, NAMES, ["", "p7", "p8", "p9"])
    data = data.of(person > 1) if tested else data
    chosen = np.where(activity == 2, 1, activity)

    def runs(right: float) -> Runs:
        """right: windows of each person's first recording that are right."""
        found: Runs = {}
        for one in np.unique(data.person).tolist():
            truth, said = activity[person == one], chosen[person == one].copy()
            said[: int(20 - 20 * right)] = 1
            stream = Stream(np.empty((60, 0)), truth, recording[person == one])
            found["job"] = {**found.get("job", {}), (one, 0): (said, truth, worth(said, stream))}
        return found | dict.fromkeys((LAST, MAJORITY), found["job"])

    for right, named in ((1.0, True), (0.5, True), (0.0, False)):
        evaluated = Evaluated("t", data, runs(right), ["job"], None, 5, 1, left_out=not tested, taught=2 if tested else None)
        advice = summary(evaluated)[-1]
        assert ("of the wrong windows are of run, which no other person teaches" in advice) == named
        assert ("how this person wears the sensor" in advice) == (not named), advice
    evaluated = evaluated._replace(
        runs=runs(1.0), left_out=False, taught=None
    )  # as a replay, which does not know who taught
    assert "teaches" not in summary(evaluated)[-1]


@pytest.mark.parametrize(("windows", "of_a_point"), [(400, 20), (3200, 100)])
def test_the_curve_over_time_has_a_number_of_points_that_is_readable(windows: int, of_a_point: int) -> None:
    """Of 3,000 windows it went up and down with every recording, 160 times."""
    truth = np.zeros(windows, int)
    run = {(1, 0): (truth, truth, worth(truth, Stream(np.empty((windows, 0)), truth, truth)))}
    data = Recordings(np.empty((windows, 0)), truth, truth + 1, truth, NAMES, ["", "p1"])
    evaluated = Evaluated("t", data, dict.fromkeys(("job", LAST, MAJORITY), run), ["job"], None, 5, 1)
    bin, curves = curves_of(evaluated)
    assert (bin, len(curves["job"])) == (of_a_point, windows // of_a_point)
    assert f"Right in every {of_a_point} windows" in as_page(evaluated)


def test_the_axis_of_a_chart_has_numbers_that_are_those_of_their_places() -> None:
    """Of a population of 7 they were 2, 4, 5 and 7."""
    drawn = _chart(Chart("t", "people", {"a": ([2, 7], [0.5, 1.0])}))
    assert re.findall('text-anchor="end">([0-9.]+)<', drawn) == ["1.75", "3.5", "5.25", "7"]


def test_an_activity_with_two_names_is_named_if_no_person_has_both() -> None:
    """Two sets of recordings, joined: .92 in place of .97 were right, and nothing named the cause."""
    data = Recordings(np.zeros((4, 1)), np.array([0, 1, 2, 2]), np.array([0, 1, 0, 1]), np.arange(4), ["walk", "wlk", "run"])
    counts = np.array([[60, 39, 1], [45, 55, 0], [1, 0, 99]])
    assert findings.one_activity_twice(data, counts) == ["walk and wlk"]
    assert findings.one_activity_twice(data._replace(person=np.zeros(4, int)), counts) == []
    assert findings.one_activity_twice(data, np.array([[90, 10, 0], [45, 55, 0], [1, 0, 99]])) == []
    assert findings.one_activity_twice(data, np.array([[50, 20, 30], [45, 55, 0], [1, 0, 99]])) == []


def test_people_who_do_not_teach_each_other_are_advised_to_learn_alone():
    without = "Remove [population] and what needs it."
    assert without not in findings.advice(GOOD, POOR, POOR, ["a", "b", "c"], None, 0, POOR)
    text = findings.advice(POOR, POOR - 0.1, GOOD, ["a", "b", "c"], None, 0, GOOD - 0.01)
    assert "a head that learns only a person's own labels is right in 94.0%. " + without in text


def test_what_adapting_gained_and_cost_is_said_by_person():
    assert findings.adaptation([("a", 0.1), ("b", -0.02)], 20) == (
        "Labels of the person gain +0.040 on average; most: a +0.100; they cost: b -0.020."
    )
    assert findings.adaptation([("a", 0.1), ("b", -0.02), ("c", 0.04)], 0).endswith("they cost: b -0.020.")
    assert findings.adaptation([("a", 0.1), ("b", -0.02), ("c", 0.04)], 30).endswith(
        "they cost: b -0.020. 3 other people probably (8 of 10 times) gain -0.129 to +0.209."
    )


def test_people_with_a_sensor_that_is_mounted_another_way_are_named() -> None:
    columns = ["ax_mean", "ay_mean", "az_mean", "ax_ay_az_norm_mean", "gravity_ax_ay_az_vertical_mean"]
    assert {*columns} < {*statistics.names(["ax", "ay", "az"], statistics.BOTH)}
    data = _people(5, 0.1)._replace(people=[*"abcde"])
    down = np.array([0.0, 9.8, 0.0, 9.8])
    X = data.X * 0.3 + down
    assert not list(findings.turned(data._replace(X=X), columns))
    X[data.person == 3] *= [1.0, -1.0, 1.0, 1.0]
    (said,) = findings.turned(data._replace(X=X), columns)
    assert "other people: d (17" in said and "degrees). If people" in said
    assert not list(findings.turned(data._replace(X=X), columns[:4]))
    assert not list(findings.turned(data._replace(X=X[:, :2]), ["gravity_ax_mean", "gravity_ay_mean"]))
    taught, new = data._replace(X=data.X * 0.3 + down), data._replace(X=X, people=[*"vwxyz"])
    assert list(findings.turned(taught, columns, new)) == [said.replace("d (", "y (")]
    assert not list(findings.turned(taught, columns, taught._replace(people=[*"vwxyz"])))
    alone = new.of(new.person == 3)._replace(X=X[data.person == 3])
    assert "people: y (" in next(findings.turned(taught, columns, alone))


@pytest.mark.parametrize(("down", "named"), [([2], "c"), ([3, 4], "de"), ([2, 3], "")])
def test_people_are_not_compared_with_others_who_do_not_agree(down: list[int], named: str) -> None:
    """Of three, the two who mount the sensor alike were named too, of four in two halves all."""
    columns = ["ax_mean", "ay_mean", "az_mean", "ax_ay_az_norm_mean", "gravity_ax_ay_az_vertical_mean"]
    people = 5 if 4 in down else max(down) + 1
    data = _people(people, 0.1)._replace(people=[*"abcde"])
    X = (data.X * 0.3 + [0.0, 9.8, 0.0, 9.8]) * np.where(np.isin(data.person, down)[:, None], [-1, -1, -1, 1], 1)
    said = "".join(findings.turned(data._replace(X=X), columns)).partition("people: ")[2].partition(". If")[0]
    assert [one[0] for one in said.split(", ") if one] == [*named]


def test_nothing_is_said_of_the_mounting_of_acceleration_without_gravity() -> None:
    """Its means point anywhere: of five people all were named."""
    columns = ["ax_mean", "ay_mean", "az_mean", "ax_ay_az_norm_mean", "gravity_ax_ay_az_vertical_mean"]
    data, random = _people(5, 0.1)._replace(people=[*"abcde"]), np.random.default_rng(0)
    means = random.normal(size=(15, 3))[data.recording % 15] * 0.2
    X = np.column_stack([means, np.linalg.norm(means, axis=1) + 2.0])
    assert not list(findings.turned(data._replace(X=X), columns))
    assert list(findings.turned(data._replace(X=X * [1.0, 1.0, 1.0, 0.0]), columns))


def test_most_people_with_a_single_activity_are_named() -> None:
    n = np.arange(90)
    data = Recordings(np.zeros((90, 1)), n // 30, n // 30, n // 30, NAMES, ["a", "b", "c"])
    assert findings.of_one_activity(data) == ["a", "b", "c"]
    assert findings.of_one_activity(data._replace(activity=np.where(n < 60, n % 2, 2))) == []


def test_recordings_that_are_there_twice_are_named_with_the_first() -> None:
    """Also under another name of the person; nothing is said of recordings that share a few windows."""
    data = _people(6, 0.8)._replace(
        people=["p1", "p2", "p3", "p4", "p5", "p1 again"], recordings=[str(n) for n in range(18)]
    )
    assert not list(findings.copies(data))
    X = data.X.copy()
    X[450:480], X[480:490] = X[:30], X[30:40]  # all of recording 15, a third of 16
    assert list(findings.copies(data._replace(X=X))) == [
        "duplicate recordings make the figures too good: 15 of p1 again (0 of p1)."
    ]


@pytest.mark.parametrize("constant", [False, True])
def test_a_person_in_other_units_than_all_others_is_named(constant: bool) -> None:
    data = _people(6, 0.3)._replace(people=[f"p{n}" for n in range(6)])
    X = data.X + 3.0
    if constant:
        X[:, 1] = 0.1  # rounding is no difference
    columns = ["ax_mean", "ay_mean", "az_mean", "ax_log_sd"]
    assert not list(findings.strangers(data._replace(X=X), columns))
    X[data.person == 4] *= 9.80665
    (said,) = findings.strangers(data._replace(X=np.hstack([X, X])), columns)  # samples behind the statistics do not count
    assert said.startswith("p4: most windows are unlike those of the population, by a") and "other units" in said
