"""OKDL, Fig. 2: the discriminative cost g + mu/2 |D|^2 of digit 0 falls, while the coding cost (5) rises; 2500 images.

The dictionary of digit 0 against all, 50 atoms, l1 .01, l2 .001, nu .01, rho_n = .1 / (1 + n / 1000) for all n.
"""

import numpy as np

from papers import pictures, usps
from papers.common import line, options, verdict
from papers.okdl_common import L1, costs, made, smooth

EVENTS, ATOMS, L2 = 10_000, 50, 1e-3


def main(arguments: list[str] | None = None) -> int:
    given = options("okdl_fig2", __doc__, arguments, quick="4000 events instead of 10,000")
    events = 4000 if given.quick else EVENTS
    digits = usps.digits(0)
    order = np.random.default_rng(0).permutation(usps.CLASSES * usps.EACH)
    rows = order[usps.passes(len(order), events, 0)]
    X, y = digits.X.reshape(-1, 256)[rows], np.where(rows < usps.EACH, 1.0, -1.0)[:, None]
    learner = made("okdl_discriminative", atoms=ATOMS, budget=2500)
    loss, lengths, ls_error, state = costs(learner, X, y)
    codes = learner.transform(state, X[:500])
    lost = smooth(0.5 * ls_error)
    cost = smooth(loss + lengths)
    early, late = float(np.nanmean(cost[:3])), float(cost[-10:].mean())
    missed = line("g + mu/2 |D|^2, first 300 and last 1000", f"{early:.3f}, {late:.3f}", "(a): falls", late < 0.5 * early)
    before, after = float(np.nanmean(lost[:3])), float(lost[-10:].mean())
    missed += line("1/2 |phi - D a|^2, the same", f"{before:.3f}, {after:.3f}", "(b): rises", after > before)
    penalty = float((L1 * abs(codes) + 0.5 * L2 * codes**2).sum(axis=1).mean())
    line("  l1 |a| + l2/2 |a|^2 at the end", f"{penalty:.3f}")
    half = int(np.flatnonzero(cost <= late + 0.1 * (early - late))[0] + 1) * 100
    line("  events until nine tenths of the fall", f"{half}", "slower than Fig. 1")
    steps = np.arange(100, events + 1, 100)
    both = {"(a) g + mu/2 |D|^2": cost, "(b) 1/2 |phi - D a|^2": lost}
    pictures.curves(given.out, "003-fig2", "OKDL, Fig. 2: digit 0 against all", "events", "cost", steps, both)
    verdict("the regression cost falls while the atoms tell less of the images", missed)
    return 0
