"""SPEED, Figs. 5 and 6: test MSE of LMS on eigenfunctions, by their number and by the rows the map is made from.

2000 training rows, LMS step .1. Targets: SPEED(30) .0044, sparse(30) .0044, SPEED(50) .0043; the dictionary of the 2000
rows holds 369 +- 15 (the paper's 398). The heads are the linear filters on the leading features of one map per trial,
which is what `speed` does with its own head. The levels of Fig. 4's filters stand beside.
"""

import numpy as np

from papers import mackey_glass
from papers.common import line, options, told, verdict
from papers.filters_common import curves, final_mse, made, near, on_eigenmaps
from papers.filters_fig4 import DICTIONARY, FILTERS, LMS
from papers.pictures import canvas, draw, finish, save

RANKS = (5, 10, 20, 30, 50, 80, 100)
SIZES = (100, 200, 500, 1000)  # rows of the map; all 2000 are Fig. 5's
BESIDE = ("GQ", "QKLMS", "KLMS")
TARGETS = {("speed", 30): 0.0044, ("sparse_speed", 30): 0.0044, ("speed", 50): 0.0043}
ALL = np.array([mackey_glass.TRAINING])


def main(arguments: list[str] | None = None) -> int:
    given = options("speed_fig5", __doc__, arguments, trials=10)
    heads = {f"{name} {rank}": (name, rank, LMS) for name in ("speed", "sparse_speed") for rank in RANKS}
    found = on_eigenmaps(heads, given.trials, ALL)
    by_rank = {name: np.array([found[f"{name} {m}"][0][:, 0] for m in RANKS]) for name in ("speed", "sparse_speed")}
    sizes, (size, within) = found[f"sparse_speed {RANKS[0]}"][1], DICTIONARY
    holds = bool(abs(sizes.mean() - size) <= within)
    missed = line("novelty dictionary of 2000", told(sizes, 0), f"target {size} +- {within}, paper 398", holds)
    for (name, rank), goal in TARGETS.items():
        ours = by_rank[name][RANKS.index(rank)]
        missed += line(f"{name}({rank}), LMS", told(ours), f"target {goal}", near(ours, goal))
    fifty = by_rank["speed"][RANKS.index(50)].mean()
    by_size = []
    for n in SIZES:
        learner = made("speed", rank=50, map_size=n)
        ours = [final_mse(learner, mackey_glass.trial(seed)) for seed in range(given.trials)]
        by_size.append(float(np.mean(ours)))
        line(f"SPEED(50), map of the first {n}", told(ours))
    beside = {name: float(e.mean()) for name, (e, _) in curves({n: FILTERS[n] for n in BESIDE}, given.trials, ALL).items()}
    for name, level in beside.items():
        line(f"{name}, Fig. 4", f"{level:.4f}")
    figure, (left, right) = canvas(2)
    draw(
        left,
        RANKS,
        {name.replace("_speed", " SPEED").replace("speed", "SPEED"): e.mean(axis=1) for name, e in by_rank.items()},
    )
    draw(right, [*SIZES, 2000], {"SPEED(50)": [*by_size, fifty]})
    for axes in (left, right):
        for place, (name, level) in enumerate(beside.items()):
            axes.axhline(level, color="#555555", linewidth=0.9, linestyle=("-", "--", ":")[place], label=name)
    finish(left, "SPEED, Fig. 5: LMS, map of 2000 rows", "eigenfunctions", "test MSE", log=True)
    finish(right, "SPEED, Fig. 6: LMS, 50 eigenfunctions", "rows of the map", "test MSE")
    save(figure, given.out, "002-fig5-6")
    few, beaten = by_size[SIZES.index(100)], by_size[SIZES.index(500)]
    missed += [] if few < beside["GQ"] else [f"100 rows below GQ ({few:.4f}, {beside['GQ']:.4f})"]
    missed += [] if fifty < beside["QKLMS"] else [f"SPEED(50) below QKLMS ({fifty:.4f}, {beside['QKLMS']:.4f})"]
    below = f"a map of 500 rows has {beaten:.4f}, QKLMS {beside['QKLMS']:.4f}, KLMS {beside['KLMS']:.4f}"
    verdict(f"50 eigenfunctions are as good as KLMS on 2000 samples; {below}", missed)
    return 0
