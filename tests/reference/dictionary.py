"""Kernel dictionary learning as the OKDL paper prints it, in plain NumPy: every product is made from the samples again."""

from collections.abc import Callable

import numpy as np

from algorithms.common.protocol import Array
from tests.reference import Outputs, slow_reference
from tests.reference.prototypes import gaussian

Kernel = Callable[[Array, Array], Array]  # rows (n, d), (m, d) -> (n, m)
KERNEL = {"name": "gaussian", "bandwidth": 1.5}


class PlainDictionary:
    """Tables I and II; for the budget see algorithms/dictionary/okdl.py. With targets it is the discriminative form."""

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        *,
        targets: int = 0,
        l1: float = 0.01,
        l2: float = 0.0,
        ridge: float = 0.01,
        nu: float = 0.0,
        step_size: float = 0.1,
        step_decay: float = 1000.0,
        step_freeze: int = 2000,
        budget: int = 0,
        evict: str = "projected_grace",
    ) -> None:
        """The rows of X become the atoms."""
        self.kernel, self.l1, self.l2, self.ridge, self.nu = kernel, l1, l2, ridge, nu
        self.schedule, self.budget, self.evict = (step_size, step_decay, step_freeze), budget, evict
        self.X, self.n = X, len(X)
        self.omega = np.diag(1.0 / np.sqrt(np.diag(kernel(X, X))))
        self.w = np.zeros((len(X), targets))

    def code(self, x: Array) -> tuple[Array, Array, Array, float]:
        """alpha, H = D'D, c = D'phi(x), kappa(x, x): (13), or with l2 (26), sweep after sweep."""
        H = self.omega.T @ self.kernel(self.X, self.X) @ self.omega
        c = self.omega.T @ self.kernel(self.X, x[None])[:, 0]
        alpha = np.zeros(len(c))
        for _ in range(20_000):
            before = alpha.copy()
            for k in range(len(c)):
                pull = c[k] - H[k] @ alpha + H[k, k] * alpha[k]
                alpha[k] = np.sign(pull) * max(abs(pull) - self.l1, 0.0) / (H[k, k] + self.l2)
            if abs(alpha - before).max() < 1e-15:
                break
        return alpha, H, c, float(self.kernel(x[None], x[None])[0, 0])

    def step(self, x: Array, y: Array | None = None) -> tuple[Array, float, float, Array]:
        """Code, LS error, loss (f of (2), or g of (9)) and prediction of x, all before it is learned."""
        alpha, H, c, kxx = self.code(x)
        ls_error = kxx - 2 * alpha @ c + alpha @ H @ alpha
        self.n += 1
        step_size, step_decay, step_freeze = self.schedule
        rho = step_size / (1 + (self.n if step_freeze < 0 else min(self.n, step_freeze)) / step_decay)
        rho = min(rho, 1.5 / max(alpha @ alpha, 1e-300))  # ours: no farther
        eye, prediction = np.eye(len(alpha)), alpha @ self.w
        if y is None:  # (16), (17)
            loss = ls_error / 2 + self.l1 * abs(alpha).sum() + self.l2 / 2 * alpha @ alpha
            turn, row = (1 - self.ridge * rho) * eye - rho * np.outer(alpha, alpha), rho * alpha
        else:  # (27), (30), (31), (34)
            error, active = y - prediction, alpha != 0
            loss = error @ error / 2 + self.nu / 2 * (self.w**2).sum()
            beta = np.zeros(len(alpha))
            inverse = np.linalg.inv(H[np.ix_(active, active)] + self.l2 * np.eye(active.sum()))
            beta[active] = inverse @ (-self.w @ error)[active]
            turn = (1 - self.ridge * rho) * eye + rho * (np.outer(beta, alpha) + np.outer(alpha, beta))
            row = -rho * beta
            self.w = self.w + rho * np.outer(alpha, error) - rho * self.nu * self.w
            if rho * np.linalg.norm(alpha) * np.linalg.norm(beta) > 1:  # ours: w alone
                return alpha, ls_error, loss, prediction
        self.omega = self.omega @ turn
        same = np.flatnonzero((x == self.X).all(axis=1))
        if len(same):
            self.omega[same[0]] += row
        else:
            self.X, self.omega = np.vstack([self.X, x]), np.vstack([self.omega, row])
        if self.budget and len(self.X) > self.budget:
            self.leave()
        return alpha, ls_error, loss, prediction

    def leave(self) -> None:
        """One sample leaves; where the rule projects, the others take over what they span of it."""
        P = np.linalg.inv(self.kernel(self.X, self.X) + 1e-6 * np.eye(len(self.X)))
        sizes = (self.omega**2).sum(axis=1)
        if self.evict.startswith("projected"):
            grace = self.budget // 5 if self.evict == "projected_grace" else 0
            v = int((sizes / np.diag(P))[: len(P) - grace].argmin())
            self.omega = self.omega - np.outer(P[:, v] / P[v, v], self.omega[v])
        else:
            v = 0 if self.evict == "oldest" else int(sizes.argmin())
        self.X, self.omega = np.delete(self.X, v, axis=0), np.delete(self.omega, v, axis=0)


def outputs(X: Array, Y: Array | None, *, atoms: int, kernel: Kernel, **settings: object) -> Outputs:
    """Of a stream whose first rows differ: NaN until they are atoms."""
    plain = PlainDictionary(kernel, X[:atoms], targets=0 if Y is None else Y.shape[1], **settings)  # type: ignore[arg-type]
    rows = [plain.step(x, None if Y is None else Y[atoms + n]) for n, x in enumerate(X[atoms:])]
    given = {"features": 0, "ls_error": 1, "loss": 2} | ({} if Y is None else {"prediction": 3})
    columns = {field: np.array([row[place] for row in rows]) for field, place in given.items()}
    return {field: np.concatenate([np.full((atoms, *got.shape[1:]), np.nan), got]) for field, got in columns.items()}


@slow_reference("okdl", kernel=KERNEL, atoms=4, l1=0.05, budget=12, step_size=0.3)
def okdl(X: Array, Y: Array, *, kernel: object, **settings: int) -> Outputs:
    return outputs(X, None, kernel=gaussian(1.5), **settings)


@slow_reference("okdl_discriminative", kernel=KERNEL, atoms=4, l1=0.05, l2=0.1, nu=0.02, budget=12, step_size=0.3)
def okdl_discriminative(X: Array, Y: Array, *, kernel: object, **settings: int) -> Outputs:
    return outputs(X, Y, kernel=gaussian(1.5), **settings)
