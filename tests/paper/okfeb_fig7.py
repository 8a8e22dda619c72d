"""OK-FEB, Fig. 7: LS error over time on PAMAP2 by eviction rule, mean of 200 rows, activities one after the other.

On the excerpt (5 s per activity, three passes, the last one drawn), or with `--pamap2 FOLDER` on subject 1's file. The
picture shows what the paper's does: a level of its own for each activity, and less of it with decay .9 than with decay 1.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms import learner_from
from tests.paper import pamap2
from tests.paper.okfeb_table1 import RULES, SETTINGS, stream, unit
from tests.paper.pictures import curves

MEAN_OVER = 200


def rows_of(arguments: list[str]) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Rows, activity codes, and how many passes to make."""
    if "--pamap2" in arguments:
        X, y = pamap2.load(arguments[arguments.index("--pamap2") + 1])
        return unit(X), y, 1
    return *stream(), 3


def main(arguments: list[str] | None = None) -> int:
    X, y, passes = rows_of(arguments or [])
    lines, means = {}, {}
    for name, rule in RULES.items():
        learner = learner_from("okfeb", SETTINGS | rule)
        found = learner.run(learner.init(dim=X.shape[1], targets=0, seed=0), np.vstack([X] * passes))[1].ls_error
        last = found[-len(X) :]
        means[name] = float(last[MEAN_OVER:].mean())
        sums = np.cumsum(np.concatenate([[0.0], np.nan_to_num(last)]))
        lines[name] = (sums[MEAN_OVER:] - sums[:-MEAN_OVER]) / MEAN_OVER
    lines["activity code / 24"] = y[MEAN_OVER - 1 :] / 24 * max(line.max() for line in lines.values())
    changes = np.flatnonzero(np.diff(y))
    at = np.arange(MEAN_OVER - 1, len(X))
    print(curves(arguments, "000-fig7", "LS error, PAMAP2", "rows", f"mean of {MEAN_OVER}", at, lines, marks=changes))
    print(f"{len(X)} rows; mean LS error " + ", ".join(f"{name} {mean:.3f}" for name, mean in means.items()))
    print("reproduces: an own level per activity, decay .9 = oldest first < decay 1; on 5 s an activity")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
