"""SkeGD, Figs. 2 and 3: mistakes and run time against the budget, tau = s_m / s_p, and the number of blocks d.

s_p = 3/4 B; Fig. 2 with s_m = B/2, Fig. 3 (a, b) with s_m = tau s_p, (c, d) with s_m = B/2. The paper's cod-rna is not among
the recordings: 5000 rows of a9a stand for it; (c, d) are on spambase, as in the paper. The printed SkeGD (step .5, an update
every .3 T rounds) and the default one with the same sizes. The paper draws curves without numbers: more budget makes fewer
mistakes at more time, smaller tau fewer in less, more blocks fewer.
"""

import time
from typing import Any

import numpy as np

from algorithms.common.protocol import Array
from papers.common import line, options, verdict
from papers.pictures import canvas, draw, finish, save
from papers.sketching import PRINTED, SIGMA, made, mistakes, shuffled

SET, ROWS = "a9a", 5000
BUDGETS, TAUS, BLOCKS = (100, 200, 300, 400), (0.2, 0.4, 0.6, 0.8), (1, 2, 4, 8)


def point(name: str, budget: int, s_m: int, blocks: int, printed: bool, trials: int) -> tuple[float, float]:
    """Mean mistakes (%) and microseconds of the processor a row."""
    sizes = {"budget": budget, "sketch_rows": 3 * budget // 4, "landmarks": s_m, "rank": budget // 10}
    settings: dict[str, Any] = {**sizes, "sketch_blocks": blocks}
    found, used, rounds = [], 0.0, 0
    for order in range(trials):
        rows = shuffled(name, order, ROWS)
        rounds += len(rows[1])
        if printed:
            settings |= {**PRINTED, "rows": 0, "refresh_every": max(1, int(0.3 * len(rows[1])))}
        learner = made("skegd", settings, SIGMA[name])
        begin = time.process_time()
        found.append(mistakes(learner, rows, order)[0])
        used += time.process_time() - begin
    return float(np.mean(found)), used / rounds * 1e6


def series(of: list[tuple[str, int, int, int]], printed: bool, trials: int, told: str) -> Array:
    """Mistakes and times (points, 2), a line printed for each."""
    found = np.array([point(*one, printed, trials) for one in of])
    line(told, ", ".join(f"{wrong:.2f} %" for wrong in found[:, 0]), ", ".join(f"{each:.0f} us" for each in found[:, 1]))
    return found


def main(arguments: list[str] | None = None) -> int:
    given = options("skegd_fig3", __doc__, arguments, trials=5)
    held, missed = [], []
    figure, panels = canvas(3)
    kinds = {"printed": True, "default": False}
    small = BUDGETS[1]
    plans = {
        "B": (BUDGETS, [(SET, budget, budget // 2, 4) for budget in BUDGETS]),
        "tau": (TAUS, [(SET, small, int(tau * 0.75 * small), 4) for tau in TAUS]),
        "d": (BLOCKS, [("spambase", 100, 50, blocks) for blocks in BLOCKS]),
    }
    for panel, (what, (values, plan)) in zip(panels, plans.items(), strict=True):
        lines = {}
        for kind, printed in kinds.items():
            found = series(plan, printed, given.trials, f"{kind}: {what} = {', '.join(f'{value:g}' for value in values)}")
            lines[kind] = found[:, 0]
            first, last = found[0], found[-1]
            fewer = last[0] < first[0] if what != "tau" else first[0] < last[0]
            claim = {"B": "more budget", "tau": "smaller tau", "d": "more blocks"}[what]
            (held if fewer else missed).append(f"{claim}, fewer mistakes ({kind})")
        draw(panel, list(values), lines)
        finish(panel, f"SkeGD: {plan[0][0]}", what, "mistakes, %")
    save(figure, given.out, "001-fig3")
    verdict(", ".join(held) or "none", missed)
    return 0
