"""Incremental randomized sketches of a kernel matrix, and the feature map they define, once in `refresh_every` rows.

Source: Zhang, Liao, "Incremental randomized sketching for online kernel learning", sections 3 and 4, in its letters.
S_p = the sparse Johnson-Lindenstrauss transform, a row per row of x that entered, with one nonzero sign / sqrt(d) in each of
d blocks of columns, of which the first (s_p mod d) are one wider; S_m = the choice of landmarks; Phi_pp = S_p' K S_p,
Phi_pm = S_p' K S_m. A row enters by rank-one modifications, and leaves by the same ones with the opposite sign.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.eigen import symmetric
from algorithms.common.kernels import Kernel, fill_row, gram, own_value
from algorithms.common.linalg import solve_lower, solve_lower_transposed
from algorithms.common.protocol import Array
from algorithms.common.randomness import uniform

COLUMN, SIGN, LANDMARK = 1, 2, 3  # purposes of the draws
CUT = 1e-10  # singular values of the printed pseudoinverse, and eigenvalues, below this share of the largest count as 0
CUT_SQUARED = 1e-12  # of the squares of singular values; their rounding noise is 1e-15
CUT_PIVOT = 1e-8  # of squared pivots: a matrix closer to a singular one is factored by its eigenvectors
LARGEST = 1e100  # entries of a matrix from here on are out of range


def drawn_row(seed: int, counter: int, sketch_rows: int, blocks: int) -> tuple[list[int], list[int]]:
    """Columns and signs of the nonzeros of one row of S_p, functions of (seed, counter)."""
    columns, signs, start = [], [], 0
    for block in range(blocks):
        width = sketch_rows // blocks + (block < sketch_rows % blocks)
        columns.append(start + int(uniform(seed, COLUMN, counter * blocks + block) * width))
        signs.append(1 if uniform(seed, SIGN, counter * blocks + block) < 0.5 else -1)
        start += width
    return columns, signs


def drawn_landmarks(seed: int, budget: int, landmarks: int) -> list[int]:
    """Distinct positions among the first `budget`, each as likely as another."""
    order = list(range(budget))
    for i in range(landmarks):
        j = i + int(uniform(seed, LANDMARK, i) * (budget - i))
        order[i], order[j] = order[j], order[i]
    return order[:landmarks]


def s_p(columns: Array, signs: Array, sketch_rows: int) -> Array:
    """S_p (n, sketch_rows) from columns and signs of its nonzeros."""
    S = np.zeros((len(columns), sketch_rows))
    S[np.arange(len(columns))[:, None], columns] = signs / columns.shape[1] ** 0.5
    return S


def sketches(kernel: Kernel, entered: Array, S: Array, landmarks: Array) -> tuple[Array, Array]:
    """Phi_pp and Phi_pm from nothing."""
    with np.errstate(over="ignore", invalid="ignore"):
        return S.T @ gram(kernel, entered, entered) @ S, S.T @ gram(kernel, entered, landmarks)


@compiled
def modify(code, x, own_row, others, columns, signs, landmarks, pp, pm, sign):
    """x, with own_row (columns, signs) of S_p, enters (sign 1.0) or leaves (-1.0) the sketches of the other rows.

    The landmarks stay, so that of Phi_pm's three modifications one is left. columns int32, signs int8.
    """
    own_columns, own_signs = own_row
    size, scale = len(pp), 1.0 / np.sqrt(own_columns.size)
    psi = np.empty(max(len(others), len(landmarks)))
    along, own = np.zeros(size), np.zeros(size)  # psi' S_p, and x's row of S_p
    fill_row(code, others, len(others), x, psi)
    for i in range(len(others)):
        for b in range(own_columns.size):
            along[columns[i, b]] += psi[i] * (signs[i, b] * scale)
    for b in range(own_columns.size):
        own[own_columns[b]] += own_signs[b] * scale
    half = 0.5 * own_value(code, x)
    fill_row(code, landmarks, len(landmarks), x, psi)
    for b in range(own_columns.size):
        i = own_columns[b]
        for j in range(size):
            change = sign * own[i] * (along[j] + half * own[j])
            pp[i, j] += change
            pp[j, i] += change
        for j in range(len(landmarks)):
            pm[i, j] += sign * own[i] * psi[j]


def printed_map(pp: Array, pm: Array, rank: int) -> Array | None:
    """Q = pinv(Phi_pm) V Sigma^(1/2), V, Sigma the leading eigenpairs of Phi_pp; None where it is out of range."""
    rows, landmarks = pm.shape
    # Singular values of Phi_pm as eigenvalues of [0, Phi_pm; Phi_pm', 0]: their squares would lose half of the digits.
    both = np.block([[np.zeros((rows, rows)), pm], [pm.T, np.zeros((landmarks, landmarks))]])
    if not in_range(pp, both):
        return None
    values, V = symmetric(pp, rows)
    singular, pairs = symmetric(both, rows + landmarks)
    kept = int((singular[: min(rows, landmarks)] > CUT * singular[0]).sum())
    inverse = 2.0 * (pairs[rows:, :kept] / singular[:kept]) @ pairs[:rows, :kept].T
    Q = inverse @ (V[:, :rank] * np.sqrt(np.maximum(values[:rank], 0.0)))
    return Q if in_range(Q) else None


def augmented_map(pp: Array, pm: Array, own: Array, rank: int) -> Array | None:
    """Q Q' = F = P Phi P', P = pinv([Phi_pm; own]) of rank k, Phi = the sketch by [S_p, S_m], own = K of the landmarks.

    F has rank k with P, so that its own square root is Q. None where it is out of range.
    """
    if not in_range(pp, pm, own):
        return None
    squares, V = symmetric(pm.T @ pm + own.T @ own, len(own))
    kept = min(rank, int((squares > CUT_SQUARED * squares[0]).sum()))
    if kept == 0:
        return None
    V = V[:, :kept] / squares[:kept]
    above, below = pm @ V, own @ V  # P' = [Phi_pm; own] V Sigma^-2 V'
    half = above.T @ (0.5 * (pp @ above) + pm @ below) + 0.5 * (below.T @ own @ below)
    inner = half + half.T
    if not in_range(inner):
        return None
    root = lower_factor(inner)  # any root will do: a turned map has turned weights and the same scores
    if root is None:
        values, turned = symmetric(inner, kept)
        root = turned * np.sqrt(np.maximum(values, 0.0))
    Q = np.zeros((len(own), rank))
    Q[:, :kept] = V * squares[:kept] @ root
    return Q if in_range(Q) else None


def projected(Q: Array, own: Array, on_landmarks: Array) -> Array | None:
    """(Q' K Q)^+ Q' g: weights of the projections, in the RKHS, of functions with the values g (landmarks, n) on landmarks.

    None where they are out of range.
    """
    inner = Q.T @ own @ Q
    if not in_range(inner):
        return None
    root = lower_factor(inner)
    with np.errstate(over="ignore", invalid="ignore"):
        if root is not None:
            w: Array = np.ascontiguousarray((Q.T @ on_landmarks).T)  # a function's in each row
            _solve(root, w)
            w = np.ascontiguousarray(w.T)
        else:
            values, V = symmetric(inner, len(inner))
            kept = int((values > CUT * values[0]).sum())
            w = V[:, :kept] @ ((V[:, :kept].T @ (Q.T @ on_landmarks)) / values[:kept, None])
    return w if in_range(w) else None


@compiled
def _solve(L, rows):
    """(L L')^-1 of each row, in place."""
    for row in rows:
        solve_lower(L, len(L), row)
        solve_lower_transposed(L, len(L), row)


def lower_factor(M: Array) -> Array | None:
    """L with L L' = M, a tenth of the time of its eigenvectors; None unless M is clearly positive definite."""
    try:
        L: Array = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        return None
    pivots = L.diagonal()
    return L if pivots.min() ** 2 > CUT_PIVOT * pivots.max() ** 2 else None


def in_range(*matrices: Array) -> bool:
    """No entry is NaN or so large that what is made of it could overflow."""
    return all(bool(np.abs(M).max(initial=0.0) < LARGEST) for M in matrices)
