"""OKDL, Fig. 1: the cost f + mu/2 |D|^2 of the dictionary of digit 0, 10,000 events on 250 images.

The paper does not print how many atoms it has; its curve is read as settling within 2000 events. Beside it the LS error of
a reservoir of as many rows (`random_prototypes`), whose span has no penalty and no sparseness.
"""

import numpy as np

from algorithms import learner_from
from papers import pictures, usps
from papers.common import line, options, verdict
from papers.okdl_common import costs, made, smooth

EVENTS, ATOMS = 10_000, (50, 100)
WANTED, SLACK, SHARE = 0.112, 0.011, 0.45


def main(arguments: list[str] | None = None) -> int:
    given = options("okdl_fig1", __doc__, arguments, quick="3000 events instead of 10,000")
    events = 3000 if given.quick else EVENTS
    X = usps.digits(0).X[0][usps.passes(usps.EACH, events, 0)]
    missed, lines = [], {}
    for atoms in ATOMS:
        loss, lengths, ls_error, _ = costs(made("okdl", atoms=atoms, budget=0), X)
        cost = loss + lengths
        first, last = float(np.nanmean(cost[:250])), float(cost[-1000:].mean())
        holds = (abs(last - WANTED) <= SLACK, last / first <= SHARE) if atoms == ATOMS[0] else (None, None)
        missed += line(f"K {atoms}, cost of the last 1000 events", f"{last:.3f}", f"{WANTED} +- {SLACK}", holds[0])
        missed += line("  to that of the first 250", f"{last / first:.2f}", f"<= {SHARE}", holds[1])
        settled = smooth(cost)
        when = int(np.flatnonzero(settled <= 1.1 * last)[0] + 1) * 100
        line("  events until within a tenth of it", f"{when}", "read off the figure: 2000")
        control = learner_from("random_prototypes", {"kernel": usps.KERNEL, "budget": atoms})
        _, out = control.run(control.init(dim=256, targets=0, seed=0), X)
        line(f"  LS error; reservoir of {atoms}", f"{ls_error[-1000:].mean():.3f}; {out.ls_error[-1000:].mean():.3f}")
        lines[f"K {atoms}"] = settled
    steps = np.arange(100, events + 1, 100)
    pictures.curves(given.out, "003-fig1", "OKDL, Fig. 1: digit 0", "events", "f + mu/2 |D|^2", steps, lines)
    verdict("a cost that falls fast and settles", missed)
    return 0
