"""Batch methods: Alg. 1 against plain matrices, the others where their answer is known."""

import numpy as np
import pytest

from algorithms.common.kernels import Kernel, gram
from papers.batch import subspace as batch
from tests.reference.okfe import bkfe

KERNEL = Kernel(bandwidth=1.5)


def rows(n: int = 80) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(n, 3))


def test_bkfe_gives_the_numbers_of_the_plain_matrices():
    X = rows()
    learned = batch.bkfe(KERNEL, X, 4, ridge=0.1, iterations=7, seed=3)
    start = batch.bkfe(KERNEL, X, 4, iterations=0, seed=3).factor
    A, Q = bkfe(gram(KERNEL, X, X), start, 0.1, 7)
    np.testing.assert_allclose(learned.factor, A, atol=1e-12)
    np.testing.assert_allclose(learned.coefficients, Q.T, atol=1e-12)


def test_bkfe_fits_as_kernel_pca_does():
    X = rows(200)
    K = gram(KERNEL, X, X)
    floor = np.linalg.eigvalsh(K)[:-8].sum() / len(K)
    fit = batch.ls_fit(K, batch.bkfe(KERNEL, X, 8, ridge=1e-4, iterations=200).factor, 1e-4)
    assert floor <= fit <= 1.03 * floor


def test_kpca_is_the_best_approximation_of_its_rank():
    X = rows()
    K = gram(KERNEL, X, X)
    U = batch.kpca(KERNEL, X, 6).features(KERNEL, X)
    values = np.linalg.eigvalsh(K)[:-6]
    assert batch.mismatch(KERNEL, X, U) == pytest.approx(np.linalg.norm(values) / len(X), rel=1e-9)


@pytest.mark.parametrize("choose", ("uniform", "kmeans", "leverage"))
def test_nystrom_is_exact_on_all_rows_and_better_on_more_of_them(choose):
    X = rows()
    features = [batch.nystrom(KERNEL, X, m, landmarks=m, choose=choose).features(KERNEL, X) for m in (5, 20, len(X))]
    few, more, every = (batch.mismatch(KERNEL, X, U) for U in features)
    assert every < 1e-7
    assert every < more < few


def test_kmeans_landmarks_beat_uniform_ones():
    X = rows(200)
    mismatch = {}
    for choose in ("uniform", "kmeans"):
        maps = [batch.nystrom(KERNEL, X, 10, landmarks=10, choose=choose, seed=seed) for seed in range(8)]
        mismatch[choose] = np.mean([batch.mismatch(KERNEL, X, one.features(KERNEL, X)) for one in maps])
    assert mismatch["kmeans"] < 0.8 * mismatch["uniform"]


def test_spectral_shifting_helps_where_the_spectrum_falls_slowly():
    X, narrow = rows(150), Kernel(bandwidth=0.4)
    K = gram(narrow, X, X)
    shifted = batch.ss_nystrom(narrow, X, 20, landmarks=20)
    plain = batch.nystrom(narrow, X, 20, landmarks=20, choose="leverage").features(narrow, X)
    error = np.linalg.norm(K - shifted.features @ shifted.features.T - shifted.shift * np.eye(len(X)))
    assert 0 < shifted.shift < 1
    assert error < 0.8 * np.linalg.norm(K - plain @ plain.T)


def test_meka_is_exact_with_whole_blocks_and_keeps_the_diagonal_blocks_best():
    X = rows()
    K = gram(KERNEL, X, X)
    Q, S = batch.meka(KERNEL, X, len(X), clusters=3)
    np.testing.assert_allclose(Q @ S @ Q.T, K, atol=1e-9)
    Q, S = batch.meka(KERNEL, X, 5, clusters=4)
    error = np.linalg.norm(K - Q @ S @ Q.T) / len(X)
    assert error < batch.mismatch(KERNEL, X, batch.kpca(KERNEL, X, 5).features(KERNEL, X))


def test_the_same_seed_draws_the_same_landmarks_and_another_seed_others():
    X = rows()
    a, b, c = (batch.nystrom(KERNEL, X, 5, landmarks=9, seed=seed).points for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    with pytest.raises(ValueError, match="choose must be 'uniform', 'kmeans' or 'leverage'; got 'best'"):
        batch.nystrom(KERNEL, X, 5, landmarks=9, choose="best")
