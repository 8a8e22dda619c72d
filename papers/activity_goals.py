"""How new people are recognised by what `fit --choose` takes from all others alone, beside controls and goals.

    python -m papers activity_goals [--quick] [--only SET]

Each person is left out in turn. Statistics, map, directions, ridge and filter are chosen on the people who are left, as
`streamjobs fit --choose` does, and their population serves the person in 3 shuffles: gated, and frozen. Beside it: the last
label, the most frequent label, and a linear head that learns the person's labels alone.
"""

from dataclasses import replace

import numpy as np

from papers.activity_choice import BARS, BOTH, JOINT, LINEAR, PROTOTYPES, SAMPLES, SETS
from papers.common import line, options
from streamjobs.fit.choosing import CONVOLUTIONS, SMOOTH, Candidate, choose, columns_of
from streamjobs.fit.evaluation import SHUFFLES, Runs, by_person, calibration, leave_one_out, mean_of, table
from streamjobs.fit.learning import Convolving, Recipe, Way
from streamjobs.fit.recordings import LATE, Recordings
from streamjobs.fit.reports.report import COLD

CHOSEN, FROZEN = "chosen by the others, gated", "chosen by the others, frozen"


def recipe_of(candidate: Candidate, samples: int) -> Recipe:
    """What `fit` makes of the job file with this candidate. samples: of a window."""
    found = {"linear": LINEAR, "prototypes": PROTOTYPES, "both": JOINT}[candidate.map]
    found = replace(found, filter=LINEAR.filter) if candidate.filter == "hmm" else replace(found, filter=None, smooth=SMOOTH)
    found = replace(
        found, head=replace(found.head, delta=candidate.delta or found.head.delta), directions=candidate.directions
    )
    return replace(found, convolving=Convolving(CONVOLUTIONS, samples, 6) if candidate.convolutions else None)


def served(title: str, data: Recordings, person: int, shuffles: int) -> Runs:
    """The runs of a person, by what all others choose and teach."""
    columns, samples = columns_of(BOTH, 6, CONVOLUTIONS), SAMPLES[title]
    recipe = replace(PROTOTYPES, convolving=Convolving(CONVOLUTIONS, samples, 6))
    chosen = choose(data.of(data.person != person), columns, recipe, LATE).best.candidate
    print(f"{title}, person {person}: {chosen.name}", flush=True)
    recipe = recipe_of(chosen, samples)
    alone = replace(LINEAR, filter=None, convolving=recipe.convolving)
    ways = [Way(CHOSEN, recipe), Way(FROZEN, recipe, "frozen"), Way(COLD, alone, "cold")]
    if not chosen.convolutions:
        data = data._replace(X=np.ascontiguousarray(data.X[:, columns[chosen.statistics, 0]]))
    return leave_one_out(data, ways, shuffles=shuffles, people=[person])


def gap(runs: Runs, figure: str) -> str:
    """What the gated head gains over the frozen one: mean and standard error of the people."""
    gains = by_person(runs, CHOSEN, figure) - by_person(runs, FROZEN, figure)
    gains = gains[np.isfinite(gains)]
    return f"{gains.mean():+.3f} +- {gains.std(ddof=1) / np.sqrt(len(gains)):.3f}"


def main(arguments: list[str] | None = None) -> int:
    quick = "two people of the watch of 7 exercises, one shuffle"
    given = options("activity_goals", __doc__, arguments, quick=quick, only=list(SETS))
    only, missed = "watch" if given.quick else given.only, list[str]()
    for title, load in SETS.items():
        if only not in (None, title):
            continue
        data = load()
        runs: Runs = {}
        for person in np.unique(data.person).tolist()[: 2 if given.quick else None]:
            for name, one in served(title, data, person, 1 if given.quick else SHUFFLES).items():
                runs.setdefault(name, {}).update(one)
        print(table(title, data, runs))
        every, fresh, worst = BARS[title]
        figure = "fresh" if worst is None else "fresh_half"
        got = float(by_person(runs, CHOSEN, "all").mean()), mean_of(by_person(runs, CHOSEN, figure))
        missed += line(f"{title}, all", f"{got[0]:.3f}", f">= {every}", got[0] >= every)
        missed += line(f"{title}, {figure}", f"{got[1]:.3f}", f">= {fresh}", got[1] >= fresh)
        if worst is not None:
            least = float(by_person(runs, CHOSEN, "half").min())
            missed += line(f"{title}, second half of the worst person", f"{least:.3f}", f">= {worst}", least >= worst)
        line(f"{title}, gated over frozen, fresh, its second half", f"{gap(runs, 'fresh')}, {gap(runs, 'fresh_half')}")
        line(f"{title}, calibration error", f"{calibration(runs, CHOSEN) or np.nan:.3f}")
    print(f"missed: {', '.join(missed) or 'nothing'}.")
    return 0
