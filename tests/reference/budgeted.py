"""The budgeted learners as their papers and the toolboxes print them, one target, plain lists and whole matrices.

Each takes rows and labels -1/+1 (targets, where the loss is squared) and gives the scores before each row was learned, the
rows stored at the end, and their weights. `drawn(n, m)` is which of m leaves at row n.
"""

from collections.abc import Callable

import numpy as np

from algorithms.common.protocol import Array
from algorithms.common.randomness import uniform
from tests.reference import Outputs, slow_reference
from tests.reference.prototypes import gaussian

Kernel = Callable[[Array, Array], Array]  # rows (n, d), (m, d) -> (n, m)
Run = tuple[Array, list[int], Array]


def drawn(seed: int = 0) -> Callable[[int, int], int]:
    """The draws of the learners, whose rows count from 1."""
    return lambda n, m: int(uniform(seed, 1, n + 1) * m)


def slope(loss: str, f: float, y: float) -> float:
    """The derivative of the loss at f."""
    match loss:
        case "hinge":
            return -y if y * f < 1 else 0.0
        case "squared":
            return f - y
        case "mistakes":
            return -y if y * f <= 0 else 0.0
    return float(-y / (1 + np.exp(y * f)))


def descent(
    kernel: Kernel, X: Array, y: Array, *, loss: str, step_size: float = 1.0, ridge: float = 0.0, max_terms: int = 0
) -> Run:
    """kogd, norma; perceptron with the loss `mistakes`."""
    chosen: list[int] = []
    w, said = np.empty(0), np.empty(len(X))
    for n in range(len(X)):
        said[n] = kernel(X[n : n + 1], X[chosen])[0] @ w
        w = (1 - step_size * ridge) * w
        if slope(loss, said[n], y[n]) != 0:
            if max_terms and len(chosen) == max_terms:
                chosen, w = chosen[1:], w[1:]
            chosen, w = [*chosen, n], np.append(w, -step_size * slope(loss, said[n], y[n]))
    return said, chosen, w


def rbp(kernel: Kernel, X: Array, y: Array, *, budget: int, leaves: Callable[[int, int], int]) -> Run:
    chosen: list[int] = []
    w, said = np.empty(0), np.empty(len(X))
    for n in range(len(X)):
        said[n] = kernel(X[n : n + 1], X[chosen])[0] @ w
        if y[n] * said[n] <= 0:
            if len(chosen) == budget:
                leaving = leaves(n, budget)
                chosen, w = chosen[:leaving] + chosen[leaving + 1 :], np.delete(w, leaving)
            chosen, w = [*chosen, n], np.append(w, y[n])
    return said, chosen, w


def bogd(
    kernel: Kernel,
    X: Array,
    y: Array,
    *,
    loss: str,
    budget: int,
    step_size: float,
    ridge: float,
    coefficient_cap: float,
    leaves: Callable[[int, int], int],
) -> Run:
    chosen: list[int] = []
    w, said = np.empty(0), np.empty(len(X))
    for n in range(len(X)):
        said[n] = kernel(X[n : n + 1], X[chosen])[0] @ w
        w = (1 - step_size * ridge) * w
        if slope(loss, said[n], y[n]) != 0:
            if len(chosen) == budget:
                leaving = leaves(n, budget)
                chosen, w = chosen[:leaving] + chosen[leaving + 1 :], np.delete(w, leaving) * budget / (budget - 1)
            chosen, w = [*chosen, n], np.append(w, -step_size * slope(loss, said[n], y[n]))
            w = w * min(1.0, coefficient_cap * step_size / np.abs(w).max())
    return said, chosen, w


def forgetron(kernel: Kernel, X: Array, y: Array, *, budget: int) -> Run:
    """phi by halving: the largest in [0, 1] up to which the damage stays within what is left."""
    chosen: list[int] = []
    w, said = np.empty(0), np.empty(len(X))
    mistakes, spent = 0, 0.0
    for n in range(len(X)):
        said[n] = kernel(X[n : n + 1], X[chosen])[0] @ w
        if y[n] * said[n] > 0:
            continue
        mistakes += 1
        chosen, w = [*chosen, n], np.append(w, y[n])
        if len(chosen) <= budget:
            continue
        sigma, label, left = abs(w[0]), y[chosen[0]], 15 / 32 * mistakes - spent
        mu = label * (kernel(X[chosen[:1]], X[chosen])[0] @ w)

        def damage(phi: float, sigma: float = sigma, mu: float = mu) -> float:
            return float((sigma * phi) ** 2 + 2 * sigma * phi * (1 - phi * mu))

        low, high = 0.0, 1.0
        for _ in range(60 if damage(1.0) > left else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if damage(middle) <= left else (low, middle)
        spent += damage(high)
        chosen, w = chosen[1:], high * w[1:]
    return said, chosen, w


def projectron(kernel: Kernel, X: Array, y: Array, *, budget: int, margins: bool = False) -> Run:
    chosen: list[int] = []
    w, said = np.empty(0), np.empty(len(X))
    caution = 0.25 * np.sqrt((budget + 1) / np.log(budget + 1))
    for n in range(len(X)):
        k = kernel(X[n : n + 1], X[chosen])[0]
        said[n] = k @ w
        lack = 1 - y[n] * said[n]
        if lack <= 0:
            continue
        K = kernel(X[chosen], X[chosen])
        d = np.linalg.solve(K, k) if chosen else k
        delta = kernel(X[n : n + 1], X[n : n + 1])[0, 0] - k @ d
        if lack >= 1 and len(chosen) < budget:
            chosen, w = [*chosen, n], np.append(w, y[n])
        elif lack >= 1:
            w = w + y[n] * d
        elif margins:
            length2 = d @ K @ d
            tau = min(lack / length2, 1.0)
            if tau * (2 * lack - tau * length2 - 2 * caution * np.sqrt(delta)) >= 0:
                w = w + y[n] * tau * d
    return said, chosen, w


def bpas(kernel: Kernel, X: Array, y: Array, *, budget: int, aggressiveness: float) -> Run:
    """Every candidate's objective from whole gram matrices."""
    chosen: list[int] = []
    w, said = np.empty(0), np.empty(len(X))
    for n in range(len(X)):
        k = kernel(X[n : n + 1], X[chosen])[0]
        said[n] = k @ w
        lack = max(0.0, 1 - y[n] * said[n])
        if lack == 0:
            continue
        tau = y[n] * min(aggressiveness, lack)  # kappa(x, x) is 1
        places = [*chosen, n]
        if len(chosen) < budget:
            chosen, w = places, np.append(w, tau)
            continue
        K, costs, after = kernel(X[places], X[places]), [], []
        for i in range(budget):
            new = np.append(w, w[i] * k[i] + tau)
            new[i] = 0.0
            moved = new - np.append(w, 0.0)
            costs.append(0.5 * moved @ K @ moved + aggressiveness * max(0.0, 1 - y[n] * (new @ K[-1])))
            after.append(np.delete(new, i))
        leaving = int(np.argmin(costs))
        chosen, w = chosen[:leaving] + chosen[leaving + 1 :] + [n], after[leaving]
    return said, chosen, w


# What stands for the learners.
KERNEL = {"name": "gaussian", "bandwidth": 1.0}
SLOW = gaussian(1.0)


def _column(run: Run) -> Outputs:
    return {"prediction": run[0][:, None]}


@slow_reference("perceptron", kernel=KERNEL, max_terms=5)
def of_perceptron(X: Array, Y: Array, *, kernel: object, max_terms: int) -> Outputs:
    return _column(descent(SLOW, X, Y[:, 0], loss="mistakes", max_terms=max_terms))


@slow_reference("kogd", kernel=KERNEL, step_size=0.3, ridge=0.1, loss="squared", max_terms=30)
def of_kogd(X: Array, Y: Array, *, kernel: object, **settings: object) -> Outputs:
    return _column(descent(SLOW, X, Y[:, 0], **settings))  # type: ignore[arg-type]


@slow_reference("norma", kernel=KERNEL, step_size=0.5, ridge=0.1, loss="hinge", max_terms=10)
def of_norma(X: Array, Y: Array, *, kernel: object, **settings: object) -> Outputs:
    return _column(descent(SLOW, X, Y[:, 0], **settings))  # type: ignore[arg-type]


@slow_reference("rbp", kernel=KERNEL, budget=5)
def of_rbp(X: Array, Y: Array, *, kernel: object, budget: int) -> Outputs:
    return _column(rbp(SLOW, X, Y[:, 0], budget=budget, leaves=drawn()))


@slow_reference("bogd", kernel=KERNEL, step_size=0.5, ridge=0.1, loss="logistic", budget=8, coefficient_cap=1.5)
def of_bogd(X: Array, Y: Array, *, kernel: object, **settings: object) -> Outputs:
    return _column(bogd(SLOW, X, Y[:, 0], leaves=drawn(), **settings))  # type: ignore[arg-type]


@slow_reference("forgetron", kernel=KERNEL, budget=3)
def of_forgetron(X: Array, Y: Array, *, kernel: object, budget: int) -> Outputs:
    return _column(forgetron(SLOW, X, Y[:, 0], budget=budget))


@slow_reference("projectron", kernel=KERNEL, budget=4)
def of_projectron(X: Array, Y: Array, *, kernel: object, budget: int) -> Outputs:
    return _column(projectron(SLOW, X, Y[:, 0], budget=budget))


@slow_reference("projectron_pp", kernel=KERNEL, budget=4)
def of_projectron_pp(X: Array, Y: Array, *, kernel: object, budget: int) -> Outputs:
    return _column(projectron(SLOW, X, Y[:, 0], budget=budget, margins=True))


@slow_reference("bpas", kernel=KERNEL, budget=5, aggressiveness=0.7)
def of_bpas(X: Array, Y: Array, *, kernel: object, **settings: object) -> Outputs:
    return _column(bpas(SLOW, X, Y[:, 0], **settings))  # type: ignore[arg-type]
