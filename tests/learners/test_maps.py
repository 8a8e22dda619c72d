"""The fixed feature maps against features written out, how well they approximate the kernel, and what they refuse."""

import numpy as np
import pytest

from algorithms import SettingError, learner_from
from algorithms.common.protocol import Array
from algorithms.maps.gauss_quadrature import spread
from tests.reference import maps as reference
from tests.reference.prototypes import gaussian

KERNEL = {"name": "gaussian", "bandwidth": 1.5}


def samples(n: int, dim: int, seed: int = 0) -> Array:
    return 0.8 * np.random.default_rng(seed).standard_normal((n, dim))


def features(name: str, settings: dict[str, object], X: Array) -> Array:
    learner = learner_from(name, {"kernel": KERNEL, **settings})
    return learner.transform(learner.init(dim=X.shape[1], targets=0, seed=7), X)


@pytest.mark.parametrize(("dim", "degree"), [(1, 6), (3, 4), (7, 4)])
def test_taylor_has_every_monomial_once(dim: int, degree: int) -> None:
    X = samples(9, dim)
    Z = features("taylor", {"degree": degree}, X)
    expected = reference.taylor(X, degree, 1.5)
    assert {tuple(column) for column in np.round(Z.T, 12)} == expected and Z.shape[1] == len(expected)
    if (dim, degree) == (7, 4):
        assert Z.shape[1] == 330


@pytest.mark.parametrize("variant", ["phase", "pair"])
def test_rff_agrees_with_its_waves_written_out(variant: str) -> None:
    X = samples(20, 3)
    Z = features("rff", {"features": 40, "variant": variant, "seed": 5}, X)
    np.testing.assert_allclose(Z, reference.rff(X, 40, variant, 5, 1.5), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "settings", "most"),
    [
        ("taylor", {"degree": 6}, 0.005),
        ("gauss_quadrature", {"features": 1000}, 0.01),
        ("rff", {"features": 2000, "variant": "pair"}, 0.04),
        ("rff", {"features": 2000, "variant": "phase"}, 0.04),
        ("rff", {"features": 4000, "kernel": {"name": "laplacian", "bandwidth": 1.5}}, 0.04),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_products_are_the_kernel(name: str, settings: dict[str, object], most: float) -> None:
    X = samples(60, 3)
    Z = features(name, settings, X)
    K = gaussian(1.5)(X, X)
    if "kernel" in settings:
        K = np.exp(-np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2)) / 1.5)
    assert np.sqrt(np.mean((Z @ Z.T - K) ** 2)) <= most


@pytest.mark.parametrize("dim", [2, 7, 39])
def test_quadrature_is_nearer_to_the_kernel_than_random_waves(dim: int) -> None:
    X = samples(100, dim)
    kernel = {"name": "gaussian", "bandwidth": float(dim**0.5)}
    K = gaussian(dim**0.5)(X, X)

    def wrong(Z: Array) -> float:
        return float(np.sqrt(np.mean((Z @ Z.T - K) ** 2)))

    drawn = [wrong(features("rff", {"features": 330, "seed": seed, "kernel": kernel}, X)) for seed in range(8)]
    assert wrong(features("gauss_quadrature", {"features": 330, "kernel": kernel}, X)) < np.mean(drawn)


def test_the_maps_of_two_seeds_differ_and_of_two_keys_do_not() -> None:
    X = samples(4, 2)
    learner = learner_from("rff", {"features": 10, "seed": 1})
    one, two = (learner.transform(learner.init(dim=2, targets=0, seed=seed), X) for seed in (0, 1))
    assert one.tobytes() == two.tobytes()
    assert features("rff", {"features": 10, "seed": 1}, X)[0, 0] != features("rff", {"features": 10, "seed": 2}, X)[0, 0]


def test_far_out_taylor_features_are_zero_and_waves_without_an_angle_unknown() -> None:
    far = np.array([[1e300, 0.0], [90.0, 1.0]])
    assert (features("taylor", {}, far) == 0.0).all()
    assert np.isnan(features("rff", {"features": 4, "kernel": {"name": "gaussian", "bandwidth": 1e-20}}, far)[0]).all()


def test_spread_points_fill_each_coordinate_evenly() -> None:
    for dim in (3, 20):
        points = spread(400, dim)
        assert points.shape == (400, dim) and (points >= 0).all() and (points < 1).all()
        counts = [np.histogram(points[:, j], bins=10, range=(0, 1))[0] for j in range(dim)]
        assert np.abs(np.array(counts) - 40).max() <= 6
    assert spread(3, 2).tolist() == [[0.5, 1 / 3], [0.25, 2 / 3], [0.75, pytest.approx(1 / 9)]]


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("rff", {"features": 7, "variant": "pair"}, "features must be even for pair; got 7."),
        ("gauss_quadrature", {"features": 7}, "features must be even"),
        ("rff", {"kernel": {"name": "linear"}}, "kernel must be gaussian or laplacian; got 'linear'."),
        ("taylor", {"kernel": {"name": "laplacian"}}, "kernel must be gaussian; got 'laplacian'."),
    ],
)
def test_what_a_map_cannot_do_is_refused_with_one_sentence(name: str, settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence.replace(".", r"\.")):
        learner_from(name, settings)


def test_taylor_refuses_a_width_that_is_of_no_use() -> None:
    with pytest.raises(SettingError, match="135751 features, at most 20000; got 4"):
        learner_from("taylor", {}).init(dim=40, targets=0, seed=0)
