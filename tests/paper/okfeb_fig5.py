"""OK-FEB, Fig. 5: LS error on a spheroid that turns after 1000 rows, by budget and eviction rule.

Rank 10, gamma 2, ridge 1e-3, parametric update, step 1/|q|, seed = first rows with a random factor, nothing censored.
`last_points` stands beside: the LS error of rows not yet learned rewards remembering the newest.
"""

import sys

import numpy as np

from algorithms import learner_from
from tests.paper.spheroids import BANDWIDTH, turning

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


def figures(found: np.ndarray) -> tuple[float, float, float]:
    """Mean on rows 801-1000; highest mean of 200 rows after the change (mean over seeds); mean at the end over the first."""
    sums = np.cumsum(np.nan_to_num(found), axis=1)
    moving = (sums[:, 1000:] - sums[:, 800:-200]) / 200  # of the 200 rows up to each row after the change
    steady = found[:, 800:1000].mean()
    return float(steady), float(moving.max(axis=1).mean()), float(found[:, 1800:].mean() / steady)


def main(arguments: list[str] | None = None) -> int:
    print(
        f"{'budget, rule':16}{'801-1000':>10} target +-.008{'peak':>10} target +-.012{'end / 801-1000':>18} target 1 +-.04"
    )
    for (budget, rule), (steady, peak) in TARGETS.items():
        ours = figures(okfeb(budget, rule, seeds=20))
        print(f"{budget:3} {rule:12}{ours[0]:10.3f}   {steady:.3f}    {ours[1]:13.3f}   {peak:.3f}    {ours[2]:17.3f}")
    ours = figures(errors("last_points", {}, seeds=20))
    print(f"{'last_points':16}{ours[0]:10.3f}            {ours[1]:13.3f}            {ours[2]:17.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
