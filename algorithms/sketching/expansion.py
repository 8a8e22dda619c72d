"""What the sketching learners share: kernel gradient steps on a buffer, and steps on features.

Several targets are problems side by side on one buffer and one map.
"""

from algorithms.common.compiled import compiled
from algorithms.common.linalg import LARGEST_STEP, largest, norm2, put
from algorithms.common.losses import side, slope
from algorithms.common.protocol import Array

LARGEST_RATE = 1e6  # a step size is below
AGGRESSIVENESS = 10.0  # most a passive-aggressive step takes of the features; those close to 0 ask for any number
FAR = 1e30  # a row with kappa(x, x) not below this teaches nothing: its square and those of sums of it stay in range


def check_rows(name: str, expected: dict[str, int], rows: dict[str, int]) -> None:
    """Raise ValueError at the first field that does not have the expected rows."""
    for field, wanted in expected.items():
        if rows[field] != wanted:
            raise ValueError(f"{name}: expected {wanted} rows of {field} in such a state, got {rows[field]}.")


@compiled
def learn_step(loss: int, features: Array, scores: Array, y: Array, rates: Array, ridge: float, w: Array) -> None:
    """w = (1 - eta ridge) w - eta loss' features for each column of w; rate 0: passive-aggressive, for hinge losses.

    Columns are rates by targets. A step out of range is not taken.
    """
    length2, top = norm2(features), max(1.0, largest(features))
    for c in range(scores.size):
        rate, wanted = rates[c // y.size], y[c % y.size]
        step = slope(loss, scores[c], wanted)
        if rate > 0.0:
            step *= rate
        elif step != 0.0:
            step *= min(AGGRESSIVENESS, (1.0 - side(wanted) * scores[c]) / length2)
        if abs(step) * top < LARGEST_STEP:
            for i in range(features.size):
                w[i, c] = (1.0 - rate * ridge) * w[i, c] + step * features[i]


@compiled
def buffer_step(support: Array, weights: Array, count: int, x: Array, keep: float, along: Array) -> bool:
    """Kernel gradient step: what is stored decays, and x enters unless its loss has no slope; True where it did."""
    for i in range(count):
        for t in range(along.size):
            weights[i, t] *= keep
    if largest(along) == 0.0:
        return False
    put(support[count], x)
    put(weights[count], along)
    return True
