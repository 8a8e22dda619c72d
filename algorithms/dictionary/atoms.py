"""Atoms D = Phi(samples) atom_weights, and H = D'D, which every change of D takes along in O(atoms^2)."""

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Code, fill_row, own_value
from algorithms.common.linalg import dots, norm2
from algorithms.common.protocol import Array

ALIKE = 0.01  # rho^2 of two rows in the kernel's space from which they lie together


@compiled
def inner_products(code: Code, samples: Array, weights: Array, count: int, H: Array) -> None:
    """H = D'D from the samples, O(count^2 (dim + atoms))."""
    atoms = H.shape[0]
    row, product = np.empty(len(samples)), np.empty(atoms)
    H[:atoms, :atoms] = 0.0
    for i in range(count):  # H += w_i (K_i,<i D_<i)' + its transpose + w_i w_i' K_ii
        fill_row(code, samples, i + 1, samples[i], row)
        row[i] *= 0.5
        against(weights, row, i + 1, product)
        rank_two(H, 1.0, weights[i], product)


@compiled
def against(weights: Array, k: Array, count: int, c: Array) -> None:
    """c = D'phi(x) from the kernel row k of x."""
    c[:] = 0.0
    for i in range(count):
        row, value = weights[i], k[i]
        for j in range(c.size):
            c[j] += value * row[j]


@compiled
def rank_two(H: Array, keep: float, a: Array, p: Array) -> None:
    """H = keep H + a p' + p a', symmetric to the bit."""
    for k in range(a.size):
        row, ak, pk = H[k], a[k], p[k]
        for j in range(a.size):
            row[j] = keep * row[j] + (ak * p[j] + pk * a[j])


@compiled
def image(H: Array, a: Array, active: Array, size: int, out: Array) -> None:
    """out = H a for an a that is 0 but at the first `size` indices in `active`."""
    out[:] = 0.0
    for i in range(size):
        row, value = H[active[i]], a[active[i]]
        for j in range(out.size):
            out[j] += value * row[j]


@compiled
def repeat_of(samples: Array, count: int, x: Array) -> int:
    """The stored sample equal to x, -1 where there is none."""
    for i in range(count):
        sample, j = samples[i], 0
        while j < x.size and sample[j] == x[j]:
            j += 1
        if j == x.size:
            return i
    return -1


@compiled
def turn(weights: Array, count: int, keep: float, step: float, a: Array, b: Array, u: Array, v: Array) -> None:
    """weights (keep I + step (a b' + b a')), row by row, as (30); u and v are scratch."""
    dots(weights, count, a, u)
    dots(weights, count, b, v)
    for i in range(count):
        row, along_a, along_b = weights[i], step * v[i], step * u[i]
        for j in range(a.size):
            row[j] = keep * row[j] + (along_a * a[j] + along_b * b[j])


@compiled
def weakest(H: Array) -> int:
    """The shortest atom, the first of equals."""
    least = 0
    for k in range(len(H)):
        if H[k, k] < H[least, least]:
            least = k
    return least


@compiled
def resembles_an_unused_sample(code: Code, samples: Array, weights: Array, count: int, k: Array, kxx: float) -> bool:
    """True when x lies together with a sample that no atom contains: an earlier row that no atom answered to either."""
    for i in range(count):
        if k[i] * k[i] > ALIKE * kxx * own_value(code, samples[i]) and norm2(weights[i]) == 0.0:
            return True
    return False


@compiled
def plant(weights: Array, H: Array, count: int, atom: int, row: int, c: Array, kxx: float) -> None:
    """The atom becomes phi(x) / |phi(x)|, x being the stored sample `row`; c = D'phi(x)."""
    scale = 1.0 / np.sqrt(kxx)
    weights[:count, atom] = 0.0
    weights[row, atom] = scale
    for j in range(c.size):
        H[atom, j] = c[j] * scale
        H[j, atom] = c[j] * scale
    H[atom, atom] = 1.0
