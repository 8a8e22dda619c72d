"""Incremental randomized sketches of a kernel matrix, and the feature map they define.

Source: Zhang, Liao, "Incremental randomized sketching for online kernel learning", sections 3 and 4, in its letters.
S_p = the sparse Johnson-Lindenstrauss transform, a row per row of x that entered, with one nonzero sign / sqrt(d) in each of
d blocks of columns, of which the first (s_p mod d) are one wider; S_m = the choice of landmarks; Phi_pp = S_p' K S_p,
Phi_pm = S_p' K S_m. A row enters by rank-one modifications, and leaves by the same ones with the opposite sign.
"""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.eigen import symmetric
from algorithms.common.kernels import Code, fill_row, value
from algorithms.common.linalg import largest, missing, put, remove_row
from algorithms.common.protocol import Array
from algorithms.common.randomness import uniform

COLUMN, SIGN, LANDMARK = 1, 2, 3  # purposes of the draws
CUT = 1e-10  # singular values of the printed pseudoinverse, and eigenvalues, below this share of the largest count as 0
LARGEST = 1e100  # entries of a matrix from here on are out of range
CUT_SQUARED = 1e-12  # of the squares of singular values, whose rounding noise is 1e-15


@compiled
def draw_row(seed: int, counter: int, sketch_rows: int, columns: Array, signs: Array) -> None:
    """The nonzeros of one row of S_p, functions of (seed, counter)."""
    d, start = columns.size, 0
    for block in range(d):
        width = sketch_rows // d + (1 if block < sketch_rows % d else 0)
        columns[block] = start + int(uniform(seed, COLUMN, counter * d + block) * width)
        signs[block] = 1 if uniform(seed, SIGN, counter * d + block) < 0.5 else -1
        start += width


@compiled
def draw_landmarks(seed: int, budget: int, slots: Array) -> None:
    """Distinct positions among the first `budget`, each as likely as another."""
    order = np.empty(budget, np.int64)
    for i in range(budget):
        order[i] = i
    for i in range(slots.size):
        j = i + int(uniform(seed, LANDMARK, i) * (budget - i))
        slots[i], order[j] = order[j], order[i]


@compiled
def modify(
    code: Code,
    entered: Array,
    columns: Array,
    signs: Array,
    count: int,
    at: int,
    landmarks: Array,
    sign: float,
    pp: Array,
    pm: Array,
    k: Array,
    along: Array,
) -> None:
    """Row `at` enters (sign 1) or leaves (sign -1) sketches of the first `count` rows; with those that it is not itself."""
    d = columns.shape[1]
    root = np.sqrt(float(d))
    x = entered[at]
    fill_row(code, entered, count, x, k)
    own = k[at] if at < count else value(code, x, x)

    # Phi_pp += R + R' + T with R = s psi' S_p, T = xi s s'.
    for c in range(along.size):
        along[c] = 0.0
    for i in range(count):
        if i != at:
            for block in range(d):
                along[columns[i, block]] += k[i] * signs[i, block] / root
    for block in range(d):
        c, s = columns[at, block], sign * signs[at, block] / root
        for j in range(along.size):
            pp[c, j] += s * along[j]
            pp[j, c] += s * along[j]
        for other in range(d):
            pp[c, columns[at, other]] += s * own * signs[at, other] / root

    # Phi_pm += s psi' S_m; the landmarks stay, so that no other term is left.
    fill_row(code, landmarks, len(landmarks), x, k)
    for block in range(d):
        c, s = columns[at, block], sign * signs[at, block] / root
        for j in range(len(landmarks)):
            pm[c, j] += s * k[j]


@compiled
def sketch_all(code, entered, columns, signs, count, landmarks, pp, pm, k, along):
    """Phi_pp and Phi_pm of the first `count` rows from nothing."""
    for i in range(len(pp)):
        for j in range(len(pp)):
            pp[i, j] = 0.0
        for j in range(len(landmarks)):
            pm[i, j] = 0.0
    for i in range(count):
        modify(code, entered, columns, signs, i, i, landmarks, 1.0, pp, pm, k, along)


@compiled
def let_go(code, entered, columns, signs, count, at, landmarks, pp, pm, k, along):
    """Row `at` of `count` leaves. Where kernel values have no bound what a large one hid would not come back: anew."""
    anew = code[0] == 2.0 or code[0] == 3.0
    if not anew:
        modify(code, entered, columns, signs, count, at, landmarks, -1.0, pp, pm, k, along)
    remove_row(entered, at, count)
    for i in range(at, count - 1):
        put(columns[i], columns[i + 1])
        put(signs[i], signs[i + 1])
    if anew:
        sketch_all(code, entered, columns, signs, count - 1, landmarks, pp, pm, k, along)


@compiled
def printed_map(pp: Array, pm: Array, Q: Array) -> bool:
    """Q = pinv(Phi_pm) V Sigma^(1/2), V, Sigma the leading eigenpairs of Phi_pp; False where it is out of range."""
    rows, landmarks, rank = len(pp), pm.shape[1], Q.shape[1]
    # Singular values of Phi_pm as eigenvalues of [0, Phi_pm; Phi_pm', 0]: their squares would lose half of the digits.
    both = np.zeros((rows + landmarks, rows + landmarks))
    for i in range(rows):
        for j in range(landmarks):
            both[i, rows + j] = pm[i, j]
            both[rows + j, i] = pm[i, j]
    if not in_range(pp) or not in_range(both):
        return False
    values, V = symmetric(pp, rows)
    singular, pairs = symmetric(both, rows + landmarks)
    for j in range(landmarks):
        for c in range(rank):
            Q[j, c] = 0.0
    for e in range(min(rows, landmarks)):
        if not singular[e] > CUT * singular[0]:
            break
        for c in range(rank):
            if values[c] > 0.0:
                along = 0.0
                for i in range(rows):
                    along += pairs[i, e] * V[i, c]
                along *= 2.0 * np.sqrt(values[c]) / singular[e]
                for j in range(landmarks):
                    Q[j, c] += pairs[rows + j, e] * along
    return in_range(Q)


@compiled
def augmented_map(pp: Array, pm: Array, gram: Array, Q: Array) -> bool:
    """Q Q' = F = P Phi P', P = pinv([Phi_pm; K_LL]) of rank k, Phi = the sketch by [S_p, S_m]; False out of range.

    F has rank k with P, so that its own square root is Q.
    """
    rows, landmarks, rank = len(pp), len(gram), Q.shape[1]
    tall = np.empty((rows + landmarks, landmarks))
    for i in range(rows):
        put(tall[i], pm[i])
    for i in range(landmarks):
        put(tall[rows + i], gram[i])
    if not in_range(pp) or not in_range(tall):
        return False
    squares, V = symmetric(np.dot(tall.T, tall), landmarks)
    kept = 0
    while kept < rank and squares[kept] > CUT_SQUARED * squares[0]:
        kept += 1
    if kept == 0:
        return False
    U = np.dot(tall, V)[:, :rank].copy()  # Phi_am V = U Sigma
    whole = np.empty((rows + landmarks, rows + landmarks))
    for i in range(rows):
        put(whole[i], pp[i])
        for j in range(landmarks):
            whole[i, rows + j] = pm[i, j]
            whole[rows + j, i] = pm[i, j]
    for i in range(landmarks):
        for j in range(landmarks):
            whole[rows + i, rows + j] = gram[i, j]
    inner = np.dot(U.T, np.dot(whole, U))
    for i in range(kept):
        for j in range(kept):
            inner[i, j] /= squares[i] * squares[j]
    if not in_range(inner[:kept]):
        return False
    values, turned = symmetric(inner, kept)
    for j in range(landmarks):
        for c in range(rank):
            total = 0.0
            if c < kept and values[c] > 0.0:
                for e in range(kept):
                    total += V[j, e] * turned[e, c]
                total *= np.sqrt(values[c])
            Q[j, c] = total
    return in_range(Q)


@compiled
def project(Q: Array, gram: Array, on_landmarks: Array, w: Array) -> bool:
    """w = (Q' K Q)^+ Q' g, g (landmarks, targets) = a function's values on the landmarks: its projection in the RKHS.

    False and nothing done where that is out of range.
    """
    rank, targets = Q.shape[1], w.shape[1]
    inner = np.dot(Q.T, np.dot(gram, Q))
    if not in_range(inner):
        return False
    values, vectors = symmetric(inner, rank)
    found = np.zeros((rank, targets))
    for e in range(rank):
        if not values[e] > CUT * values[0]:
            break
        for t in range(targets):
            along = 0.0
            for j in range(len(Q)):
                image = 0.0
                for c in range(rank):
                    image += Q[j, c] * vectors[c, e]
                along += image * on_landmarks[j, t]
            along /= values[e]
            for c in range(rank):
                found[c, t] += vectors[c, e] * along
    if not in_range(found):
        return False
    for c in range(rank):
        put(w[c], found[c])
    return True


@compiled
def in_range(M: Array) -> bool:
    """No entry is NaN or so large that what is made of it could overflow."""
    for i in range(len(M)):
        if missing(M[i]) or not largest(M[i]) < LARGEST:
            return False
    return True
