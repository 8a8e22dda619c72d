"""OKDL's figures in short: fewer events than the scripts okdl_*.py take, the bounds are the targets'."""

import numpy as np

from papers import okdl_drift, usps
from papers.okdl_common import costs, made


def test_fig_1_the_cost_of_digit_0_falls_to_the_papers_level():
    X = usps.digits(0).X[0][usps.passes(usps.EACH, 5000, 0)]
    loss, lengths, _, _ = costs(made("okdl", atoms=50, budget=0), X)
    cost = loss + lengths
    assert cost[-1000:].mean() <= 0.123
    assert cost[-1000:].mean() <= 0.45 * np.nanmean(cost[:250])


def test_fig_2_the_regression_cost_falls():
    order = np.random.default_rng(0).permutation(usps.CLASSES * usps.EACH)[:1500]
    X, y = usps.digits(0).X.reshape(-1, 256)[order], np.where(order < usps.EACH, 1.0, -1.0)[:, None]
    loss, _, _, _ = costs(made("okdl_discriminative", atoms=20, budget=2500), X, y)
    assert loss[-300:].mean() <= 0.5 * np.nanmean(loss[:100])


def test_a_budget_of_100_rows_follows_a_moving_stream():
    X, kernel = okdl_drift.moving(0)[::2].copy(), {"name": "gaussian"}
    kept, bounded = (
        okdl_drift.final(X, kernel, okdl_drift.FORMS[name])[-2:].mean() for name in ("all kept", "projected_grace")
    )
    assert bounded <= okdl_drift.MOST * kept
