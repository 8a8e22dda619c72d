"""OK-FEB, Fig. 7: LS error over time on PAMAP2 by eviction rule, mean of 200 rows, activities one after the other.

On the excerpt (5 s per activity, three passes, the last one drawn), or with `--pamap2 FOLDER` on subject 1's file. The
picture shows what the paper's does: a level of its own for each activity, and less of it with decay .9 than with decay 1.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms import learner_from
from papers import pamap2
from papers.common import options, verdict
from papers.okfeb_table1 import RULES, SETTINGS, stream, unit
from papers.pictures import curves

MEAN_OVER = 200


def rows_of(folder: Path | None) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Rows, activity codes, and how many passes to make: subject 1 of the whole set, or without a folder the excerpt."""
    if folder:
        X, y = pamap2.asked(folder)
        return unit(X), y, 1
    return *stream(), 3


def main(arguments: list[str] | None = None) -> int:
    given = options("okfeb_fig7", __doc__, arguments, pamap2=True)
    X, y, passes = rows_of(given.pamap2)
    lines, means = {}, {}
    for name, rule in RULES.items():
        learner = learner_from("okfeb", SETTINGS | rule)
        found = learner.run(learner.init(dim=X.shape[1], targets=0, seed=0), np.vstack([X] * passes))[1].ls_error
        last = found[-len(X) :]
        means[name] = float(last[MEAN_OVER:].mean())
        sums = np.cumsum(np.concatenate([[0.0], np.nan_to_num(last)]))
        lines[name] = (sums[MEAN_OVER:] - sums[:-MEAN_OVER]) / MEAN_OVER
    lines["activity (code, scaled)"] = y[MEAN_OVER - 1 :] / 24 * max(line.max() for line in lines.values())
    changes = np.flatnonzero(np.diff(y))
    at = np.arange(MEAN_OVER - 1, len(X))
    label = f"LS error, mean of {MEAN_OVER} rows"
    curves(
        given.out, "000-fig7", "OK-FEB, Fig. 7: PAMAP2, an activity after the other", "rows", label, at, lines, marks=changes
    )
    print(f"{len(X)} rows; mean LS error " + ", ".join(f"{name} {mean:.3f}" for name, mean in means.items()))
    as_told = means["decay .9"] < means["decay 1"] and abs(means["decay .9"] / means["oldest"] - 1) < 0.05
    order = "decay .9 = oldest first < decay 1" if as_told else "not the order of the rules"
    verdict(
        f"a level of its own per activity, {order}", "minutes of an activity" if passes > 1 else "the subjects but the first"
    )
    return 0
