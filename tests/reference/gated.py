"""The gated head in plain NumPy: two heads, one frozen, and the votes that weigh them."""

import numpy as np

from algorithms.common.protocol import Array


def gated(
    X: Array,
    Y: Array,
    W: Array,
    P: Array,
    *,
    boost: float,
    rate: float,
    discount: float,
    forgetting: float,
    unlabelled: float = 1.0,
    joint: int = 0,
) -> tuple[Array, Array, Array, Array]:
    """Rows of one person in the order they are learned, one-hot Y (NaN: only predicted), from the population's W and P.

    joint: P has the covariances of the first inputs alone, and the others one variance in common.
    Gives the predictions made before each row, the adapted head's share in them, its weights and the votes at the end.
    """
    frozen, adapted, held, P = W.copy(), W.copy(), W.copy(), boost * P
    votes, run, counts = np.zeros(2), None, np.full(Y.shape[1], unlabelled)
    predictions, shares = [], []
    for x, y in zip(X, Y, strict=True):
        weight = np.exp(rate * (votes - votes.max()))
        own = (frozen.T @ x)[np.argmax(adapted.T @ x)] == 0  # a class that the population has not learned
        share = 1.0 if own else weight[1] / weight.sum()
        predictions.append(frozen.T @ x + (1.0 if own else counts) * share * (adapted.T @ x - frozen.T @ x))
        shares.append(share)
        if np.isnan(y).any():
            continue
        label = int(np.argmax(y))
        if label != run:  # another activity: what the adapted head would have predictions before it had labels of it
            held, run, before = adapted.copy(), label, counts.copy()
        now = frozen.T @ x + (1.0 if own else before) * (held.T @ x - frozen.T @ x)  # as it would have been predicted
        right = [np.argmax(frozen.T @ x) == label, np.argmax(now) == label]
        counts[label] = 1.0
        votes = discount * votes + np.array(right, float)
        gain = P @ x / (forgetting + x @ P @ x)
        adapted = adapted + np.outer(gain, y - adapted.T @ x)
        P = (P - np.outer(gain, x @ P)) / forgetting
        if joint:
            mean = np.diag(P)[joint:].mean() * np.eye(len(P) - joint)
            P = np.block([[P[:joint, :joint], np.zeros((joint, len(mean)))], [np.zeros((len(mean), joint)), mean]])
    return np.array(predictions), np.array(shares), adapted, votes
