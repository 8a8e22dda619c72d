"""OK-FEB, Fig. 8: kernel mismatch over windows of 100 rows on PAMAP2, by rank, budget 1.5 times the rank.

On the excerpt, or with `--pamap2 FOLDER` on subject 1's file (OK-FEB and WR-KPCA only). Beside: improved Nystroem (k-means
landmarks, as many as the budget) and MEKA of all rows at once, and `last_points`.
"""

import numpy as np

from algorithms import learner_from
from algorithms.common.kernels import Kernel
from papers.batch.subspace import meka, nystrom
from papers.common import options, verdict
from papers.mismatch import linked, of_features, tracked
from papers.okfeb_fig7 import rows_of
from papers.pictures import curves

KERNEL = Kernel(bandwidth=0.35**0.5)
RANKS = (5, 10, 20)
LEARNERS = {
    "OK-FEB, decay .9": {"name": "okfeb", "update": "parametric", "evict": "decayed_norm", "decay": 0.9, "censor": "off"},
    "OK-FEB, projected .97": {"name": "okfeb", "role": "track"},
    "WR-KPCA": {"name": "wrkpca"},
}


BATCH = ("improved Nystroem", "MEKA, 3 clusters")  # of all rows at once, as in the paper


def figures(X: np.ndarray, rank: int, batch: bool) -> dict[str, float]:
    budget, found = 3 * rank // 2, {}
    for name, settings in LEARNERS.items():
        given = {k: v for k, v in settings.items() if k != "name"} | {"rank": rank, "budget": budget, "kernel": KERNEL}
        found[name] = tracked(learner_from(settings["name"], given), KERNEL, X, every=100)
    if batch:
        improved = nystrom(KERNEL, X, rank, landmarks=budget, choose="kmeans").features(KERNEL, X)
        found["improved Nystroem"] = of_features(KERNEL, X, improved, every=100)
        found["MEKA, 3 clusters"] = linked(KERNEL, X, *meka(KERNEL, X, rank, clusters=3), every=100)
    found["last points"] = tracked(learner_from("last_points", {"rank": rank, "kernel": KERNEL}), KERNEL, X, every=100)
    return found


def main(arguments: list[str] | None = None) -> int:
    given = options("okfeb_fig8", __doc__, arguments, pamap2=True)
    X, _, passes = rows_of(given.pamap2)
    by_rank = [figures(X, rank, passes > 1) for rank in RANKS]
    print(f"{'mismatch':24}" + "".join(f"{'r ' + str(rank):>10}" for rank in RANKS))
    for name in by_rank[0]:
        print(f"{name:24}" + "".join(f"{found[name]:10.4f}" for found in by_rank))
    lines = {name: [found[name] for found in by_rank] for name in by_rank[0]}
    curves(
        given.out,
        "000-fig8",
        "OK-FEB, Fig. 8: kernel mismatch, PAMAP2",
        "rank",
        "mismatch of windows of 100 rows",
        RANKS,
        lines,
        log=True,
    )
    beats = {  # which learners lie below a comparator at every rank
        batch: [name for name in LEARNERS if all(a < b for a, b in zip(lines[name], lines[batch], strict=True))]
        for batch in BATCH
        if batch in lines
    }
    paper = "OK-FEB, decay .9"
    lost = [batch for batch, below in beats.items() if paper not in below]
    said = ", ".join(f"below {batch} at every rank {' and '.join(below) or 'none'}" for batch, below in beats.items())
    verdict(
        f"the mismatch falls with r; {said}",
        f"{paper}, below {' and '.join(lost)} on 5 s an activity" if lost else "nothing",
    )
    return 0
