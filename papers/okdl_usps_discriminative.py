"""OKDL, Section IV: misclassified USPS digits by discriminative dictionaries, one against all, 2500 images (2.86 %).

The first pass takes the images of all classes in random order, later ones are drawn at random; steps shrink for ever. The
digit is the one whose prediction is closest to 1, as in the paper. A budget of 2500 rows evicts none; 100 beside it.
"""

import time

import numpy as np

from algorithms import Learner, learner_from
from papers import usps
from papers.common import line, options, verdict

ATOMS, EVENTS, PAPER, WANTED = 50, 40_000, 2.86, 4.0
SETTINGS = {"kernel": usps.KERNEL, "l1": 0.01, "l2": 1e-3, "nu": 0.01, "ridge": 0.01, "step_freeze": -1}


def made(atoms: int = ATOMS, budget: int = 2500, **settings: object) -> Learner:
    return learner_from("okdl_discriminative", {**SETTINGS, "atoms": atoms, "budget": budget, **settings})


def misclassified(learner: Learner, seed: int, ends: list[int], classes: int = usps.CLASSES) -> dict[int, float]:
    """Per cent of the test digits wrong after each number of events, by the one of `classes` digits closest to 1."""
    digits = usps.digits(seed)
    X = digits.X[:classes].reshape(-1, 256)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order], np.repeat(np.arange(classes), usps.EACH)[order]
    told = digits.test < classes
    states = [learner.init(dim=256, targets=1, seed=0) for _ in range(classes)]
    found, begin, rows = {}, 0, usps.passes(len(X), ends[-1], seed)
    for end in ends:
        scores, started = np.empty((int(told.sum()), classes)), time.process_time()
        for digit in range(classes):
            now = rows[begin:end]
            targets = np.where(y[now] == digit, 1.0, -1.0)[:, None]
            states[digit], _ = learner.run(states[digit], X[now], targets)
            scores[:, digit] = learner.predict(states[digit], digits.testX[told])[:, 0]
        found[end] = float((abs(scores - 1.0).argmin(axis=1) != digits.test[told]).mean() * 100)
        print(f"  seed {seed}, {end} events: {found[end]:.2f} % ({time.process_time() - started:.0f} s)", flush=True)
        begin = end
    return found


def main(arguments: list[str] | None = None) -> int:
    given = options("okdl_usps_discriminative", __doc__, arguments, trials=1, quick="5,000 events instead of 40,000")
    events = 5000 if given.quick else EVENTS
    ends = [end for end in (2500, 10_000, 20_000, 40_000) if end < events] + [events]
    missed = []
    for told, budget, wanted in (("2500 rows kept", 2500, WANTED), ("budget 100", 100, None)):
        each = [misclassified(made(budget=budget), seed, ends) for seed in range(given.trials)]
        for end in ends:
            error, last = float(np.mean([found[end] for found in each])), end == EVENTS and wanted is not None
            beside = f"paper {PAPER} %, <= {WANTED} %" if last else ""
            missed += line(f"K {ATOMS}, {told}, {end} events", f"{error:.2f} %", beside, error <= WANTED if last else None)
    verdict("discriminative dictionaries tell the digits", missed)
    return 0
