"""What `streamjobs fit --choose` compares and takes on three sets, and two of its candidates by the whole protocol.

    python -m papers activity_choice [--quick] [--only SET]

First each person is left out in turn, one shuffle: the table that users see. Then 3 shuffles of a linear head and one with
prototypes too, on rich and gravity statistics and 200 of random convolutions with a filter, gated and frozen, and the
calibration error of the scores.
The third set has 18 activities, each recording cut into three of 60 s.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from papers import recordings
from papers.common import options
from papers.gated_streams import HEAD, MAPS, SCALING
from streamjobs.fit.choosing import CONVOLUTIONS, as_text, choose, columns_of
from streamjobs.fit.evaluation import by_person, calibration, leave_one_out, mean_of, table
from streamjobs.fit.learning import Convolving, Recipe, Way
from streamjobs.fit.recordings import LATE, Recordings
from streamjobs.stages.smoothing import Transitions

BOTH = "rich+gravity"
SETS: dict[str, Callable[[], Recordings]] = {
    "phone": partial(recordings.phone, BOTH, convolutions=CONVOLUTIONS),
    "watch": partial(recordings.watch, BOTH, mirrored=True, convolutions=CONVOLUTIONS),
    "watch, 18 activities": partial(recordings.daily, BOTH, convolutions=CONVOLUTIONS),
}
SAMPLES = {"phone": 100, "watch": 100, "watch, 18 activities": 40}  # of a window
# At least: all, fresh windows of the second half (of the third set: all fresh), second half of the worst person.
BARS = {"phone": (0.97, 0.95, 0.91), "watch": (0.93, 0.92, 0.85), "watch, 18 activities": (0.86, 0.79, None)}
PROTOTYPES = Recipe(SCALING, MAPS["random 300"], replace(HEAD, unlabelled=0.0), boosts=True)  # as `init` writes it
LINEAR = replace(PROTOTYPES, map=None, filter=Transitions())
JOINT = replace(PROTOTYPES, input=True, filter=Transitions())


def ways(convolving: Convolving) -> list[Way]:
    """A linear head and one with prototypes too, as they adapt and as they do not."""
    found = []
    for name, recipe in (("linear", LINEAR), ("both", JOINT)):
        with_convolutions = replace(recipe, convolving=convolving)
        found.append(Way(f"convolutions, {name}, hmm, gated", with_convolutions))
        found.append(Way(f"convolutions, {name}, hmm, frozen", with_convolutions, "frozen"))
    return found


def main(arguments: list[str] | None = None) -> int:
    quick = "the watch of 7 exercises only, one shuffle"
    given = options("activity_choice", __doc__, arguments, quick=quick, only=list(SETS))
    only = "watch" if given.quick else given.only
    for title, load in SETS.items():
        if only not in (None, title):
            continue
        data, convolving = load(), Convolving(CONVOLUTIONS, SAMPLES[title], 6)
        recipe = replace(PROTOTYPES, convolving=convolving)
        choice = choose(data, columns_of(BOTH, 6, CONVOLUTIONS), recipe, LATE)
        best, cheapest = choice.best.candidate.name, choice.cheapest.candidate.name
        print(f"{title}\n{as_text(choice)}\nbest {best}, smallest {cheapest}\n", flush=True)
        compared = ways(convolving)
        runs = leave_one_out(data, compared, shuffles=1 if given.quick else 3)
        print(table(title, data, runs))
        for way in compared:
            every, fresh, worst = BARS[title]
            name = "fresh" if worst is None else "fresh_half"
            got = by_person(runs, way.name, "all").mean(), mean_of(by_person(runs, way.name, name))
            line = f"  {way.name:34} all {got[0]:.3f} (bar {every}), {name} {got[1]:.3f} (bar {fresh})"
            if worst is not None:
                line += f", worst half {by_person(runs, way.name, 'half').min():.3f} (bar {worst})"
            print(f"{line}, calibration error {calibration(runs, way.name):.3f}", flush=True)
    return 0
