"""OK-FEB, Fig. 5: LS error on a spheroid that turns after 1000 rows, by budget and eviction rule.

Rank 10, gamma 2, ridge 1e-3, parametric update, step 1/|q|, seed = first rows with a random factor, nothing censored.
`last_points` stands beside: the LS error of rows not yet learned rewards remembering the newest.
"""

import numpy as np

from algorithms import learner_from
from papers.common import options, verdict
from papers.pictures import curves
from papers.spheroids import BANDWIDTH, turning

MEAN_OVER = 200  # rows, as in the paper
KERNEL = {"name": "gaussian", "bandwidth": BANDWIDTH}
TARGETS = {  # (budget, rule): LS error on rows 801-1000 (+- .008), peak of its mean over 200 rows after the change (+- .012)
    (20, "decay 1"): (0.240, 0.280),
    (20, "decay .9"): (0.254, 0.280),
    (20, "oldest"): (0.275, 0.297),
    (50, "decay 1"): (0.196, 0.255),
    (50, "decay .9"): (0.199, 0.243),
    (50, "oldest"): (0.203, 0.241),
}
RULES = {
    "decay 1": {"evict": "decayed_norm", "decay": 1.0},
    "decay .9": {"evict": "decayed_norm", "decay": 0.9},
    "oldest": {"evict": "oldest"},
}


def errors(name: str, settings: dict, seeds: int) -> np.ndarray:
    """(seeds, 2000) LS errors before each row is learned."""
    learner = learner_from(name, {"ridge": 1e-3, "rank": 10, "kernel": KERNEL, **settings})
    found = []
    for seed in range(seeds):
        start = learner.init(dim=3, targets=0, seed=seed)
        found.append(learner.run(start, turning(seed))[1].ls_error)
    return np.array(found)


def okfeb(budget: int, rule: str, seeds: int) -> np.ndarray:
    settings = {"budget": budget, "censor": "off", "update": "parametric", "seed_factor": "random", **RULES[rule]}
    return errors("okfeb", settings, seeds)


def smoothed(found: np.ndarray) -> np.ndarray:
    """Mean of the MEAN_OVER rows up to each row from number MEAN_OVER on."""
    sums = np.cumsum(np.nan_to_num(np.pad(found, ((0, 0), (1, 0)))), axis=1)
    return (sums[:, MEAN_OVER:] - sums[:, :-MEAN_OVER]) / MEAN_OVER


def figures(found: np.ndarray) -> tuple[float, float, float]:
    """Mean on rows 801-1000; highest mean of 200 rows after the change (mean over seeds); mean at the end over the first."""
    moving = smoothed(found)[:, 1000 - MEAN_OVER + 1 :]  # of the rows up to each row after the change
    steady = found[:, 800:1000].mean()
    return float(steady), float(moving.max(axis=1).mean()), float(found[:, 1800:].mean() / steady)


def main(arguments: list[str] | None = None) -> int:
    given = options("okfeb_fig5", __doc__, arguments, trials=20)
    print(f"{'budget, rule':16}{'rows 801-1000':>15} target{'peak':>8} target{'end / before':>15} target")
    lines, missed = {}, []
    for (budget, rule), (steady, peak) in TARGETS.items():
        found = okfeb(budget, rule, given.trials)
        lines[f"B {budget}, {rule}"] = smoothed(found).mean(axis=0)
        ours = figures(found)
        print(f"{budget:3} {rule:12}{ours[0]:15.3f}  {steady:.3f}{ours[1]:9.3f}  {peak:.3f}{ours[2]:15.3f}  1")
        if abs(ours[0] - steady) > 0.008 or abs(ours[1] - peak) > 0.012 or abs(ours[2] - 1) > 0.04:
            missed.append(f"B {budget}, {rule}")
    found = errors("last_points", {}, given.trials)
    ours = figures(found)
    print(f"{'last_points':16}{ours[0]:15.3f}       {ours[1]:9.3f}       {ours[2]:15.3f}")
    lines["last points"] = smoothed(found).mean(axis=0)
    title, label = f"OK-FEB, Fig. 5: a spheroid that turns, {given.trials} seeds", f"LS error, mean of {MEAN_OVER} rows"
    curves(given.out, "000-fig5", title, "rows", label, np.arange(MEAN_OVER, 2001), lines, marks=[1000])
    verdict("levels, the peak after the change, the order of rules (each within its target)", missed)
    return 0
