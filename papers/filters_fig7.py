"""SPEED, Fig. 7: recursive least squares in the kernel's space, on fixed maps and on eigenfunctions, test MSE.

Gaussian kernel of bandwidth 1, maps of 330 features, P starts at 100 I. The paper prints curves without settings or a
table; KRLS has ALD .01 here, Ex-KRLS a budget, and RLS forgetting 1 or .99.
"""

import numpy as np

from papers import pictures
from papers.common import options, verdict
from papers.filters_common import KERNEL, curves, held_against, on_eigenmaps, on_map

STEPS = np.array([50, 100, 200, 300, 400, 600, 800, 1000, 1250, 1500, 1750, 2000])
RLS = {"name": "rls", "delta": 100.0}
EIGENMAPS = {
    "SPEED(50)": ("speed", 50, RLS),
    "SPEED(50), .99": ("speed", 50, {**RLS, "forgetting": 0.99}),
    "sparse SPEED(50)": ("sparse_speed", 50, RLS),
}
TARGETS = {"SPEED(50)": (0.0021, 0.0002), "SPEED(50), .99": (0.0025, 0.0003)}
FILTERS = {
    "RLS": RLS,
    "KRLS, ALD .01": {"name": "krls", "ald_above": 0.01, "kernel": KERNEL, "budget": 0},
    "KRLS, ALD .1": {"name": "krls", "ald_above": 0.1, "kernel": KERNEL, "budget": 0},
    "KRLS, ALD .01, budget 30": {"name": "krls", "ald_above": 0.01, "kernel": KERNEL, "budget": 30},
    "Ex-KRLS, budget 60": {"name": "exkrls", "state_noise": 0.0, "ridge": 0.01, "kernel": KERNEL, "budget": 60},
    "RFF1 pair RLS": lambda seed: on_map("rff", RLS, features=330, variant="pair", seed=seed),
    "GQ RLS": on_map("gauss_quadrature", RLS, features=330),
    "Taylor RLS": on_map("taylor", RLS, degree=4),
    "Taylor RLS .99": on_map("taylor", {**RLS, "forgetting": 0.99}, degree=4),
    "Taylor Ex-RLS": on_map("taylor", {"name": "exrls", "ridge": 0.01, "state_noise": 1e-4}, degree=4),
}


def main(arguments: list[str] | None = None) -> int:
    given = options("filters_fig7", __doc__, arguments, trials=10)
    found = curves(FILTERS, given.trials, STEPS) | on_eigenmaps(EIGENMAPS, given.trials, STEPS)
    missed, last = held_against(TARGETS, found)
    title = f"SPEED, Fig. 7: RLS, {given.trials} trials"
    means = {f"{name} {errors[:, -1].mean():.4f}": errors.mean(axis=0) for name, (errors, _) in found.items()}
    pictures.curves(given.out, "002-fig7", title, "training pairs", "test MSE", STEPS, means, log=True)
    linear, best = last.pop("RLS").mean(), min(last, key=lambda name: last[name].mean())
    most, speed = max(ours.mean() for ours in last.values()), last["SPEED(50)"].mean()
    missed += [] if "SPEED" in best else [f"SPEED ({speed:.4f}) ahead of all, best is {best} ({last[best].mean():.4f})"]
    verdict(f"every kernel or map form ({most:.4f} at most) far below linear RLS ({linear:.4f})", missed)
    return 0
