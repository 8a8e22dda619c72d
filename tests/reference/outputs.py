"""Of each learner what its slow reference gives on a short stream, in the form of the learner's own outputs."""

import itertools
from typing import Any

import numpy as np

from algorithms.common.protocol import Array
from algorithms.common.randomness import uniform
from tests.reference import (
    Outputs,
    adaptive,
    blocks,
    controls,
    drift,
    foreseen,
    glr,
    heads,
    maps,
    prototypes,
    ranked,
    scaling,
    selection,
    slow_reference,
    standing,
)
from tests.reference.okfe import PlainOkfe
from tests.reference.okfeb import PlainOkfeb
from tests.reference.okfeb import gaussian as of_two
from tests.reference.prototypes import gaussian
from tests.reference.speed import Filter
from tests.reference.wrkpca import PlainWrkpca

BANDWIDTH = 1.5
KERNEL = {"name": "gaussian", "bandwidth": BANDWIDTH}
SLOW, OF_TWO = gaussian(BANDWIDTH), of_two(BANDWIDTH)


def _predictions(run: tuple[Array, Any, Any] | tuple[Array, Any]) -> Outputs:
    return {"prediction": run[0]}


# Kernel filters.
@slow_reference("klms", kernel=KERNEL, step_size=0.5, budget=8)
def klms(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return _predictions(adaptive.klms(SLOW, X, Y, **settings))


@slow_reference("qklms", kernel=KERNEL, step_size=0.5, quantum=0.1, budget=8)
def qklms(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return _predictions(adaptive.qklms(SLOW, X, Y, **settings))


@slow_reference("knlms", kernel=KERNEL, step_size=0.5, coherence_below=0.9, ridge=0.01, loss="squared")
def knlms(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return _predictions(adaptive.knlms(SLOW, X, Y, **settings))


@slow_reference("krls", kernel=KERNEL, ald_above=0.1, forgetting=0.99, budget=8)
def krls(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return _predictions(adaptive.krls(SLOW, X, Y, **settings))


@slow_reference("exkrls", kernel=KERNEL, transition=0.999, forgetting=0.999, state_noise=1e-3, ridge=0.5)
def exkrls(X: Array, Y: Array, *, kernel: Any, ridge: float, **settings: Any) -> Outputs:
    return _predictions(adaptive.exkrls(SLOW, X, Y, ridge=ridge, **settings))


# Heads.
@slow_reference("lms", step_size=0.1, ridge=0.01)
def lms(X: Array, Y: Array, **settings: Any) -> Outputs:
    return _predictions(heads.lms(X, Y, **settings))


@slow_reference("nlms", step_size=0.5, ridge=0.01)
def nlms(X: Array, Y: Array, **settings: Any) -> Outputs:
    return _predictions(heads.nlms(X, Y, **settings))


@slow_reference("rls", forgetting=0.99, delta=10.0)
def rls(X: Array, Y: Array, **settings: Any) -> Outputs:
    return _predictions(heads.rls(X, Y, **settings))


@slow_reference("exrls", transition=0.999, forgetting=0.99, state_noise=1e-3, ridge=0.5)
def exrls(X: Array, Y: Array, **settings: Any) -> Outputs:
    return _predictions(adaptive.exrls(X, Y, **settings))


@slow_reference("pegasos", ridge=0.1)
def pegasos(X: Array, Y: Array, **settings: Any) -> Outputs:
    return _predictions(heads.pegasos(X, Y, **settings))


@slow_reference("pa", aggressiveness=0.5)
def pa(X: Array, Y: Array, **settings: Any) -> Outputs:
    return _predictions(heads.pa(X, Y, **settings))


@slow_reference("logistic", step_size=0.3, ridge=0.01)
def logistic(X: Array, Y: Array, **settings: Any) -> Outputs:
    return _predictions(heads.logistic(X, Y, **settings))


@slow_reference("gated_rls", delta=10.0, boost=1.0, forgetting=0.99, gate=False, fallback="none")
def gated_rls(X: Array, Y: Array, *, delta: float, forgetting: float, **settings: Any) -> Outputs:
    """Without a population there is nothing to gate: one head learns. tests/learners/test_gated.py has one with."""
    return _predictions(heads.rls(X, Y, forgetting=forgetting, delta=delta))


# Feature maps that stand still, and scaling.
@slow_reference("scaling")
def scaled(X: Array, Y: Array) -> Outputs:
    return {"features": scaling.scaled(X)}


@slow_reference("taylor", kernel=KERNEL, degree=3)
def taylor(X: Array, Y: Array, *, kernel: Any, degree: int) -> Outputs:
    Z, columns = X / BANDWIDTH, []
    for powers in itertools.chain(
        *(itertools.combinations_with_replacement(range(X.shape[1]), g) for g in range(degree + 1))
    ):
        counts = np.bincount(powers, minlength=X.shape[1])
        columns.append(np.exp(-(Z**2).sum(axis=1) / 2) * np.prod(Z**counts, axis=1) * maps.monomial_scale(counts))
    return {"features": np.array(columns).T}


@slow_reference("rff", kernel=KERNEL, features=20, variant="pair", seed=5)
def rff(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return {"features": maps.rff(X, bandwidth=BANDWIDTH, **settings)}


@slow_reference("gauss_quadrature", kernel=KERNEL, features=40, degree=8)
def gauss_quadrature(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return {"features": maps.gauss_quadrature(X, bandwidth=BANDWIDTH, **settings)}


# Prototypes.
@slow_reference("ald", kernel=KERNEL, above=0.1, budget=12, ridge=1e-6)
def ald(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    features, residuals, _ = prototypes.ald(SLOW, X, **settings)
    return {"features": features, "ls_error": residuals}


@slow_reference("random_prototypes", kernel=KERNEL, budget=8, ridge=1e-4)
def random_prototypes(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    places = [int(uniform(0, 1, t) * t) for t in range(1, len(X) + 1)]  # the learner's own draws
    features, residuals, _ = prototypes.reservoir(SLOW, X, places, **settings)
    return {"features": features, "ls_error": residuals}


@slow_reference("online_greedy", kernel=KERNEL, budget=8, min_gain=0.02, regress="nystrom", regress_ridge=0.1)
def online_greedy(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return selection.select(SLOW, X, Y, **settings)[0]


@slow_reference("block_greedy", kernel=KERNEL, budget=9, block_size=3, regress="nystrom", regress_ridge=0.1)
def block_greedy(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return blocks.block_greedy(SLOW, X, Y, **settings)[0]


@slow_reference("generalised_coherence", kernel=KERNEL, budget=6, reference=12, ridge=0.1, min_gain=0.002)
def generalised_coherence(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    places = [int(uniform(0, 1, t) * t) for t in range(1, len(X) + 1)]  # the learner's own draws
    return selection.generalised(SLOW, X, places, **settings)[0]


@slow_reference("sieve_streaming", kernel=KERNEL, budget=6, epsilon=0.5, ridge=1.0)
def sieve_streaming(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return selection.sieves(SLOW, X, **settings)[0]


@slow_reference("stream_greedy", kernel=KERNEL, budget=8, ridge=0.5, stop_after=9, regress="features", regress_ridge=0.1)
def stream_greedy(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return selection.select(SLOW, X, Y, **settings)[0]


@slow_reference("coherence", kernel=KERNEL, budget=12, above=0.8, regress="labels", regress_ridge=0.1)
def coherence(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    return selection.select(SLOW, X, Y, rule="coherence", **settings)[0]


# Subspaces.
@slow_reference("okfe", kernel=KERNEL, rank=3, ridge=0.1, seed_size=8)
def okfe(X: Array, Y: Array, *, kernel: Any, rank: int, ridge: float, seed_size: int) -> Outputs:
    seed = PlainOkfeb(OF_TWO, rank, seed_size, ridge)
    seed.plant(X[:seed_size])
    plain = PlainOkfe(OF_TWO, ridge, list(X[:seed_size]), seed.factor)
    for x in X[seed_size:]:
        plain.step(x)
    return {"ls_error": np.array([np.nan] * seed_size + plain.ls_errors)}


@slow_reference("okfeb", kernel=KERNEL, rank=3, budget=8, ridge=0.1, decay=0.95, censor="off", evict="projected")
def okfeb(X: Array, Y: Array, *, kernel: Any, budget: int, **settings: Any) -> Outputs:
    plain = PlainOkfeb(OF_TWO, budget=budget, update="parametric", **settings)
    plain.plant(X[:budget])
    steps = [plain.step(x) for x in X[budget:]]
    return {"ls_error": np.array([np.nan] * budget + [step["ls_error"] for step in steps])}


@slow_reference("wrkpca", kernel=KERNEL, rank=3, budget=8, ridge=0.01, decay=0.98, floor=0.03, fade=0.7)
def wrkpca(X: Array, Y: Array, *, kernel: Any, **settings: Any) -> Outputs:
    plain = PlainWrkpca(OF_TWO, **settings)
    return {"ls_error": np.array([plain.step(x)[0] for x in X])}


@slow_reference("running_mean", kernel=KERNEL, decay=0.9)
def running_mean(X: Array, Y: Array, *, kernel: Any, decay: float) -> Outputs:
    return {"ls_error": controls.running_mean(SLOW, X, decay=decay)[0]}


@slow_reference("last_points", kernel=KERNEL, rank=4, ridge=0.01)
def last_points(X: Array, Y: Array, *, kernel: Any, rank: int, ridge: float) -> Outputs:
    features, errors = controls.last_points(SLOW, X, rank=rank, ridge=ridge)
    return {"features": features, "ls_error": errors}


# The SPEED family; its reference has the gaussian kernel of bandwidth 1.
def _spectral(X: Array, Y: Array, first: int, **settings: Any) -> Outputs:
    filter = Filter(first=first, **settings)
    rows = [filter.learn(x, y) for x, y in zip(X, Y, strict=True)]
    return {"prediction": np.array([f for f, _ in rows]), "ls_error": np.array([e for _, e in rows])}


@slow_reference("speed", kernel={"bandwidth": 1.0}, rank=5, map_size=30)
def speed(X: Array, Y: Array, *, kernel: Any, rank: int, map_size: int) -> Outputs:
    return _spectral(X, Y, map_size, rank=rank, grows=False)


@slow_reference("sparse_speed", kernel={"bandwidth": 1.0}, rank=5, map_size=30, novelty=0.1, head="rls")
def sparse_speed(X: Array, Y: Array, *, kernel: Any, map_size: int, **settings: Any) -> Outputs:
    return _spectral(X, Y, map_size, grows=False, **settings)


@slow_reference("ispeed", kernel={"bandwidth": 1.0}, rank=5, seed_size=10, budget=20)
def ispeed(X: Array, Y: Array, *, kernel: Any, seed_size: int, **settings: Any) -> Outputs:
    return _spectral(X, Y, seed_size, **settings)


@slow_reference("sispeed", kernel={"bandwidth": 1.0}, rank=5, seed_size=10, budget=20, novelty=0.1, head="rls")
def sispeed(X: Array, Y: Array, *, kernel: Any, seed_size: int, **settings: Any) -> Outputs:
    return _spectral(X, Y, seed_size, **settings)


# Drift detectors.
@slow_reference("page_hinkley", delta=0.03, threshold=0.25, min_between=5)
def page_hinkley(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": drift.page_hinkley(X[:, 0], **settings)}


@slow_reference("adwin", confidence=0.01)
def adwin(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": drift.adwin(X[:, 0], **settings)}


@slow_reference("window_ratio", short=5, long=20, ratio=2.0, floor=0.02)
def window_ratio(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": drift.window_ratio(X[:, 0], **settings)}


@slow_reference("conformal", rows_between=100.0, reference=50, least=10, hold=20)
def conformal(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": ranked.conformal(X[:, 0], **settings)}


@slow_reference("reference_level", rows=60, rows_between=100.0, smoothing=0.1, ends=0.7)
def reference_level(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": standing.reference_level(X[:, 0], **settings)}


@slow_reference("glr_chart", limit=4.0, newest=4, smoothing=0.1, hold=2, tested=0)
def glr_chart(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": glr.glr_chart(X, **settings)}


@slow_reference("reference_chart", rows=60, rows_between=100.0, smoothing=0.1, shrink=0.1, ends=0.7)
def reference_chart(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": standing.reference_chart(X, **settings)}


@slow_reference("column_chart", rows_between=100.0, learn=30, smoothing=0.1, shrink=0.1, reference=50, least=10, hold=20)
def column_chart(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": ranked.column_chart(X, **settings)}


@slow_reference("column_charts", rows_between=50.0, learn=30, smoothing=0.1, shrink=0.1, reference=50, least=10, hold=20)
def column_charts(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": ranked.column_charts(X, **settings)}


@slow_reference("innovations", memory=20)
def innovations(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": foreseen.innovations(X, **settings)}


@slow_reference("row_tail", rows_between=50.0, kept=40, least=25, ends=3, hold=5, narrowest=0.15)
def row_tail(X: Array, Y: Array, **settings: Any) -> Outputs:
    return {"features": foreseen.row_tail(X, **settings)}
