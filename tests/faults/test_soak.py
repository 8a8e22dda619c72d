"""The slope of memory that `--soak` reports is that of the samples, with its standard error."""

import numpy as np

from tests.faults.soak import Memory, Slope, slope_of


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


def test_lives_with_levels_of_their_own_have_one_slope():
    first, second = np.linspace(0.0, 0.5, 200), np.linspace(2.0, 2.25, 100)
    found = slope_of([(first, 100 + 6 * first), (second, 300 + 6 * second)])
    assert np.allclose(found, Slope(6.0, 0.0, 0.75), atol=1e-9)


def test_the_standard_error_is_how_far_slopes_of_the_same_noise_lie_apart():
    rng, hours = np.random.default_rng(5), np.linspace(0.0, 1.0, 300)
    found = [
        slope_of([(hours, 2 * hours + rng.normal(size=300)), (hours + 3, rng.normal(size=300) + 2 * hours)])
        for _ in range(400)
    ]
    spread = np.std([one.megabytes for one in found])
    assert abs(np.mean([one.megabytes for one in found]) - 2.0) < 4 * spread / 20
    assert abs(np.mean([one.error for one in found]) / spread - 1) < 0.15


def test_each_worker_is_reported_by_name_with_all_its_lives():
    memory = Memory()
    for worker, begin in ((Named("a"), 0.0), (Named("b"), 0.0), (Named("a"), 7200.0), (Named("b"), 9000.0)):
        step = 3 if worker.name == "a" else 0
        count = 2 if begin == 9000.0 else 60  # too short a life is left out
        memory.seen[worker] = [(begin + 60.0 * n, (100 + step * n) * 2.0**20) for n in range(count)]  # type: ignore[index]
    slopes = memory.slopes()
    assert list(slopes) == ["a", "b"]
    assert str(slopes["a"]) == "+180.0 +- 0.0 MB an hour over 1.97 h"
    assert str(slopes["b"]) == "+0.0 +- 0.0 MB an hour over 0.98 h"
