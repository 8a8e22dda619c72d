"""Which learners with which settings are checked.

Every registered learner is checked with its default settings, where it has defaults for all, and with each entry
here. A learner that needs settings and has no entry is a failure of `test_every_registered_learner_is_checked`.
Small settings, so that budgets fill, windows turn over and seeds are done within a short stream.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from algorithms import LEARNERS, learner_from
from algorithms.drift.report import watches_columns
from streamjobs.learner_checks.case import Case

Settings = dict[str, Any]
LAPLACIAN = {"name": "laplacian", "bandwidth": 2.0}
POLYNOMIAL = {"name": "polynomial", "degree": 2, "offset": 1.0}
AUTO = {"bandwidth": "auto", "bandwidth_rows": 4}
OKFEB = {"name": "okfeb", "rank": 6, "budget": 10, "role": "head"}
SKEGD = {"budget": 12, "rows": 15, "landmarks": 6, "rank": 4, "refresh_every": 5}
SISPEED = {"rank": 4, "seed_size": 8, "budget": 12, "novelty": 0.2}


@dataclass(frozen=True)
class Example:
    settings: Settings = field(default_factory=dict)
    dim: int = 3
    targets: int = 1
    labels: str = "signs"


EXAMPLES: dict[str, list[Example]] = {
    "adwin": [Example({"confidence": 0.01}), Example({"confidence": 0.1, "min_rows": 20, "standardise": True})],
    "ald": [Example({"budget": 6}), Example({"above": 0.3, "budget": 40, "ridge": 1e-9, "kernel": LAPLACIAN})],
    "block_greedy": [
        Example({"budget": 12, "block_size": 3, "regress": "nystrom"}, targets=2),
        Example({"budget": 8, "block_size": 3, "recluster": False, "kernel": LAPLACIAN}),
        Example({"budget": 12, "block_size": 4, "neighbours": "nearest", "regress": "features", "kernel": POLYNOMIAL}),
        Example({"budget": 10, "block_size": 2, "regress": "labels", "gain_rule": "relative", "min_gain": 0.001}),
    ],
    "auto_bandwidth": [
        Example({"rows": 4, "learner": {"name": "okfeb", "rank": 3, "budget": 6, "role": "track"}}),
        Example({"rows": 15, "learner": {"name": "qklms", "budget": 8, "quantum": 0.1}}, targets=2),
        Example(
            {"rows": 12, "learner": {"name": "knlms", "loss": "hinge", "budget": 8, "kernel": {"name": "laplacian"}}},
            targets=3,
        ),
        Example(
            {"rows": 12, "learner": {"name": "one_vs_rest", "learner": {"name": "knlms", "loss": "hinge", "budget": 8}}},
            targets=3,
        ),
        Example({"rows": 10, "learner": {"name": "sparse_speed", "rank": 8, "map_size": 12, "head": "rls", "delta": 0.1}}),
    ],
    "bogd": [
        Example({"budget": 30, "step_size": 0.5}, targets=3, labels="onehot"),
        Example({"budget": 40, "step_size": 0.5, "loss": "logistic"}),
        Example({"budget": 60, "step_size": 0.1, "loss": "squared"}),
    ],
    "bpas": [Example({"budget": 12}, targets=3), Example({"budget": 8, "kernel": POLYNOMIAL})],
    "chain": [
        Example({"extractor": {"name": "scaling"}, "head": {"name": "rls", "intercept": True}}, targets=2),
        Example({"extractor": OKFEB, "head": {"name": "lms", "step_size": 0.3}}),
        Example({"extractor": {**OKFEB, "role": "track"}, "head": {"name": "rls"}}, targets=2),
        Example({"extractor": OKFEB, "head": {"name": "logistic"}}, targets=3, labels="onehot"),
        Example({"extractor": {"name": "ald", "budget": 20}, "head": {"name": "rls"}}, targets=2),
        Example({"extractor": {"name": "random_prototypes", "budget": 8}, "head": {"name": "rls"}}, targets=2),
        Example({"extractor": {"name": "online_greedy", "budget": 8}, "head": {"name": "rls"}}, targets=2),
        Example({"extractor": {"name": "block_greedy", "budget": 9, "block_size": 3}, "head": {"name": "rls"}}, targets=2),
        Example({"extractor": {**OKFEB, "role": "track"}, "head": {"name": "exrls"}}),
        Example({"extractor": {"name": "sispeed", **SISPEED}, "head": {"name": "rls"}}),
        Example({"extractor": {**OKFEB, "role": "track", "kernel": AUTO}, "head": {"name": "rls"}}, targets=2),
    ],
    "column_chart": [Example({"learn": 20, "least": 5, "reference": 30, "rows_between": 300.0, "hold": 20}, dim=4)],
    "column_charts": [Example({"learn": 20, "least": 5, "reference": 30, "rows_between": 300.0, "hold": 20}, dim=4)],
    "conformal": [
        Example({"rows_between": 300.0, "reference": 40, "least": 5, "hold": 0}),
        Example({"rows_between": 300.0, "reference": 40, "least": 5, "hold": 10}),
    ],
    "coherence": [
        Example({"budget": 20, "above": 0.7, "regress": "labels"}, targets=2),
        Example({"budget": 6, "kernel": POLYNOMIAL}),
    ],
    "exkrls": [Example({"budget": 8, "transition": 0.9999, "forgetting": 0.99}, targets=2)],
    "exrls": [Example({"transition": 0.9999, "forgetting": 0.98, "intercept": True}, targets=2)],
    "fogd": [
        Example({"features": 40, "loss": "logistic", "step_size": 0.02}, targets=3, labels="onehot"),
        Example({"features": 50, "loss": "squared", "step_size": 0.01, "ridge": 0.01}, targets=2),
    ],
    "forgetron": [Example({"budget": 15}), Example({"budget": 40}, targets=3)],
    "gated_rls": [
        Example({"intercept": True, "forgetting": 0.98}, targets=3, labels="onehot"),
        Example({"gate": False, "fallback": "none"}, targets=3),
    ],
    "gauss_quadrature": [Example({"features": 40})],
    "glr_chart": [Example(dim=4), Example({"limit": 0.3, "tested": 2, "newest": 3, "hold": 0}, dim=5)],
    "innovations": [Example({"memory": 20})],
    "ispeed": [
        Example({"rank": 8, "seed_size": 4, "budget": 16, "order": "lms_first", "step_size": 0.5}, targets=2),
        Example({"rank": 8, "seed_size": 4, "budget": 16, "solver": "rank_one", "head": "rls", "delta": 1.0}),
    ],
    "klms": [Example({"budget": 8, "step_size": 0.5}, targets=2)],
    "generalised_coherence": [
        Example({"budget": 6, "reference": 15}),
        Example({"budget": 8, "reference": 10, "ridge": 0.1, "min_gain": 0.01, "kernel": POLYNOMIAL}),
    ],
    "knlms": [
        Example({"budget": 8, "loss": "hinge"}, targets=3),
        Example({"budget": 30, "coherence_below": 0.9, "kernel": POLYNOMIAL}),
    ],
    "kogd": [
        Example({"max_terms": 40, "step_size": 0.5}, targets=3, labels="onehot"),
        Example({"max_terms": 60, "step_size": 0.5, "loss": "squared"}, targets=2),
        Example({"max_terms": 60, "step_size": 0.5, "loss": "logistic"}),
    ],
    "krls": [Example({"budget": 8, "forgetting": 0.98}, targets=2), Example({"budget": 40, "ald_above": 0.1})],
    "lms": [Example({"step_size": 0.05, "ridge": 0.01}, targets=2)],
    "logistic": [Example(targets=3, labels="onehot")],
    "nlms": [Example(targets=2)],
    "nogd": [
        Example({"budget": 12, "rank": 6, "loss": "squared", "kernel": LAPLACIAN}, targets=2),
        Example({"budget": 12, "rank": 8}, targets=3),
        Example({"budget": 20, "loss": "logistic", "ridge": 0.01, "kernel": POLYNOMIAL}),
    ],
    "norma": [Example({"max_terms": 30, "step_size": 0.5}), Example({"max_terms": 40, "kernel": LAPLACIAN}, targets=2)],
    "okfe": [
        Example({"rank": 3, "step_rule": "over_n", "step_size": 10.0, "seed_size": 6, "seed_factor": "random"}),
        Example({"rank": 3, "update": "nonparametric", "recede": True, "kernel": POLYNOMIAL}),
    ],
    "okfeb": [
        Example({"rank": 3, "budget": 6, "role": "head"}),
        Example({"rank": 3, "budget": 6, "role": "track", "evict": "redundancy", "seed_size": 4}),
        Example({"rank": 3, "budget": 6, "evict": "oldest", "seed_factor": "random", "ridge": 0.01}),
        Example({"rank": 3, "budget": 6, "evict": "min_distortion", "decay_on": "eviction", "censor_window": 5}),
        Example({"rank": 3, "budget": 6, "role": "head", "coordinates": "support", "kernel": LAPLACIAN}),
        Example({"rank": 3, "budget": 6, "step_rule": "over_n", "recede": True, "kernel": POLYNOMIAL}),
    ],
    "okdl": [
        Example({"atoms": 4, "budget": 8}),
        Example({"atoms": 5, "budget": 9, "evict": "norm", "l2": 0.01, "kernel": POLYNOMIAL}),
        Example({"atoms": 6, "budget": 16, "evict": "oldest", "step_size": 0.3, "kernel": LAPLACIAN}),
        Example({"atoms": 3, "budget": 0, "step_freeze": -1}),
    ],
    "okdl_discriminative": [
        Example({"atoms": 8, "budget": 12, "step_size": 0.5}, targets=2),
        Example({"atoms": 6, "budget": 10, "evict": "projected", "step_size": 0.5, "kernel": LAPLACIAN}),
    ],
    "online_greedy": [
        Example({"budget": 10, "regress": "nystrom"}, targets=2),
        Example({"budget": 6, "gain_rule": "relative", "min_gain": 0.001, "kernel": LAPLACIAN}),
        Example({"budget": 10, "regress": "features", "ridge": 0.1, "regress_ridge": 0.1}),
        Example({"budget": 10, "regress": "labels", "kernel": POLYNOMIAL, "regress_ridge": 0.001}),
    ],
    "one_vs_rest": [
        Example({"learner": {"name": "logistic"}}, targets=3, labels="onehot"),
        Example({"classes": 3, "learner": {"name": "knlms", "loss": "hinge", "budget": 8}}, targets=3),
        Example({"learner": {"name": "projectron", "budget": 8}}, targets=2),
    ],
    "pa": [Example(targets=3)],
    "pegasos": [Example(targets=3)],
    "perceptron": [Example({"max_terms": 20}), Example(targets=3)],
    "projectron": [Example({"budget": 8}), Example({"budget": 12, "kernel": POLYNOMIAL}, targets=3)],
    "projectron_pp": [Example({"budget": 8}), Example({"budget": 15}, targets=3)],
    "pros_n_kons": [
        Example({"budget": 8, "ridge": 0.1, "kernel": LAPLACIAN}, targets=3),
        Example({"budget": 10, "loss": "squared", "curvature": 0.01, "ridge": 0.1}, targets=2),
    ],
    "qklms": [Example({"budget": 8, "quantum": 0.5}, targets=2)],
    "random_prototypes": [Example({"budget": 6}), Example({"budget": 5, "kernel": POLYNOMIAL})],
    "rbp": [Example({"budget": 20}), Example({"budget": 40}, targets=3)],
    "rff": [Example({"features": 33, "variant": "phase"})],
    "reference_chart": [Example({"rows": 110}, dim=4)],
    "reference_level": [Example({"rows": 60})],
    "rls": [Example({"forgetting": 0.98, "intercept": True}, targets=2)],
    "row_tail": [Example({"rows_between": 1e5, "kept": 100, "least": 30, "ends": 3, "hold": 5}, dim=4)],
    "running_mean": [Example({"decay": 0.98, "kernel": LAPLACIAN}), Example({"kernel": POLYNOMIAL})],
    "scaling": [Example({"unit_norm": True, "clip": 2.0}), Example({"freeze_after": 20})],
    "sieve_streaming": [
        Example({"budget": 6, "epsilon": 0.5}),
        Example({"budget": 8, "epsilon": 1.0, "kernel": POLYNOMIAL}),
    ],
    "sispeed": [
        Example(
            {**SISPEED, "rank": 8, "seed_size": 4, "budget": 16, "solver": "ritz", "head": "rls", "delta": 1.0}, targets=2
        ),
        Example({**SISPEED, "evict": "widen", "transfer": "nearest", "order": "lms_first", "kernel": LAPLACIAN}),
        Example({**SISPEED, "rank": 9, "seed_size": 3, "evict": "close_pair", "head": "exrls", "kernel": POLYNOMIAL}),
        Example({**SISPEED, "evict": "oldest", "head": "none", "solver": "rank_one"}),
        Example({**SISPEED, "evict": "stop", "transfer": "truncate"}),
    ],
    "skegd": [
        Example({**SKEGD, "kernel": LAPLACIAN}, targets=3),
        Example({**SKEGD, "map": "printed", "rebase": "printed", "step_size": 0.5, "refresh_every": 40}),
        Example({**SKEGD, "rows": 0, "refresh_every": 1, "kernel": POLYNOMIAL}),
    ],
    "sparse_speed": [Example({"rank": 8, "map_size": 12, "head": "rls", "delta": 0.1}, targets=2)],
    "speed": [
        Example({"rank": 4, "map_size": 10}),
        Example({"rank": 12, "map_size": 12, "head": "exrls", "state_noise": 0.001}, targets=2),
    ],
    "stream_greedy": [Example({"budget": 10, "stop_after": 30, "regress": "nystrom", "on_swap": "reset"})],
    "taylor": [Example({"degree": 3})],
    "window_ratio": [Example({"short": 5, "long": 20}), Example({"short": 5, "long": 20, "standardise": True})],
    "wrkpca": [
        Example({"rank": 3, "budget": 6}),
        Example({"rank": 3, "budget": 5, "floor": 1.0, "censor": "moving_average", "kernel": LAPLACIAN}),
        Example({"rank": 3, "budget": 8, "decay": 0.9, "fade": 0.0, "kernel": POLYNOMIAL}),
    ],
}
WITH_DEFAULTS: dict[str, Example] = {}  # how the default settings are checked, where not as Example() says


def cases() -> list[Case]:
    """Every case; a learner without any gives none, which its test notices."""
    every = []
    for name in LEARNERS:
        every += [_case(name, example) for example in examples(name)]
    return every


def examples(name: str) -> list[Example]:
    needed = [
        setting.name
        for setting in dataclasses.fields(LEARNERS[name])  # type: ignore[arg-type]
        if setting.default is dataclasses.MISSING and setting.default_factory is dataclasses.MISSING
    ]
    default = [] if needed else [WITH_DEFAULTS.get(name, Example())]
    return default + EXAMPLES.get(name, [])


def _case(name: str, example: Example) -> Case:
    learner = learner_from(name, example.settings)
    dim, targets = example.dim, example.targets
    if learner.kind == "drift":
        dim, targets = example.dim if watches_columns(learner) else 1, 0
    return Case(name, learner, example.settings, dim, targets, example.labels)
