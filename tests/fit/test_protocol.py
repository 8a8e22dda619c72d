"""Leaving one person out: who teaches whom, what the figures are made of, and how it is shown."""

import io

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.heads.gated_rls import GatedRls
from streamjobs.fit.evaluation import accuracy_over_time, by_person, confusion, leave_one_out, table
from streamjobs.fit.learning import Recipe, Way, decided, features, learned_from
from streamjobs.fit.progress import Progress
from streamjobs.fit.recordings import Recordings, Unlabelled, Worth, in_order, joined, shuffled
from streamjobs.fit.reports.report import Evaluated, compared, summary

HEAD = GatedRls(intercept=True)
RECIPE = Recipe(learner_from("scaling", {"clip": 5.0}), learner_from("ald", {"budget": 20}), HEAD, smooth=0.3)
WAYS = [Way("gated", RECIPE), Way("frozen", RECIPE, "frozen"), Way("cold", RECIPE, "cold")]


@pytest.fixture(scope="module")
def data():
    """Four people, three activities, twelve recordings of twenty-five windows each."""
    random = np.random.default_rng(5)
    person, recording = np.repeat([1, 2, 3, 4], 300), np.repeat(np.arange(48), 25)
    activity = recording % 3
    X = random.normal(size=(1200, 3)) + 4.0 * np.eye(3)[activity] + 0.3 * person[:, None]
    return Recordings(X, activity, person, recording, ["a", "b", "c"], ["", "Ann", "Bo", "Cy", "Di"])


@pytest.fixture(scope="module")
def runs(data):
    return leave_one_out(data, WAYS, shuffles=2)


def test_the_person_left_out_teaches_no_other(data, runs):
    """Other labels of person 2 change what the gated head says of 2, and nothing that the frozen one says of 2."""
    mine = data.person == 2
    wrong = data._replace(activity=np.where(mine, (data.activity + 1) % 3, data.activity))
    other = leave_one_out(wrong, WAYS, shuffles=2, people=[2])
    for shuffle in range(2):
        assert (other["frozen"][2, shuffle][0] == runs["frozen"][2, shuffle][0]).all()
        assert (other["gated"][2, shuffle][0] != runs["gated"][2, shuffle][0]).any()
    third = leave_one_out(wrong, WAYS, shuffles=1, people=[3])
    assert (third["frozen"][3, 0][0] != runs["frozen"][3, 0][0]).any()


def test_each_person_and_shuffle_is_there_once_and_shuffles_differ(data, runs):
    assert set(runs["gated"]) == {(person, shuffle) for person in (1, 2, 3, 4) for shuffle in (0, 1)}
    assert all(len(chosen) == len(truth) == 300 for chosen, truth, _ in runs["gated"].values())
    assert (runs["gated"][1, 0][1] != runs["gated"][1, 1][1]).any()


def test_the_same_recordings_give_the_same_decisions_and_the_same_population(data, runs):
    again = leave_one_out(data, WAYS, shuffles=2)
    for name, found in runs.items():
        assert all((again[name][key][0] == found[key][0]).all() for key in found)
    everybody = shuffled(data, data.person > 0, [0])
    one, two = learned_from(everybody, RECIPE, 3), learned_from(everybody, RECIPE, 3)
    assert one.head.P.tobytes() == two.head.P.tobytes() and one.map.prototypes.tobytes() == two.map.prototypes.tobytes()


def test_the_map_has_prototypes_of_people_who_come_late(data):
    """A dictionary that is full after the first recordings would know nobody else."""
    learned = learned_from(shuffled(data, data.person > 0, [0]), RECIPE, 3)
    scaled = RECIPE.scaling.transform(learned.scaling, data.X)
    owners = {int(data.person[np.abs(scaled - one).sum(axis=1).argmin()]) for one in learned.map.prototypes}
    assert owners == {1, 2, 3, 4} and len(learned.map.prototypes) == 20


def test_figures_are_means_of_people_of_their_shuffles(data, runs):
    mine = [np.mean([runs["gated"][person, s][0] == runs["gated"][person, s][1] for s in (0, 1)]) for person in (1, 2, 3, 4)]
    np.testing.assert_allclose(by_person(runs, "gated", "all"), mine)
    row = next(line for line in table("t", data, runs).splitlines() if line.startswith("gated"))
    assert row.split()[1] == f"{np.mean(mine):.3f}" and row.split()[-2] == f"{np.min(mine):.3f}"
    matrix = confusion(runs, "gated", 3)
    assert matrix.sum() == 4 * 2 * 300 and np.trace(matrix) == pytest.approx(np.sum(mine) * 600)


def test_a_filter_sees_windows_without_a_label_and_nothing_is_decided_for_them(data):
    """As in a worker; without them the first window of a recording would follow the last one of another activity."""
    recipe = Recipe(RECIPE.scaling, None, HEAD, smooth=0.9)
    learned = learned_from(shuffled(data, data.person != 1, [0]), recipe, 3)
    labelled = np.arange(1200) % 25 >= 5
    rows, place = np.flatnonzero(~labelled), np.cumsum(labelled)
    cut = data.of(labelled)._replace(unlabelled=Unlabelled(data.X[rows], place[rows]))
    taught = data.of(data.person == 4)._replace(person=np.full(300, 1), recording=np.full(300, 1), people=["", "Di"])
    of_test = joined(taught._replace(recordings=["0", "1"]), cut._replace(recordings=[str(one) for one in range(48)]))
    for some, person, seed in ((cut, 1, [2]), (of_test, 1 + len(taught.people), [2])):
        whole, stream = shuffled(data, data.person == 1, [2]), shuffled(some, some.person == person, seed)
        kept = np.tile(np.arange(25) >= 5, 12)
        assert stream.unlabelled is not None and len(stream.unlabelled.X) == 60
        X = np.vstack([stream.X, stream.unlabelled.X])
        seen = decided(recipe, "frozen", learned, stream, features(learned, recipe, X))
        alone = decided(recipe, "frozen", learned, stream, features(learned, recipe, stream.X))
        every = decided(recipe, "frozen", learned, whole, features(learned, recipe, whole.X))
        assert np.array_equal(seen.scores, every.scores[kept]) and np.array_equal(seen.chosen, every.chosen[kept])
        assert not np.array_equal(seen.scores, alone.scores)
    found = leave_one_out(cut, WAYS, shuffles=1)["gated"]
    assert {key: len(chosen) for key, (chosen, _, _) in found.items()} == {(person, 0): 240 for person in (1, 2, 3, 4)}


def test_recordings_come_in_the_order_of_their_times_and_else_as_they_stand(data):
    mine = data.person == 2
    begins = np.flatnonzero(np.diff(data.recording[mine], prepend=-1))
    assert in_order(data, mine).recording[begins].tolist() == list(range(12, 24))
    turned = data._replace(began=-np.arange(48.0) // 2)
    assert in_order(turned, mine).recording[begins].tolist() == [23, 21, 22, 19, 20, 17, 18, 15, 16, 13, 14, 12]
    assert in_order(turned.of(data.person > 1), np.ones(300, bool).repeat(3) & (data.person[300:] == 2)).recording[0] == 23


def test_accuracy_over_time_goes_as_far_as_half_of_the_runs():
    rights = [np.ones(100, bool), np.zeros(60, bool), np.ones(20, bool)]
    assert accuracy_over_time(rights).tolist() == [pytest.approx(2 / 3), 0.5, 0.5]
    assert accuracy_over_time([np.ones(3, bool)]).size == 0


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("streamjobs.fit.progress.time.monotonic", lambda: now[0])
    out = io.StringIO()
    with Progress(out) as progress:
        progress.stage("leaving each person out", 30)
        for second in range(1, 26):
            now[0] = float(second)
            progress.step()
    assert out.getvalue().splitlines() == ["leaving each person out: 10 of 30", "leaving each person out: 20 of 30"]


def test_progress_is_a_bar_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    with Progress(out) as progress:
        for stage in ("reading samples", "leaving each person out"):
            progress.stage(stage, 3)
            progress.step()
    assert "leaving each person out" in out.getvalue() and "1 of 3" in out.getvalue()


RULES = ("online_greedy", "stream_greedy", "coherence", "sieve_streaming", "generalised_coherence")
MAPS = {**{name: {} for name in RULES}, "block_greedy": {"block_size": 5}}


@pytest.mark.parametrize("name", MAPS)
def test_any_rule_that_selects_prototypes_gives_a_map_to_all_people(data, name):
    recipe = Recipe(RECIPE.scaling, learner_from(name, {"budget": 20, **MAPS[name]}), HEAD)
    everybody = shuffled(data, data.person > 0, [0])
    learned = learned_from(everybody, recipe, 3)
    assert len(learned.map.prototypes) <= 20
    scores = recipe.teacher.predict(learned.head, features(learned, recipe, everybody.X))
    assert (scores.argmax(axis=1) == everybody.activity).mean() > 0.9


def test_the_closing_line_says_what_the_population_does_without_labels_beside_both_controls():
    """The first windows of a recording are few; what a person without labels gets is the frozen head over all windows."""
    names = {"job": 0.9, "frozen": 0.754, "last label seen": 0.6, "majority so far": 0.3}
    truth = np.zeros(1000, int)
    runs = {
        name: {(p, 0): (truth, truth, Worth(share, share, share, 0.152 - p / 10, share, begins=0.125)) for p in (0, 1)}
        for name, share in names.items()
    }
    data = Recordings(np.empty((1000, 0)), truth, truth, np.arange(1000), ["sit"])
    (line, differ, *_) = summary(Evaluated("t", data, runs, ["job", "frozen"], "frozen", 20, 1))
    assert "Without any label of the person: 75.4%." in line
    assert "before a label of it: 10.2% (worst person 5.2%; the first window alone: 12.5%)." in line
    assert differ == "People differ: about one new person in 3 is below the worst of these 2."
    for one in runs.values():
        one[2, 0] = one[0, 0]
    differ = summary(Evaluated("t", data, runs, ["job", "frozen"], "frozen", 20, 1))[1]
    said = "The mean of 3 other people is probably (8 of 10 times) 89.9% to 90.1%, 89.9% to 90.1% in the second half, "
    assert said in differ and differ.endswith(" before a label of the recording.")
    assert "the last label seen: 60.0%; the most frequent label so far: 30.0%." in line


def test_labels_catch_up_where_windows_have_none(data):
    """As in a worker, where a label is late by time. In a shuffled order it is late by windows."""
    n = np.arange(1200)
    lived = data._replace(times=n + 30.0 * ((n + 15) // 25))  # 30 windows without a label after ten of each recording
    _, label = in_order(lived, data.person == 2, 20).arrivals()
    at = np.flatnonzero(~label)[10]
    assert label[at + 1 : at + 11].all() and not label[at + 11]
    assert shuffled(lived, data.person == 2, [1, 2, 0]).times is None
    served = {"shuffles": 0, "people": [2]}
    by_time, by_windows = (leave_one_out(data, WAYS[:1], lived=one, **served) for one in (lived, data))
    shares = [by_person(one, "last label seen", "all").tolist() for one in (by_windows, by_time)]
    assert shares == [[4 / 25], [14 / 25]]


@pytest.mark.parametrize(("share", "where"), [(0.5, "below"), (0.8, "within"), (1.0, "above")])
def test_other_people_are_compared_with_the_range_that_leaving_people_out_gave(share, where):
    truth = np.zeros(1000, int)

    def of(left_out, shares):
        runs = {(p, 0): (truth, truth, Worth(one, one, one, one, one)) for p, one in enumerate(shares)}
        data = Recordings(np.empty((1000, 0)), truth, truth, np.arange(1000), ["sit"])
        controls = {name: runs for name in ("job", "last label seen", "majority so far")}
        return Evaluated("t", data, controls, ["job"], None, 20, 1, left_out=left_out)

    told = of(True, [0.76, 0.8, 0.84, 0.8])
    line = compared(told, of(False, [share, share]))
    assert line.startswith("Leaving people out estimated 80.0%, and for the mean of 2 other people probably 71.8%")
    assert line.endswith(f"are {where} this range, with {share:.1%} right.")
    assert compared(of(True, [0.76, 0.8]), told) == "", "two people show no range"
    assert "The mean of 3 other people" in " ".join(summary(told))
    assert "The mean of 3 other people" not in " ".join(summary(of(False, [0.76, 0.8, 0.84])))
