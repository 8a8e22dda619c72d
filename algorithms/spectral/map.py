"""The map of a dictionary, and a sample that asks for a new one: NumPy, a few times in a thousand rows.

Letters: K = gram matrix of the dictionary, V, Lambda = its leading eigenpairs, Psi = Lambda^(-1/2) V' (19). A workspace
holds Psi' with a row per stored sample, and the eigenvalues; a direction that is rounding noise has zeros there and gives 0.

Eigenpairs of K come from scratch, or from those before one more sample came. `rank_one` is the paper's (20)-(29): two
rank-one updates of the whole eigensystem, each a secular equation. As printed it divides by a pole where eigenvalues
coincide or a component vanishes; here such pairs are deflated (Dongarra and Sorensen) and the vectors are those of Gu and
Eisenstat (1994), orthogonal whatever the roots' rounding. `ritz` keeps the leading pairs only: Rayleigh-Ritz on them, the
new sample, and the part of its kernel row they miss.
"""

from typing import Any

import numpy as np

from algorithms.common import rls
from algorithms.common.eigen import symmetric
from algorithms.common.kernels import Kernel, gram
from algorithms.common.protocol import Array
from algorithms.spectral.loop import FAR

WIDER = 1.25  # factor of the novelty threshold
LEFT = 0.8  # share of the budget that widening leaves
SMALLEST = 1e-300  # threshold that widening begins with at least
UNLIKE = 1e300  # larger squared distances do not measure likeness
LOST = 1e-12  # an eigenvalue this small relative to the first is rounding noise
LONGEST = 2.0  # of an eigenvector's numbers: its length is 1, but for rounding

# Where a slot's counts say how many rows which fields hold, in the order of `stored`.
SAMPLES, WAITING, WEIGHTS, PAIRS = slice(0, 3), slice(3, 6), 6, slice(7, 9)
Pairs = tuple[Array, Array]  # eigenvalues (q,), vectors (m, q), a column each

EPSILON = float(np.finfo(float).eps)
MOST_STEPS = 60  # of the root finder; it needs about ten


def gram_of(kernel: Kernel, dictionary: Array) -> Array | None:
    """K, or None where it is out of range."""
    K = gram(kernel, dictionary, dictionary)
    return K if np.abs(K).max() < FAR and K.any() else None


def set_map(fields: Any, slot: int, learner: Any, m: int, values: Array, V: Array) -> None:
    """Psi' and Lambda of the first m samples from eigenpairs."""
    fields.map[slot, :m], fields.spectrum[slot] = map_of(values, V, learner.rank)
    store(fields, slot, learner, values, V)


def store(fields: Any, slot: int, learner: Any, values: Array, V: Array) -> None:
    """Eigenpairs into the state, where the solver goes on from them."""
    kept = learner.moves and learner.solver != "eigh"
    if kept:
        fields.vectors[slot, : V.size] = V.ravel()
        fields.eigenvalues[slot, : values.size] = values
    fields.counts[slot, PAIRS] = (V.size, values.size) if kept else 0


def map_of(values: Array, V: Array, rank: int) -> tuple[Array, Array]:
    spectrum, rows = np.zeros(rank), np.zeros((len(V), rank))
    count = min(rank, int((values > LOST * values[0]).sum()))
    spectrum[:count] = values[:count]
    rows[:, :count] = V[:, :count] / np.sqrt(values[:count])
    return rows, spectrum


def rebuild(fields: Any, slot: int, learner: Any, m: int) -> bool:
    """The eigenpairs and the map of the first m samples of the dictionary from scratch; False where out of range."""
    K = gram_of(learner.kernel, fields.dictionary[slot, :m])
    if K is None:
        return False
    if fields.gram.shape[1]:
        fields.gram[slot, :m, :m] = K
    set_map(fields, slot, learner, m, *leading(K, pairs(learner, m)))
    return True


def restore(fields: Any, slot: int, learner: Any, m: int) -> bool:
    """The map of a loaded state: from its eigenpairs where there are such and they fit, else from scratch."""
    numbers, q = fields.counts[slot, PAIRS].tolist()
    if not learner.moves or learner.solver == "eigh" or q != pairs(learner, m) or numbers != m * q:
        return rebuild(fields, slot, learner, m)
    if fields.gram.shape[1]:
        K = gram_of(learner.kernel, fields.dictionary[slot, :m])
        if K is None:
            return False
        fields.gram[slot, :m, :m] = K
    values, V = fields.eigenvalues[slot, :q].copy(), fields.vectors[slot, :numbers].reshape(m, q).copy()
    if not (np.abs(V) <= LONGEST).all():
        return False
    with np.errstate(all="ignore"):
        set_map(fields, slot, learner, m, values, V)
    return bool(np.isfinite(fields.map[slot, :m]).all())


def pairs(learner: Any, m: int) -> int:
    """How many eigenpairs the solver keeps of m."""
    if learner.moves and learner.solver != "eigh":
        return m if learner.solver == "rank_one" else min(m, learner.ritz_rank or 2 * learner.rank)
    return min(m, int(learner.rank))


def values_on(fields: Any, slot: int, m: int) -> Array:
    """The head's predictions on the dictionary, V sqrt(Lambda) w (38)."""
    with np.errstate(over="ignore", invalid="ignore"):  # weights far out
        values: Array = (fields.map[slot, :m] * fields.spectrum[slot]) @ fields.weights[slot]
    return values


def admit(fields: Any, slot: int, learner: Any, x: Array, z: Array) -> Array | None:
    """x enters the dictionary, others may leave, and the head follows: w' = T w, T = Psi' [V sqrt(Lambda); z'].

    Gives T, or None where it is out of range: then nothing has changed.
    """
    m = int(fields.counts[slot, 0])
    dictionary = np.concatenate([fields.dictionary[slot, :m], x[None]])
    used = np.append(fields.used[slot, :m], fields.seen[slot])
    stays, novelty = np.ones(m + 1, bool), fields.novelty[slot]
    if learner.budget and m >= learner.budget:
        stays, novelty = leave(learner.evict, dictionary, used, learner.budget, novelty)
    before = np.zeros((m + 1, learner.rank))  # the features until now, of the new dictionary
    before[:m] = fields.map[slot, :m] * fields.spectrum[slot]  # V sqrt(Lambda)
    if learner.transfer == "exact":
        before[m] = z
    elif learner.transfer == "nearest":
        before[m] = before[int(np.argmax(used[:m]))]  # the row's nearest was marked just now
    before, dictionary = before[stays], dictionary[stays]

    left, K = len(dictionary), None
    k = gram(learner.kernel, dictionary, x[None])[:, 0] if left > m else None
    if k is None or learner.solver == "eigh" or not k[m] > 0:
        K = gram_of(learner.kernel, dictionary)
        if K is None:
            return None
        values, V = leading(K, pairs(learner, left))
    elif not np.abs(k).max() < FAR:
        return None
    else:
        q = int(fields.counts[slot, PAIRS][1])
        values = fields.eigenvalues[slot, :q]
        V = fields.vectors[slot, : m * q].reshape(m, q)
        if learner.solver == "rank_one":
            values, V = rank_one(values, V, k[:m], k[m])
        else:
            values, V = ritz(fields.gram[slot, :m, :m], values, V, k[:m], k[m], pairs(learner, left))
    rows, spectrum = map_of(values, V, learner.rank)
    T = np.ascontiguousarray(rows.T @ before)
    if not np.isfinite(T).all():
        return None

    fields.dictionary[slot, :left], fields.used[slot, :left] = dictionary, used[stays]
    fields.novelty[slot] = novelty
    fields.counts[slot, SAMPLES] = left
    if fields.gram.shape[1]:
        if K is not None:
            fields.gram[slot, :left, :left] = K
        elif k is not None:
            fields.gram[slot, m, :left] = fields.gram[slot, :left, m] = k
    fields.map[slot, :left], fields.spectrum[slot] = rows, spectrum
    store(fields, slot, learner, values, V)
    fields.weights[slot] = T @ fields.weights[slot]
    if fields.P.shape[1]:
        rls.carry_covariance(T, fields.P[slot], float(learner.delta))
    return T


def leave(evict: str, dictionary: Array, used: Array, budget: int, novelty: float) -> tuple[Array, float]:
    """Mask of the samples that stay, of budget + 1 with the newcomer last; and the novelty threshold."""
    stays = np.ones(len(dictionary), bool)
    if evict == "widen":
        return _thinned(distances2(dictionary), max(1, int(LEFT * budget)), novelty)
    if evict == "lru":
        leaver = int(np.argmin(used[:-1]))
    elif evict == "oldest":
        leaver = 0
    else:
        gaps2 = distances2(dictionary)
        leaver = int(np.argmin(np.where(np.tri(len(gaps2), dtype=bool), np.inf, gaps2))) // len(gaps2)
    stays[leaver] = False
    return stays, novelty


def distances2(rows: Array) -> Array:
    """Squared distances of all pairs, from differences."""
    total = np.zeros((len(rows), len(rows)))
    with np.errstate(over="ignore"):
        for column in rows.T:
            total += np.square(column[:, None] - column)
    return total


def _thinned(gaps2: Array, most: int, novelty: float) -> tuple[Array, float]:
    """Widen the threshold and drop, in stored order, samples too near to an earlier one, until `most` are left."""
    stays = np.ones(len(gaps2), bool)
    pairs = np.tri(len(gaps2), k=-1, dtype=bool)
    while stays.sum() > most:
        between = gaps2[pairs & stays & stays[:, None]]
        closest = float(between.min())  # widening up to the closest pair drops none
        if not closest < UNLIKE:
            break
        if novelty == 0:
            novelty = float(min(between[between > 0].min(initial=1.0), 1.0))
        novelty = max(WIDER * novelty, SMALLEST)
        while novelty <= closest:
            novelty *= WIDER
        for i in np.flatnonzero(stays).tolist():
            stays[i] = not (gaps2[i, :i][stays[:i]] < novelty).any()
    held = np.flatnonzero(stays)
    stays[held[: max(0, len(held) - most)]] = False  # nothing is like anything: the oldest leave
    return stays, novelty


def leading(gram: Array, q: int) -> Pairs:
    """The q leading pairs from scratch."""
    values, vectors = symmetric(gram, len(gram))
    return values[:q].copy(), np.ascontiguousarray(vectors[:, :q])


def ritz(gram: Array, values: Array, V: Array, k: Array, kxx: float, most: int) -> Pairs:
    """At most `most` pairs of the gram matrix with k and kxx behind it, from pairs of the one without."""
    m, q = V.shape
    a = V.T @ k
    u = k - V @ a
    again = V.T @ u  # once more, for the digits the first pass lost
    a, u = a + again, u - V @ again
    beta = float(np.sqrt(u @ u))
    more = q < m and beta > 1e-12 * float(np.sqrt(k @ k))
    size = q + 1 + more
    H = np.zeros((size, size))  # Q'KQ with Q = [V u e], K the larger matrix
    H[:q, :q] = np.diag(values)
    H[-1, :q] = H[:q, -1] = a
    H[-1, -1] = kxx
    if more:
        u = u / beta
        image = gram @ u
        H[q, :q] = H[:q, q] = V.T @ image
        H[q, q] = u @ image
        H[-1, q] = H[q, -1] = beta
    roots, S = symmetric(H, size)
    kept = min(most, size)
    S = S[:, :kept]
    vectors = np.empty((m + 1, kept))
    vectors[:m] = V @ S[:q]
    if more:
        vectors[:m] += np.outer(u, S[q])
    vectors[m] = S[-1]
    return roots[:kept].copy(), with_signs(vectors)


def rank_one(values: Array, V: Array, k: Array, kxx: float) -> Pairs:
    """All m pairs become all m + 1 (Alg. 4); kxx above 0."""
    m = len(values)
    d, larger, kappa = np.append(values, kxx / 4), np.zeros((m + 1, m + 1)), np.append(k, kxx / 2)  # (20), (23)
    larger[:m, :m], larger[m, m] = V, 1.0
    d, larger = _updated(d, larger, 4 / kxx, kappa)
    kappa[m] = kxx / 4  # (21)
    d, larger = _updated(d, larger, -4 / kxx, kappa)
    order = np.argsort(-d, kind="stable")
    return d[order], with_signs(np.ascontiguousarray(larger[:, order]))


def with_signs(vectors: Array) -> Array:
    """The entry of largest size in a column is positive (the first of equals, up to rounding), as in `eigen.symmetric`."""
    sizes = np.abs(vectors)
    peaks = np.argmax(sizes >= sizes.max(axis=0) * (1 - 1e-9), axis=0)
    vectors *= np.where(vectors[peaks, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return vectors


def _updated(d: Array, V: Array, rho: float, kappa: Array) -> Pairs:
    """Eigenpairs of V diag(d) V' + rho kappa kappa'."""
    z = V.T @ kappa
    total = float(z @ z)
    if not total > 0:
        return d, V
    flip = 1.0 if rho > 0 else -1.0  # a negative update is a positive one of the negated matrix
    order = np.argsort(flip * d, kind="stable")
    p, w, V = flip * d[order], z[order] / np.sqrt(total), V[:, order]
    strength = abs(rho) * total
    alive = _deflated(p, w, strength, V)
    if not len(alive):  # all of the update is rounding relative to a far larger eigenvalue
        return flip * p, V
    roots, gaps = _roots(p[alive], w[alive], strength)
    V[:, alive] = V[:, alive] @ _vectors(p[alive], w[alive], strength, gaps)
    p[alive] = roots
    return flip * p, V


def _deflated(p: Array, w: Array, strength: float, V: Array) -> Array:
    """Which pairs take part in the update: those with a component, one of each group of (nearly) equal poles."""
    tolerance = 8 * EPSILON * max(float(np.abs(p).max()), strength)
    alive: list[int] = []
    for j in np.flatnonzero(strength * np.abs(w) > tolerance).tolist():
        if alive:
            i = alive[-1]
            both = float(np.hypot(w[i], w[j]))
            c, s = w[j] / both, -w[i] / both
            if abs((p[j] - p[i]) * c * s) <= tolerance:  # turn the two so that one of them has no component
                w[j], w[i] = both, 0.0
                V[:, i], V[:, j] = c * V[:, i] + s * V[:, j], c * V[:, j] - s * V[:, i]
                p[i], p[j] = p[i] * c * c + p[j] * s * s, p[i] * s * s + p[j] * c * c
                alive.pop()
        alive.append(j)
    return np.array(alive, np.int64)


def _roots(p: Array, w: Array, strength: float) -> Pairs:
    """The roots of 1 + strength sum_j w_j^2 / (p_j - root) (27), one above each pole, and gaps[j, i] = p_j - root_i.

    Each is reckoned from the nearer pole, so that the gaps are exact where they are small. A step is that of a rational
    function with the two poles and the same slopes on either side, or a bisection where that leaves the bracket.
    """
    count = len(p)
    parts, index = (strength * w * w)[:, None], np.arange(count)
    right = np.minimum(index + 1, count - 1)
    above = index[:, None] > index  # pole j lies above root i
    high = 0.5 * (p[right] - p)
    high[-1] = strength * (w @ w) * (1 + 4 * EPSILON * count)
    with np.errstate(all="ignore"):
        middle = 1 + (parts / ((p[:, None] - p) - high)).sum(axis=0)
        second = (middle < 0) & (index < count - 1)  # the root lies in the right half
        origin = np.where(second, p[right], p)
        low, high = np.where(second, -high, 0.0), np.where(second, 0.0, high)
        mu = 0.5 * (low + high)
        for _ in range(MOST_STEPS):
            gaps = (p[:, None] - origin) - mu
            terms = parts / gaps
            f = 1 + terms.sum(axis=0)
            low, high = np.where(f < 0, mu, low), np.where(f < 0, high, mu)
            done = np.abs(f) <= EPSILON * count * (1 + np.abs(terms).sum(axis=0))
            done |= high - low <= 2 * EPSILON * np.maximum(np.abs(low), np.abs(high))
            if done.all():
                break
            slopes = terms / gaps
            slope_above = np.where(above, slopes, 0.0).sum(axis=0)
            slope_below = slopes.sum(axis=0) - slope_above
            left, next_ = gaps[index, index], gaps[right, index]
            s, S = left * left * slope_below, next_ * next_ * slope_above
            c = f - left * slope_below - next_ * slope_above
            A, B = c * (left + next_) + s + S, left * next_ * f
            inside = np.sqrt(np.maximum(A * A - 4 * B * c, 0.0))
            step = np.where(A <= 0, (A - inside) / (2 * c), 2 * B / (A + inside))
            step[-1] = left[-1] + s[-1] / c[-1]
            mu = np.where(done, mu, mu + step)
            mu = np.where(done | ((low < mu) & (mu < high)), mu, 0.5 * (low + high))
    return origin + mu, (p[:, None] - origin) - mu


def _vectors(p: Array, w: Array, strength: float, gaps: Array) -> Array:
    """Column i: the eigenvector of root i, of the matrix with exactly these roots (Gu and Eisenstat)."""
    count = len(p)
    index = np.arange(count)
    # |w_j|^2 = prod_i (root_i - p_j) / prod_{i != j} (p_i - p_j), every root with a pole on its own side of j
    poles = p[np.where(index[None, :] < index[:, None], index[None, :], np.minimum(index[None, :] + 1, count - 1))]
    ratios = -gaps[:, :-1] / (poles[:, :-1] - p[:, None])
    components = np.sqrt(np.abs(ratios.prod(axis=1) * gaps[:, -1] / strength))
    U = np.where(w < 0, -components, components)[:, None] / gaps
    return U / np.sqrt((U * U).sum(axis=0))
