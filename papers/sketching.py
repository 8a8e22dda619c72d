"""What the scripts on the SkeGD paper share: its streams, and mistakes of learners on them, all rounds counted.

Widths are those that reproduce the paper, which does not say its own. Settings of ours were chosen on orders 100 and up;
orders 0 to 19 are reported. A step of a comparator is chosen on order 100, from the paper's grid.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from algorithms import LEARNERS, Learner, learner_from
from algorithms.common.protocol import Array
from tests.data import dataset

SIGMA = {"german": 64.0, "german_scale": 2.83, "svmguide3": 1.0, "spambase": 64.0, "a9a": 8.0, "w7a": 8.0}
BLOCKS = {"german-1": (500, 10), "german-2": (500, 20)}  # k_b, k_r
CHOSEN_ON = 100  # order
STEPS = (0.001, 0.01, 0.1, 1.0)
PRINTED: dict[str, Any] = {"map": "printed", "rebase": "printed", "step_size": 0.5}
Stream = tuple[Array, Array]


def rows_of(name: str) -> Stream:
    data = dataset(name)
    used = data["split"] == 0 if name == "svmguide3" else np.ones(len(data["y"]), bool)
    return np.asarray(data["X"], float)[used], np.where(data["y"][used] > 0, 1.0, -1.0)


def shuffled(name: str, order: int, most: int | None = None) -> Stream:
    """The rows of a set in a random order."""
    X, y = rows_of(name)
    chosen = np.random.default_rng(order).permutation(len(y))[:most]
    return X[chosen], y[chosen]


def adversarial(name: str, order: int) -> Stream:
    """german-1, german-2: blocks of one repeated row, labels turned in every other block."""
    X, y = rows_of("german")
    blocks, length = BLOCKS[name]
    drawn = np.random.default_rng(order).integers(0, len(X), blocks)
    turned = np.where(np.arange(blocks) % 2 == 1, -1.0, 1.0)
    return np.repeat(X[drawn], length, axis=0), np.repeat(y[drawn] * turned, length)


def stream(name: str, order: int) -> Stream:
    return adversarial(name, order) if name in BLOCKS else shuffled(name, order)


def made(name: str, settings: Mapping[str, Any], sigma: float) -> Learner:
    return learner_from(name, {"kernel": {"name": "gaussian", "bandwidth": sigma}, **settings})


def scores(learner: Learner, rows: Stream, seed: int) -> Array:
    """(n,) before each row is learned."""
    X, y = rows
    _, out = learner.run(learner.init(dim=X.shape[1], targets=1, seed=seed), X, y[:, None])
    return np.asarray(out.prediction[:, 0])


def mistakes(learner: Learner, rows: Stream, seed: int) -> tuple[float, float]:
    """Per cent of wrong signs, a score of 0 counted as +1; and the largest |score|."""
    said = scores(learner, rows, seed)
    return float(np.mean((said >= 0) != (rows[1] > 0)) * 100), float(np.abs(said).max())


def over_orders(learner: Learner, name: str, trials: int) -> tuple[list[float], float]:
    """Mistakes on each of the orders 0, 1, .., and the largest |score| of all."""
    found = [mistakes(learner, stream(name, order), order) for order in range(trials)]
    return [wrong for wrong, _ in found], max(top for _, top in found)


def rivals(budget: int) -> dict[str, dict[str, Any]]:
    """The comparators that are here with their settings on a budget; says which are not here."""
    sized = {name: {"budget": budget} for name in ("rbp", "forgetron", "projectron", "projectron_pp", "bpas", "bogd")}
    limited = {name: {"max_terms": budget} for name in ("perceptron", "kogd", "norma")}
    nogd = {"budget": budget, "rank": budget // 10}
    known = limited | sized | {"nogd": nogd, "fogd": {"features": 2 * budget}}
    absent = [name for name in known if name not in LEARNERS]
    if absent:
        print("left out, not among the learners: " + ", ".join(absent), flush=True)
    return {name: settings for name, settings in known.items() if name not in absent}


def tuned(name: str, settings: dict[str, Any], sigma: float, rows: Stream) -> dict[str, Any]:
    """With the step size of the paper's grid that makes the fewest mistakes on these rows, where it has one."""
    if "step_size" not in getattr(LEARNERS[name], "__dataclass_fields__", {}):
        return settings
    tried = [{**settings, "step_size": step} for step in STEPS]
    wrong = [mistakes(made(name, one, sigma), rows, CHOSEN_ON)[0] for one in tried]
    return tried[int(np.argmin(wrong))]
