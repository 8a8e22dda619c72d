"""Other units than those of a population: named by their factor, never where people differ."""

import numpy as np
import pytest

from streamjobs.core.unlearned import ENOUGH, Taken
from streamjobs.stages.population.units import Norms, norms_of, unlike_most

COLUMNS = ["ax_mean", "ax_ay_az_norm_mean", "wx_wy_wz_norm_mean", "gravity_ax_ay_az_norm_mean"]
MEAN = np.array([1.0, 10.8, 1.3, 10.8])
VARIANCE = np.array([9.0, 3.0, 1.7, 3.0])
G, MG = 1 / 9.80665, 1000 / 9.80665


@pytest.fixture
def norms() -> Norms:
    found = norms_of(COLUMNS, MEAN, VARIANCE)
    assert found is not None
    assert found.names == ["ax_ay_az", "wx_wy_wz"]
    assert found.columns.tolist() == [1, 2] and found.steady.tolist() == [True, False]
    return found


def people(acceleration: float = 1.0, turns: float = 1.0, n: int = 200, seed: int = 0) -> np.ndarray:
    """Windows of a person at rest and in motion, with acceleration and turning rates times these."""
    random = np.random.default_rng(seed)
    length, turning = random.uniform(9.7, 16.0, n), random.exponential(1.5, n)
    return np.column_stack([random.normal(size=n), acceleration * length, turns * turning, acceleration * length])


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((1.0, 1.0), []),
        ((1.3, 0.1), []),
        ((1.0, 5.0), []),  # other people turn more
        ((1.0, 0.01), []),  # at rest
        ((G, 1.0), ["ax_ay_az is about 0.102 times the usual, as with g in place of m/s^2"]),
        ((MG, 1.0), ["ax_ay_az is about 102 times the usual, as with mg in place of m/s^2"]),
        ((1.0, 57.3), ["wx_wy_wz is about 57.3 times the usual, as with degrees/s in place of rad/s"]),
    ],
)
def test_a_key_in_another_unit_is_named_with_its_factor(norms: Norms, times: tuple[float, float], said: list[str]) -> None:
    X, counts = np.vstack([people(seed=1), people(*times, seed=2)]), Taken()
    counts.units.update((("own", "other")[n // 200], what) for n, what in norms.other_units(X))
    sentences = list(counts.other_units())
    assert [(sentence.partition("; ")[0], keys) for sentence, keys in sentences] == [
        (f"key other: {one}", ["other"]) for one in said
    ]
    assert not list(counts.other_units(set(counts.units)))  # they are named once


def test_a_key_without_gravity_is_not_told_to_convert_units(norms: Norms) -> None:
    """At rest its acceleration is as small as in mg, in motion as in g."""
    counts, rest, motion = Taken(), people(1 / MG, seed=1), people(G, seed=2)
    counts.units.update(("p", what) for _, what in norms.other_units(np.vstack([rest, motion])))
    ((sentence, keys),) = counts.other_units()
    assert keys == ["p"] and "send it with gravity" in sentence and "convert" not in sentence
    assert not list(counts.other_units(set(counts.units)))


def test_few_windows_of_a_key_and_columns_without_three_axes_name_no_unit(norms: Norms) -> None:
    counts = Taken()
    counts.units.update(("a", what) for _, what in norms.other_units(people(1 / 9.80665)[: ENOUGH - 1]))
    assert counts.units and not list(counts.other_units())
    assert norms_of(["ax_mean", "ax_log_sd"], MEAN[:2], VARIANCE[:2]) is None


@pytest.mark.parametrize(
    ("turns", "unit"), [(57.3, "degrees/s in place of rad/s"), (1 / 57.3, "rad/s in place of degrees/s")]
)
def test_people_with_other_units_than_most_are_found_among_those_who_teach_and_new_ones(turns: float, unit: str) -> None:
    X = np.vstack([people(1 / 9.80665 if one == 2 else 1.0, turns if one == 4 else 1.0, seed=one) for one in range(6)])
    person, nobody = np.repeat(np.arange(1, 7), 200), np.zeros(1200, bool)
    said = [(one, what.partition("as with ")[2]) for one, what in unlike_most(COLUMNS, X, person, nobody)]
    assert said == [(3, "g in place of m/s^2"), (5, unit)]
    new = person >= 5
    assert [one for one, _ in unlike_most(COLUMNS, X, person, new)] == [5]


def test_people_who_only_rest_have_no_smaller_unit() -> None:
    """Of people with one activity each, the turning rates of a person are even, as acceleration is."""
    turns = np.array([57.3, 1.0, 0.012, 1.2, 0.01, 1.1])
    X = np.vstack([people(seed=one) for one in range(6)])
    X[:, 2] = np.repeat(turns, 200) * np.random.default_rng(9).uniform(0.9, 1.1, 1200)
    person, nobody = np.repeat(np.arange(6), 200), np.zeros(1200, bool)
    assert [one for one, _ in unlike_most(COLUMNS, X, person, nobody)] == [2, 4]
    assert not list(unlike_most(COLUMNS, X, person, nobody, resting={2, 4}))
