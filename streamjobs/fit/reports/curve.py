"""How well a new person is recognised by a population of fewer people, and what more people would gain.

Scale and map are everybody's, as in `inner`; heads are learned of so many people, drawn by a fixed seed. The error is taken
to be a constant and a part in proportion to 1 / people, by least squares over the sizes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streamjobs.fit.inner import served
from streamjobs.fit.learning import Learned, Recipe
from streamjobs.fit.least_squares import head_of, sums_of
from streamjobs.fit.recordings import Recordings, in_order
from streamjobs.fit.transitions import filtered
from streamjobs.stages.smoothing import Smoothing

SIZES = 4  # of populations, at most
SERVED = 12  # people, at most
FEWEST = 4  # people
MORE = 5  # people, of whom the gain is estimated


class Curve(NamedTuple):
    people: list[int]  # in the population
    right: list[float]  # share of right windows, mean of the people served
    gain: float  # estimated of MORE people
    total: int  # people in the population to which they would come


def learning_curve(
    data: Recordings, recipe: Recipe, learned: Learned, late: int, progress: Callable[[], None] = lambda: None
) -> Curve | None:
    """People who serve each other; None with fewer than four. `progress` is called for each size, SIZES times at most.

    data: with convolutions in place. learned: of all; recipe: with the numbers of its filter.
    """
    people = np.unique(data.person).tolist()
    if len(people) < FEWEST:
        return None
    new = people[:: -(-len(people) // SERVED)]
    classes, Z = len(learned.head.bias), recipe.mapped(learned.map, recipe.scaled(learned.scaling, data.X))
    sums = {one: sums_of(Z[data.person == one], data.activity[data.person == one], classes) for one in people}
    streams = {one: in_order(data._replace(X=Z), data.person == one, late) for one in new}
    stage = recipe.filter or Smoothing(smooth=recipe.smooth)
    sizes = np.unique(np.geomspace(2, len(people) - 1, SIZES).round().astype(int)).tolist()
    right = []
    for size in sizes:
        shares = []
        for person, own in streams.items():
            others = [one for one in people if one != person]
            drawn = np.random.default_rng([2, person, size]).permutation(others)[:size].tolist()
            rest = learned._replace(head=head_of(recipe.teacher, [sums[one] for one in drawn]), people=size)
            scores = served(recipe, "gated", rest, own, person).scores
            shares.append(float((filtered(stage, scores).argmax(axis=1) == own.activity).mean()))
        right.append(float(np.mean(shares)))
        progress()
    slope = float(np.polyfit(1.0 / np.array(sizes), right, 1)[0])
    gain = max(0.0, -slope) * (1.0 / len(people) - 1.0 / (len(people) + MORE))
    return Curve(sizes, right, gain, len(people))
