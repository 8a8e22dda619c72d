"""Kernel matrices approximated from a stream's rows: the incremental Nystroem approach and the incremental sketch.

Source: Zhang, Liao, "Incremental randomized sketching for online kernel learning", section 6.2 and Table 2: INys (from Lu
et al. 2016) and IRS, the sketch of section 3 with the map of (4).
Both look at the rows of X (n, dim) in order, keep what fits the budget, and give features (n, k) with products that stand
for the kernel: K ~ features features'. Deterministic in `seed`.
"""

import numpy as np

from algorithms.common.kernels import Kernel, gram
from algorithms.common.protocol import Array, SettingError
from algorithms.sketching.sketch import (
    augmented_map,
    drawn_landmarks,
    drawn_row,
    modify,
    printed_map,
    s_p,
    sketches,
)
from papers.batch.subspace import whitened


def incremental_nystrom(kernel: Kernel, X: Array, *, rank: int, landmarks: int) -> Array:
    """Nystroem features (n, rank) on the first `landmarks` rows: Lambda^(-1/2) V' k, of the leading eigenpairs.

    Raises SettingError unless 1 <= rank <= landmarks <= rows.

    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> Z = incremental_nystrom(Kernel(bandwidth=1.0), X, rank=20, landmarks=30)
    >>> Z.shape, relative_error(Kernel(bandwidth=1.0), X, Z) < 0.1
    ((50, 20), True)
    """
    X = np.ascontiguousarray(X, float)
    _check("incremental_nystrom", rank=(rank, landmarks), landmarks=(landmarks, len(X)))
    first = X[:landmarks]
    features: Array = gram(kernel, X, first) @ whitened(gram(kernel, first, first), rank)
    return features


def sketched_kernel(
    kernel: Kernel,
    X: Array,
    *,
    rank: int,
    budget: int = 100,
    sketch_rows: int = 75,
    landmarks: int = 50,
    sketch_blocks: int = 4,
    refresh_every: int = 0,
    map: str = "augmented",
    seed: int = 0,
) -> Array:
    """Features (n, rank) of the incremental sketch: built from the first `budget` rows, then every refresh_every-th enters.

    `landmarks` of the first rows are drawn without replacement; refresh_every 0: no later row enters. map "printed" is the
    paper's Q, "augmented" that of `skegd`. Raises SettingError for sizes that do not fit, ArithmeticError where the map is
    out of range.

    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> Z = sketched_kernel(Kernel(bandwidth=1.0), X, rank=20, refresh_every=10)
    >>> Z.shape, relative_error(Kernel(bandwidth=1.0), X, Z) < 0.1
    ((200, 20), True)
    """
    X = np.ascontiguousarray(X, float)
    most = landmarks if map == "augmented" else min(landmarks, sketch_rows)
    sizes = {"budget": (budget, len(X)), "landmarks": (landmarks, budget), "sketch_blocks": (sketch_blocks, sketch_rows)}
    _check("sketched_kernel", rank=(rank, most), **sizes)
    if map not in ("augmented", "printed"):
        raise SettingError(f"sketched_kernel: map must be 'augmented' or 'printed'; got {map!r}.")
    later = [] if refresh_every < 1 else list(range(budget + refresh_every - 1, len(X), refresh_every))
    rows = [drawn_row(seed, i, sketch_rows, sketch_blocks) for i in (*range(budget), *later)]
    columns, signs = np.array([row[0] for row in rows], np.int32), np.array([row[1] for row in rows], np.int8)
    S = s_p(columns[:budget], signs[:budget], sketch_rows)
    entered, chosen = X[[*range(budget), *later]], X[drawn_landmarks(seed, budget, landmarks)]
    own = gram(kernel, chosen, chosen)
    pp, pm = sketches(kernel, entered[:budget], S, chosen)
    for i in range(budget, len(entered)):
        modify(kernel.code, entered[i], (columns[i], signs[i]), entered[:i], columns[:i], signs[:i], chosen, pp, pm, 1.0)
    Q = printed_map(pp, pm, rank) if map == "printed" else augmented_map(pp, pm, own, rank)
    if Q is None:
        raise ArithmeticError("sketched_kernel: the kernel values of these rows are out of range; scale the rows.")
    features: Array = gram(kernel, X, chosen) @ Q
    return features


def relative_error(kernel: Kernel, X: Array, features: Array) -> float:
    """|features features' - K|^2 / |K|^2 in the Frobenius norm, as in Table 2; needs the whole kernel matrix.

    >>> relative_error(Kernel(name="linear"), np.eye(2), np.array([[1.0], [0.0]]))
    0.5
    """
    K = gram(kernel, X, X)
    return float(((features @ features.T - K) ** 2).sum() / (K**2).sum())


def _check(owner: str, **sizes: tuple[int, int]) -> None:
    for name, (size, most) in sizes.items():
        if not 1 <= size <= most:
            raise SettingError(f"{owner}: {name} must be 1 to {most}; got {size}.")
