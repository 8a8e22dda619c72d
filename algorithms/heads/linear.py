"""What all linear heads share: the loop, scores, losses, the guarded step, the optional constant input, a change of basis.

`intercept` appends a constant 1 to the features, and the algorithm treats it as one more input.
Its weights are the state's `bias (targets,)`, so that `weights` stays (dim, targets); without intercept it stays as given.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import LARGEST_STEP, distance2, largest, missing, norm2
from algorithms.common.losses import hinge_loss, side
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Learner, Outputs, State

LMS, NLMS, LOGISTIC, PA, PEGASOS = range(5)  # rules


class LinearState(NamedTuple):
    weights: Array  # (dim, targets)
    bias: Array  # (targets,) weights of the constant input
    seen: int  # rows so far


class Rule(NamedTuple):
    """Settings as compiled code reads them."""

    code: int  # LMS, ..
    rate: float  # step size, or the most weight of a row
    ridge: float
    intercept: bool


class LinearHead(Learner, abstract=True):
    """A base, not a learner: weights of the features, which each row moves along x."""

    __slots__ = ()
    carries: ClassVar[bool] = True  # its weights follow a turning basis
    label_taught: ClassVar[bool] = True

    def init(self, *, dim: int, targets: int, seed: int) -> State:
        return LinearState(np.zeros((dim, targets)), np.zeros(targets), 0)

    @property
    def rule(self) -> Rule:
        raise NotImplementedError

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        weights, bias, *steps, seen, _ = work  # only pegasos counts steps
        linear_loop(weights, bias, steps[0] if steps else seen, seen, slots, X, Y, learn, out, basis, self.rule)


@compiled
def linear_loop(all_weights, all_bias, steps, seen, slots, X, Y, learn, out, basis, rule):
    """steps: rows that each key has learned from, which PEGASOS counts."""
    along = np.empty(Y.shape[1])
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        weights, bias, prediction = all_weights[key], all_bias[key], out.prediction[n]

        # Predict with what earlier rows taught.
        if not missing(x):
            score(weights, bias, x, prediction)
            if not missing(y):
                out.loss[n] = _loss(rule.code, prediction, y)

            # Learn.
            if learn[n] & LEARN_HEAD:
                seen[key] += 1
                if not missing(y) and not missing(prediction):
                    if rule.code == PEGASOS:
                        steps[key] += 1
                    keep = _direction(rule, x, y, prediction, steps[key], along)
                    step(weights, bias, x, keep, along, rule.intercept)
        carry(basis, n, weights)


@compiled
def _loss(code, prediction, y):
    if code == LOGISTIC:
        return _log_loss(prediction, y)
    return distance2(y, prediction) if code < LOGISTIC else hinge_loss(prediction, y)


@compiled
def _direction(rule, x, y, prediction, t, along):
    """What each target's weights get of x, in `along`; gives the share of the weights that stays. t: steps of the key."""
    if rule.code == LMS:
        for c in range(y.size):
            along[c] = rule.rate * (y[c] - prediction[c])
        return 1.0 - rule.rate * rule.ridge
    if rule.code == LOGISTIC:
        _slopes(prediction, y, along)
        for c in range(y.size):
            along[c] *= rule.rate
        return 1.0 - rule.rate * rule.ridge
    if rule.code == PEGASOS:
        rate = 1.0 / t
        for c in range(y.size):
            label = side(y[c])
            along[c] = label * rate / rule.ridge if label * (1.0 - rate) * prediction[c] < 1.0 else 0.0
        return 1.0 - rate
    length = length2(x, rule.intercept) if rule.code == PA else rule.ridge + length2(x, rule.intercept)
    for c in range(y.size):
        if rule.code == NLMS:
            along[c] = rule.rate * (y[c] - prediction[c]) / length if length > 0.0 else 0.0
        else:
            label = side(y[c])
            lack = max(0.0, 1.0 - label * prediction[c])
            along[c] = label * min(rule.rate, lack / length) if length > 0.0 else 0.0
    return 1.0


@compiled
def score(weights: Array, bias: Array, x: Array, prediction: Array) -> None:
    """prediction = weights' x + bias."""
    for t in range(prediction.size):
        prediction[t] = bias[t]
    for i in range(x.size):
        for t in range(prediction.size):
            prediction[t] += x[i] * weights[i, t]


@compiled
def length2(x: Array, intercept: bool) -> float:
    """|x|^2, the constant input included."""
    return norm2(x) + 1.0 if intercept else norm2(x)


@compiled
def step(weights: Array, bias: Array, x: Array, keep: float, along: Array, intercept: bool) -> bool:
    """weights = keep weights + x along', and the same for the bias; False and nothing done where that is out of range."""
    if not largest(along) * max(largest(x), 1.0) < LARGEST_STEP:
        return False
    for i in range(x.size):
        for t in range(along.size):
            weights[i, t] = keep * weights[i, t] + x[i] * along[t]
    if intercept:
        for t in range(along.size):
            bias[t] = keep * bias[t] + along[t]
    return True


@compiled
def carry(basis: Basis, n: int, weights: Array) -> None:
    """weights = transfer[n] @ weights, when row n turned the basis."""
    if basis.moved.size == 0 or basis.moved[n] == 0:
        return
    transfer = basis.transfer[n]
    turned = np.zeros(weights.shape)
    for i in range(weights.shape[0]):
        for j in range(weights.shape[0]):
            factor = transfer[i, j]
            for t in range(weights.shape[1]):
                turned[i, t] += factor * weights[j, t]
    for i in range(weights.shape[0]):
        for t in range(weights.shape[1]):
            weights[i, t] = turned[i, t]


@compiled
def _softplus(s):
    """log(1 + exp(s)) without overflow."""
    return max(s, 0.0) + np.log1p(np.exp(-abs(s)))


@compiled
def _first_largest(a):
    best = 0
    for t in range(1, a.size):
        if a[t] > a[best]:
            best = t
    return best


@compiled
def _log_loss(prediction, y):
    """-log of the chance given to the true class."""
    if y.size == 1:
        return _softplus(-prediction[0] if y[0] > 0.0 else prediction[0])
    top = prediction[_first_largest(prediction)]
    total = 0.0
    for t in range(y.size):
        total += np.exp(prediction[t] - top)
    return np.log(total) + top - prediction[_first_largest(y)]


@compiled
def _slopes(prediction, y, along):
    """along = (class as one-hot) - chances: where the log loss falls."""
    if y.size == 1:
        chance = np.exp(-_softplus(-prediction[0]))
        along[0] = (1.0 if y[0] > 0.0 else 0.0) - chance
        return
    top = prediction[_first_largest(prediction)]
    total = 0.0
    for t in range(y.size):
        along[t] = np.exp(prediction[t] - top)
        total += along[t]
    for t in range(y.size):
        along[t] = -along[t] / total
    along[_first_largest(y)] += 1.0
