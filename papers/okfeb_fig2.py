"""OK-FE, Fig. 2: LS fit by rank for Gaussian and polynomial kernels on two noisy spheres, as a share of mean kappa(x, x).

`okfe` with mu = 100/n, seeded with 5 r rows, beside the floor of kernel PCA; the constant is for kappa(x, x) = 1 and is
divided by the mean of kappa(x, x) for the polynomials. The paper prints no numbers: curves that fall with r, and an
order of kernels. A polynomial kernel of degree d has binom(3 + d, d) directions; beyond them the fit is what the ridge
leaves, 1e-6.
"""

import math

import numpy as np

from algorithms import learner_from
from algorithms.common.kernels import Kernel, gram
from papers.batch.subspace import ls_fit
from papers.common import options, verdict
from papers.pictures import curves
from papers.spheroids import two_spheres

ROWS, RANKS = 1000, (2, 4, 7, 10, 15, 20)
KERNELS = {
    "Gaussian, gamma 100": Kernel(bandwidth=50**0.5),
    "Gaussian, gamma 10": Kernel(bandwidth=5**0.5),
    "Gaussian, gamma 1": Kernel(bandwidth=0.5**0.5),
    "polynomial, degree 2": Kernel(name="polynomial", degree=2),
    "polynomial, degree 3": Kernel(name="polynomial", degree=3),
}


def fits(kernel: Kernel, X: np.ndarray, ranks: tuple[int, ...] = RANKS) -> tuple[list[float], list[float]]:
    """By rank: okfe's LS fit and kernel PCA's, shares of mean kappa(x, x)."""
    K, ours, floors = gram(kernel, X, X), [], []
    scale, values = np.trace(K) / len(K), np.linalg.eigvalsh(K)
    for rank in ranks:
        settings = {"rank": rank, "kernel": kernel, "step_rule": "over_n", "step_size": 100.0 / scale, "seed_size": 5 * rank}
        learner = learner_from("okfe", settings)
        factor = learner.run(learner.init(dim=3, targets=0, seed=0), X)[0].factor
        ours.append(ls_fit(K, factor) / scale)
        floors.append(float(max(values[:-rank].sum() / np.trace(K), 0.0)))
    return ours, floors


def main(arguments: list[str] | None = None) -> int:
    given = options("okfeb_fig2", __doc__, arguments)
    X, lines, near = two_spheres(0, ROWS), {}, []
    print(f"{'kernel (okfe / kernel PCA)':26}" + "".join(f"{'r ' + str(rank):>20}" for rank in RANKS))
    for name, kernel in KERNELS.items():
        ours, floors = fits(kernel, X)
        lines[name] = ours
        near += [a / b for a, b in zip(ours, floors, strict=True) if b > 1e-5]
        print(f"{name:26}" + "".join(f"{a:10.2e}/{b:9.2e}" for a, b in zip(ours, floors, strict=True)))
    ranks = ", ".join(str(math.comb(3 + degree, degree)) for degree in (2, 3))
    curves(
        given.out,
        "000-fig2",
        "OK-FE, Fig. 2: LS fit, two spheres",
        "rank",
        "LS fit / mean kappa(x, x)",
        RANKS,
        lines,
        log=True,
    )
    share = f"{np.median(near):.2f} times kernel PCA's in the median, {max(near):.2f} at most"
    verdict(f"fits fall with r, {share}; polynomials to 0 at their ranks {ranks}", "nothing (no numbers are printed)")
    return 0
