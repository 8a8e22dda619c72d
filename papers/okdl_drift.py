"""Beyond the paper: a stream changes, and dictionaries on a budget of 100 rows recover as those that keep all rows (ours).

Two changes: USPS, another digit after 3000 events (the paper's kernel, 20 atoms); and a cloud on a circle that moves on
steadily in 8 dimensions (gaussian kernel, 20 atoms). Cost = f + mu/2 |D|^2, mean over pairs of digits, or draws.
"""

from typing import Any

import numpy as np

from algorithms import learner_from
from algorithms.common.protocol import Array
from papers import pictures, usps
from papers.common import line, options, verdict
from papers.okdl_common import costs, made, smooth

BEFORE, AFTER, ATOMS, BUDGET, MOST = 3000, 1000, 20, 100, 1.1
DIM = 8
FORMS: dict[str, dict[str, Any]] = {
    "all kept": {"budget": 0},
    "projected_grace": {},
    "projected": {"evict": "projected"},
    "norm": {"evict": "norm"},
    "oldest": {"evict": "oldest"},
}


def another_digit(seed: int) -> Array:
    """Images of one digit, then of the next."""
    digits, random = usps.digits(seed), np.random.default_rng(seed)
    first, second = seed % usps.CLASSES, (seed + 1) % usps.CLASSES
    chosen = [random.integers(0, usps.EACH, rows) for rows in (BEFORE, AFTER)]
    return np.concatenate([digits.X[first][chosen[0]], digits.X[second][chosen[1]]])


def moving(seed: int) -> Array:
    """A cloud whose center goes once around a circle of radius 3 in all, with a spread of .7."""
    random = np.random.default_rng(seed)
    turn = np.linspace(0, 2 * np.pi, BEFORE + AFTER)
    X = 0.7 * random.standard_normal((len(turn), DIM))
    X[:, 0] += 3.0 * np.cos(turn)
    X[:, 1] += 3.0 * np.sin(turn)
    return X


def final(X: Array, kernel: dict[str, Any], form: dict[str, Any]) -> Array:
    """The cost, in means of 100 rows."""
    loss, lengths, _, _ = costs(made("okdl", **{"kernel": kernel, "atoms": ATOMS, "budget": BUDGET, **form}), X)
    return smooth(loss + lengths)


def main(arguments: list[str] | None = None) -> int:
    given = options("okdl_drift", __doc__, arguments, trials=4)
    missed = []
    streams = {"another digit": (another_digit, usps.KERNEL), "a moving cloud": (moving, {"name": "gaussian"})}
    for told, (stream, kernel) in streams.items():
        each = {
            name: np.mean([final(stream(seed), kernel, form) for seed in range(given.trials)], axis=0)
            for name, form in FORMS.items()
        }
        ends = {name: float(values[-2:].mean()) for name, values in each.items()}
        for name, end in ends.items():
            ratio = end / ends["all kept"]
            held = ratio <= MOST if name == "projected_grace" else None
            beside = f"<= {MOST} of all kept" if held is not None else ""
            what = f"{told}, {name}"
            missed += line(what, f"{end:.4f}, {ratio:.3f} of all kept", beside, held)
        control = learner_from("random_prototypes", {"kernel": kernel, "budget": BUDGET})
        X = stream(0)
        _, out = control.run(control.init(dim=X.shape[1], targets=0, seed=0), X)
        line(f"{told}, LS error of a reservoir of {BUDGET}", f"{out.ls_error[-200:].mean():.4f}")
        steps = np.arange(100, BEFORE + AFTER + 1, 100)
        name = "003-drift-" + told.split()[-1]
        pictures.curves(given.out, name, f"OKDL: {told}", "events", "f + mu/2 |D|^2", steps, each, marks=[BEFORE])
    verdict("beyond the paper: a budget of 100 rows follows a change within 1000 events", missed)
    return 0
