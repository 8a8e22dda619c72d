"""Exercises on the watch: skegd under one_vs_rest beside okfeb + rls, a linear head and the last label, by default settings.

The protocol of `activity`: windows of 2 s, labels 20 s late, one person left out, recordings shuffled, 3 shuffles; rich
statistics, one arm mirrored. No setting was chosen on anybody here: each learner has its defaults. Cold begins with nothing,
warm with one model that learned everybody else's windows.
"""

from algorithms import learner_from
from papers import recordings
from papers.activity import run
from papers.common import line, options, verdict
from papers.late_labels import Model
from streamjobs.fit.evaluation import SHUFFLES, by_person, table

LINEAR, CHAIN, SKEGD, LAST = "linear (rls)", "okfeb + rls", "skegd, one_vs_rest", "last label seen"


def models() -> list[Model]:
    linear = {"name": "rls", "intercept": True}
    learners = {
        LINEAR: learner_from("rls", {"intercept": True}),
        CHAIN: learner_from("chain", {"extractor": {"name": "okfeb", "role": "head"}, "head": linear}),
        SKEGD: learner_from("one_vs_rest", {"learner": {"name": "skegd"}}),
    }
    return [
        Model(f"{name}, {'warm' if warm else 'cold'}", learner, warm=warm)
        for name, learner in learners.items()
        for warm in (False, True)
    ]


def main(arguments: list[str] | None = None) -> int:
    given = options("skegd_activity", __doc__, arguments, quick="one shuffle")
    data = recordings.watch("rich", mirrored=True)
    runs = run(data, models(), 1 if given.quick else SHUFFLES)
    print(table("watch", data, runs), flush=True)
    missed = []
    last = by_person(runs, LAST, "all").mean()
    for name in runs:
        wrong = 1.0 - by_person(runs, name, "all").mean()
        better = None if name == LAST or not name.startswith("skegd") else wrong < 1.0 - last
        missed += line(f"error, {name}", f"{wrong:.3f}", "below the last label" if better is not None else "", better)
    verdict("skegd learns exercises behind one_vs_rest", missed)
    return 0
