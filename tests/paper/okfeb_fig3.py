"""OK-FEB, Fig. 3: LS fit to all rows so far on two noisy spheres, by (rank, budget), beside kernel PCA of the same rank.

Gamma 100, ridge 1e-3, nothing censored, both roles. The paper prints no numbers; it shows fits that settle near the batch
solver's and fall with r.
"""

import sys

import numpy as np

from algorithms import learner_from
from algorithms.common.kernels import Kernel, gram
from tests.paper.pictures import curves
from tests.paper.spheroids import two_spheres

KERNEL = Kernel(bandwidth=50**0.5)
PAIRS = ((4, 8), (7, 14), (7, 35), (10, 20))
ENDS = (100, 200, 400, 800, 1500, 3000, 5000)


def fit(role: str, rank: int, budget: int, X: np.ndarray) -> list[float]:
    """Mean LS error of the rows so far with the subspace of then, at every end."""
    settings = {"rank": rank, "budget": budget, "role": role, "censor": "off", "kernel": KERNEL}
    learner = learner_from("okfeb", settings)
    state, begin, found = learner.init(dim=3, targets=0, seed=0), 0, []
    for end in ENDS:
        state, _ = learner.run(state, X[begin:end])
        found.append(float(learner._run(state, X[:end], None, 0)[1].ls_error.mean()))
        begin = end
    return found


def main(arguments: list[str] | None = None) -> int:
    X, lines = two_spheres(0), {}
    values = np.linalg.eigvalsh(gram(KERNEL, X[:1500], X[:1500]))
    print(f"{'role (r, B)':18}" + "".join(f"{n:>10}" for n in ENDS) + "   kernel PCA")
    for rank, budget in PAIRS:
        for role in ("track", "head"):
            found = fit(role, rank, budget, X)
            lines[f"{role} ({rank}, {budget})"] = found
            floor = values[:-rank].sum() / 1500
            print(f"{role + f' ({rank}, {budget})':18}" + "".join(f"{x:10.2e}" for x in found) + f"   {floor:.2e}")
    print(curves(arguments, "000-fig3", "LS fit so far, two spheres", "rows", "LS fit", ENDS, lines, log=True))
    print("reproduces: fits settle and fall with r; a budget of 1.4-2 r stays above the batch floor, as budgets must")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
