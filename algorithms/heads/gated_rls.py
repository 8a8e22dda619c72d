"""Gated RLS: a person's own head and the population's, weighted by how often each has been right about the person.

Source: ours. Two recursive least squares heads on one map: one frozen as the population left it, one that goes on learning
the person's labels with the population's P made `boost` times larger, so that a label weighs as `boost` of the population's.
Symbols: P = inverse correlation matrix, lambda = forgetting, delta = start of P.
Cost of a row: O(d targets), of a label O(d^2 + d targets) more.  State: 3 (d + 1) targets + n (n + 1) / 2 + targets + 4
numbers; n = d, one more with the intercept.
With `joint`, where all inputs have the same spread in the population and do not go together there: P of the first `joint`
inputs alone, one variance that all others share, and weights in float32. O(joint^2 + d targets), n = joint + 1; the
constant input keeps the population's weights.
Readings: labels come late and in blocks. Therefore a label is usually equal to the label before, and a head that has just
learned this label would always be right. For this reason the adapted head votes with `held`, its weights at the beginning
of the present run of equal labels. Votes are right answers, discounted by `discount` a label;
the scores are mixed with weights exp(rate votes). A frozen head with only scores of 0 has learned nothing and has no weight.
It has no weight either in a row to which the adapted head gives a class that the population has never learned: it would give
such a row to the class that the row resembles most.
If the person has no label of a class, the adapted head has only learned what the class is not. `unlabelled` is the share
of this that counts, in the votes too.
"""

import math
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from algorithms.common import rls
from algorithms.common.compiled import compiled
from algorithms.common.linalg import distance2, largest, missing, put
from algorithms.common.losses import side
from algorithms.common.protocol import Array, Basis, Outputs, State
from algorithms.common.workspace import packed
from algorithms.heads.covariance_head import CovarianceHead
from algorithms.heads.linear import carry, score

EARLIER = 0.5  # in `latest`, of a class with a label before the last one: neither 0, nor the 1 of that label
FIRST = 0.75  # in place of the 1, while the class has its first run of labels


class GatedRlsState(NamedTuple):
    weights: Array  # (dim, targets) of the adapted head
    bias: Array  # (targets,) weights of the constant input
    frozen: Array  # (dim, targets) the population's; zeros without one
    frozen_bias: Array  # (targets,)
    held: Array  # (dim, targets) the adapted head as the present run of equal labels began
    held_bias: Array  # (targets,)
    P: Array  # (n (n + 1) / 2,) lower triangle by rows; last the constant input, or with `joint` what all others have
    votes: Array  # (2,) discounted right answers of the frozen and of the adapted head
    latest: Array  # (targets,) the last label learned; with `unlabelled` below 1 also EARLIER and FIRST
    labels: int  # labels learned so far
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedRls(CovarianceHead):
    """Least squares classification; adapts to a person while this helps; `features` is the weight of the adapted head.

    Without a population it is `rls`. With one, begin from `from_population`:

    >>> from algorithms import learner_from
    >>> head = GatedRls(delta=1.0)
    >>> others = learner_from("rls", {"delta": 1.0})
    >>> learned, _ = others.run(others.init(dim=1, targets=1, seed=0), [[1.0], [-1.0]], [[1.0], [-1.0]])
    >>> state, out = head.run(head.from_population(learned), [[1.0], [1.0], [-1.0]], [[-1.0], [-1.0], [1.0]])
    >>> out.features.ravel().round(2), out.prediction.ravel().round(2), state.votes
    (array([0.5, 0.5, 0.5]), array([0.67, 0.03, 0.06]), array([0., 1.]))
    """

    kind: ClassVar[str] = "classification"
    carries: ClassVar[bool] = True  # its weights follow a turning basis
    label_taught: ClassVar[bool] = True
    begins_from_population: ClassVar[bool] = True
    falls_back: ClassVar[bool] = True

    forgetting: Annotated[float, "in (0, 1]"] = 1.0  # weight of a row after n more rows is forgetting^n
    delta: Annotated[float, "above 0, at most 1e12"] = 100.0  # above 0; start of P, 1 / ridge
    intercept: bool = False  # a constant input besides the features
    boost: Annotated[float, "above 0, at most 1e6"] = 10.0  # a label of the person weighs as many of the population's
    gate: bool = True  # false: the adapted head alone
    rate: Annotated[float, "0 to 100"] = 0.3  # 0 or more; a right answer more multiplies a head's weight by exp(rate)
    discount: Annotated[float, "in (0, 1]"] = 0.98  # what an answer counts after one more label
    fallback: Literal["last_label", "none"] = "last_label"  # predicted where all scores are 0; none: zeros
    unlabelled: Annotated[float, "0 to 1"] = 1.0  # share of what was learned that counts for classes without a label

    @property
    def width(self) -> int:
        return 1

    def init(self, *, dim: int, targets: int, seed: int) -> GatedRlsState:
        P = packed(self.delta * np.eye(dim + self.intercept))
        one, none = np.zeros((dim, targets)), np.zeros(targets)
        return GatedRlsState(one, none, one.copy(), none.copy(), one.copy(), none.copy(), P, np.zeros(2), none.copy(), 0, 0)

    def from_population(self, population: State, joint: int = 0) -> GatedRlsState:
        """The state a new person starts with; `population` is a state of `rls` or `gated_rls` that learned from others.

        Settings `forgetting`, `delta` and `intercept` of both must agree; a P of another length is refused when used.
        joint: inputs of which P has the covariances; 0, or too many to save anything: all. Others have a mean square of 1.
        """
        dim, targets = population.weights.shape
        start: GatedRlsState = self.init(dim=dim, targets=targets, seed=0)
        small = 0 < joint < dim - 1
        kind = np.float32 if small else np.float64
        return start._replace(
            **{name: population.weights.astype(kind) for name in ("weights", "frozen", "held")},
            **{name: population.bias.astype(kind) for name in ("bias", "frozen_bias", "held_bias")},
            P=packed(self.boost / population.seen * np.eye(joint + 1)) if small else self.boost * population.P,
        )

    def constant(self, state: GatedRlsState) -> tuple[str, ...]:
        return ("frozen", "frozen_bias") if state.weights.dtype == np.float32 else ()

    def squares(self, state: GatedRlsState) -> Mapping[str, int]:
        whole = len(state.weights) + self.intercept
        return {"P": min(whole, (math.isqrt(8 * len(state.P) + 1) - 1) // 2) if state.weights.dtype == np.float32 else whole}

    def adapted_share(self, out: Outputs) -> Array:
        return out.features[:, 0]

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        falls_back = self.fallback == "last_label"
        gating = self.gate, self.rate, self.discount, float(self.unlabelled)
        settings = self.forgetting, self.delta, gating, falls_back
        _loop(tuple(work), slots, X, Y, learn, out, basis, *settings)


Work = cast(Any, namedtuple("Work", (*GatedRlsState._fields, "counts")))  # a workspace's arrays by name


@compiled
def _loop(work, slots, X, Y, learn, out, basis, forgetting, delta, gating, falls_back):
    gate, rate, discount, unlabelled = gating
    at = Work(*work)
    all_weights, all_bias, all_frozen, all_frozen_bias = at.weights, at.bias, at.frozen, at.frozen_bias
    all_held, all_held_bias, all_P, all_votes, all_latest = at.held, at.held_bias, at.P, at.votes, at.latest
    labels, seen = at.labels, at.seen
    size, targets = all_P.shape[1], Y.shape[1]
    z, u, gain, along = np.ones(size), np.empty(size), np.empty(size), np.empty(targets)
    adapted, frozen, held = np.empty(targets), np.empty(targets), np.empty(targets)
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        weights, bias, P, votes, latest = all_weights[key], all_bias[key], all_P[key], all_votes[key], all_latest[key]
        if not missing(x):
            # Predict with both heads, each weighted by its right answers so far.
            score(weights, bias, x, adapted)
            score(all_frozen[key], all_frozen_bias[key], x, frozen)
            cold = frozen[class_of(adapted) % targets] == 0.0  # the population has learned nothing, or not this class
            alone = not gate or cold
            share = 1.0 if alone else 1.0 / (1.0 + np.exp(rate * (votes[0] - votes[1])))
            out.features[n, 0], prediction = share, out.prediction[n]
            for t in range(targets):
                prediction[t] = adapted[t] if alone else frozen[t] + share * (adapted[t] - frozen[t])
                if unlabelled < 1.0 and latest[t] == 0.0 and not cold:
                    prediction[t] = frozen[t] + unlabelled * (prediction[t] - frozen[t])
            if falls_back and labels[key] > 0 and largest(prediction) == 0.0:
                for t in range(targets):
                    prediction[t] = latest[t]
                    if unlabelled < 1.0 and EARLIER <= latest[t] <= FIRST:
                        prediction[t] = 1.0 if latest[t] == FIRST else 0.0
            if not missing(y):
                out.loss[n] = distance2(y, prediction)

            if learn[n] & 2:
                seen[key] += 1
                if not missing(y) and not missing(adapted) and not missing(frozen):
                    # Count right answers; the adapted head's are those before this run of labels began.
                    begins = labels[key] == 0 or class_of(y) != class_of(latest)
                    if begins:
                        _copy(weights, bias, all_held[key], all_held_bias[key])
                    score(all_held[key], all_held_bias[key], x, held)
                    if unlabelled < 1.0 and not cold:
                        _without_labels(held, frozen, latest, begins, unlabelled)
                    votes[0] = discount * votes[0] + _right(frozen, y)
                    votes[1] = discount * votes[1] + _right(held, y)
                    _remember(latest, y, begins, unlabelled)
                    labels[key] += 1

                    # Adapt.
                    if size < x.size:
                        for t in range(targets):
                            along[t] = y[t] - adapted[t]
                        rls.learn_apart(weights, P, x, along, u, forgetting, delta)
                    else:
                        rls.learn(weights, bias, P, x, y, adapted, z, u, gain, along, forgetting, delta)
        if basis.moved.size > 0 and basis.moved[n] != 0 and size >= x.size:  # no map of a population moves
            for turned in (weights, all_frozen[key], all_held[key]):
                carry(basis, n, turned)
            rls.carry_covariance(basis.transfer[n], P, delta)


@compiled
def class_of(scores):
    """The largest target, first on ties; of a single one its sign, -1 as 0 and +1 as 1."""
    if scores.size == 1:
        return 1 if side(scores[0]) > 0.0 else 0
    best = 0
    for t in range(1, scores.size):
        if scores[t] > scores[best]:
            best = t
    return best


@compiled
def _right(scores, y):
    return 1.0 if largest(scores) > 0.0 and class_of(scores) == class_of(y) else 0.0


@compiled
def _new(latest, begins):
    """Whether a class had no label before the present run of labels; `latest` as before the present label."""
    return latest == 0.0 or (latest == FIRST and not begins)


@compiled
def _without_labels(held, frozen, latest, begins, unlabelled):
    """Scores of `held` as they would have been predicted."""
    for t in range(held.size):
        if _new(latest[t], begins):
            held[t] = frozen[t] + unlabelled * (held[t] - frozen[t])


@compiled
def _remember(latest, y, begins, unlabelled):
    for t in range(y.size):
        if unlabelled < 1.0 and y[t] == 0.0 and latest[t] > 0.0:
            latest[t] = EARLIER
        elif unlabelled < 1.0 and y[t] == 1.0 and _new(latest[t], begins):
            latest[t] = FIRST
        else:
            latest[t] = y[t]


@compiled
def _copy(weights, bias, to_weights, to_bias):
    for i in range(len(weights)):
        put(to_weights[i], weights[i])
    put(to_bias, bias)
