"""SkeGD, Table 3: mistakes of all rounds under a fixed budget, ours beside the paper's.

B = 100, on a9a and w7a 200; the printed SkeGD has s_p = 3/4 B, s_m = s_p / 5, k = B/10, d = 4, rho = .3 T, step .5; the
default one nothing but the budget and the width. ijcnn1, cod-rna and covtype are not among the recordings. german is scaled,
as its width asks for. The paper's german and svmguide3 lie below the majority rate (30 % and 23.8 %).
"""

from typing import Any

import numpy as np

from papers.common import line, options, told, verdict
from papers.sketching import CHOSEN_ON, PRINTED, SIGMA, made, over_orders, rivals, shuffled, tuned

PAPER = {  # per cent
    "german_scale": {"rbp": 38.92, "forgetron": 38.39, "projectron": 37.01, "projectron_pp": 35.40, "bpas": 35.35}
    | {"bogd": 33.99, "nogd": 29.88, "skegd": 27.93},
    "svmguide3": {"rbp": 34.09, "forgetron": 35.02, "projectron": 34.17, "projectron_pp": 28.90, "bpas": 28.95}
    | {"bogd": 30.01, "nogd": 22.89, "skegd": 21.39},
    "spambase": {"rbp": 35.53, "forgetron": 36.08, "projectron": 33.63, "projectron_pp": 32.42, "bpas": 33.36}
    | {"bogd": 33.11, "nogd": 34.33, "skegd": 31.30},
    "a9a": {"rbp": 28.30, "forgetron": 28.98, "projectron": 21.38, "projectron_pp": 18.70, "bpas": 21.84}
    | {"bogd": 29.61, "nogd": 18.84, "skegd": 18.52},
    "w7a": {"rbp": 5.25, "forgetron": 5.55, "projectron": 4.75, "projectron_pp": 4.24, "bpas": 3.20}
    | {"bogd": 3.48, "nogd": 2.90, "skegd": 2.78},
}
BUDGETS = {"a9a": 200, "w7a": 200}
TARGETS = {"svmguide3": 22.8, "german_scale": 29.0, "spambase": 30.5, "a9a": 18.0}
STRETCH = {"svmguide3": 22.0, "german_scale": 28.0, "spambase": 28.5}
SMALL = ("german_scale", "svmguide3", "spambase")


def printed(budget: int, rounds: int) -> dict[str, Any]:
    """Section 6.3."""
    sizes = {"sketch_rows": 3 * budget // 4, "landmarks": 3 * budget // 20, "rank": budget // 10}
    return {**PRINTED, **sizes, "budget": budget, "rows": 0, "refresh_every": max(1, int(0.3 * rounds))}


def main(arguments: list[str] | None = None) -> int:
    given = options("skegd_table3", __doc__, arguments, trials=20, quick="the three small sets")
    missed, best = [], []
    for name, paper in PAPER.items():
        if given.quick and name not in SMALL:
            continue
        budget, sigma, rows = BUDGETS.get(name, 100), SIGMA[name], shuffled(name, CHOSEN_ON)
        entrants = {rival: (rival, tuned(rival, each, sigma, rows)) for rival, each in rivals(budget).items()}
        entrants["skegd, printed"] = "skegd", printed(budget, len(rows[1]))
        entrants["skegd"] = "skegd", {"budget": budget}
        found, tops = {}, {}
        for entrant, (learner, settings) in entrants.items():
            of_orders = over_orders(made(learner, settings, sigma), name, given.trials)
            found[entrant], tops[entrant] = of_orders
            target = TARGETS.get(name) if entrant == "skegd" else None
            said = (
                f"paper {paper[entrant]:.2f}"
                if entrant in paper
                else "paper " + f"{paper['skegd']:.2f}" * (entrant == "skegd, printed")
            )
            if target:
                said = f"target {target}, stretch {STRETCH.get(name, '-')}"
            step = f", step {settings['step_size']}" if "step_size" in settings else ""
            holds = np.mean(found[entrant]) <= target if target else None
            missed += line(f"{name}, {entrant}{step}", told(found[entrant], 2), said if said != "paper " else "", holds)
        line(f"{name}, largest |score|", f"{tops['skegd']:.1f}", f"printed {tops['skegd, printed']:.2g}", tops["skegd"] < 10)
        others = min(np.mean(each) for entrant, each in found.items() if entrant != "skegd")
        if np.mean(found["skegd"]) < others:
            best.append(name)
    verdict(f"SkeGD, the default one, is the best on {', '.join(best) or 'none'}", missed)
    return 0
