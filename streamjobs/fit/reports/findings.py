"""What recordings and the decisions for new people show: doubtful recordings and people, the gain of labels, what to do."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.unlearned import FAR, Taken, outside
from streamjobs.fit.inner import filtered, served
from streamjobs.fit.learning import BOOST, Learned, Recipe, features
from streamjobs.fit.least_squares import Sums, head_of, sums_of
from streamjobs.fit.recordings import Recordings, in_order, joined
from streamjobs.settings.types import listed
from streamjobs.stages.population.units import unlike_most
from streamjobs.stages.smoothing import Smoothing

LOOKS = 0.7  # of a recording's windows, at least, are decided as another activity
USUAL = 0.1  # of other recordings with its label, at most, are, and of those of that activity as its label
OWN = 0.1  # of its windows, at most, are decided as its label, also where other recordings of its person teach
FEWEST = 10  # windows of a recording
MOST_NAMED = 10  # recordings, pairs of activities
MOST_COPIES = 5
LEAST_NORM = 1e-12
NO_SPREAD = 1e-9  # of the variance of all, where others have none
LEVERAGE = 3.0  # of a person's windows, 1 of those of all others
RIDGE = 0.01  # added to all variances, each 1, where numbers are compared together
GRAVITY = 0.5  # of the mean size of the acceleration, that its mean is at least
AGREE = 0.4  # length of the mean of others' unit vectors, below which they have no direction in common
TURNED = 60.0  # degrees between the accelerations of a person and of others in the same activities
HALF = 0.5  # right windows, below which a job is not worth running
TAKEN = 0.2  # of the windows of an activity, at least, are decided as one that most others are mistaken for
MATTERS = 0.005  # of accuracy
WEAK = 0.8  # accuracy of a person that asks for a look
LEAST_PEOPLE = 3  # who show how far people differ
OTHERS = 3  # people, of whom a mean is foretold
NORMAL = 1.6449  # 95 % of a normal distribution are below
WIDER = 1.25  # than Student's interval, because one person of many is far below the others
WORTH_IT = 0.01  # of accuracy, that makes more people worth their recordings
ROUGH = 7  # people; estimates of fewer are right less often
SIZES = 4  # of populations, at most
SERVED = 12  # people, at most
SERVE = 4  # people, who serve each other, at least
MORE = 5  # people, of whom the gain is estimated


class Curve(NamedTuple):
    """How well a new person is recognised by a population of fewer people, and what more people would gain.

    The error is taken to be a constant and a part in proportion to 1 / people, by least squares over the sizes.
    """

    people: list[int]  # in the population
    right: list[float]  # share of right windows, mean of the people served
    gain: float  # estimated of MORE people
    total: int  # people in the population to which they would come


def learning_curve(
    data: Recordings, recipe: Recipe, learned: Learned, late: int, progress: Callable[[], None] = lambda: None
) -> Curve | None:
    """People who serve each other; None with fewer than four. `progress` is called for each size, SIZES times at most.

    Scale and map are everybody's; heads are learned of so many people, drawn by a fixed seed. data: with convolutions in
    place. learned: of all; recipe: with the numbers of its filter.
    """
    people = np.unique(data.person).tolist()
    if len(people) < SERVE:
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


class Suspicious(NamedTuple):
    """A recording that looks as if it had the label of another activity."""

    person: str
    recording: str
    label: str
    looks: str
    windows: int
    like: int  # windows decided as `looks`
    usual: float  # share of the windows of other recordings with the label that are


class Confused(NamedTuple):
    truth: str
    decided: str
    share: float  # of the windows of `truth`


def of_others(shares: Array, recordings: int, least: float = 0.0, others: int = OTHERS) -> tuple[float, float]:
    """Between what the mean share of so many other people lies in 9 of 10 cases, if they are drawn as these people were.

    Student's interval, its quantile to second order in 1 / degrees of freedom, and WIDER. At least the chance that another
    recording is all wrong after none of so many `recordings` was (Laplace's rule of succession), because people who are all
    recognised alike do not show that others are. least: -1 for a gain, which may be a loss.
    """
    n, z = len(shares), NORMAL
    free = n - 1
    quantile = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    off, mean = WIDER * quantile * float(np.std(shares, ddof=1)) * np.sqrt(1 / n + 1 / others), float(np.mean(shares))
    off = max(off, 1.0 / (recordings + 2))
    return max(least, mean - off), min(1.0, mean + off)


def probably(people: int) -> str:
    """How often `of_others` of so many people held for other people."""
    return f"({8 if people < ROUGH else 9} of 10 times)"


class ByOthers:
    """What is decided of each window alone by a head of the other people."""

    def __init__(self, data: Recordings, recipe: Recipe, learned: Learned) -> None:
        """learned: of everybody; its scale and map are used."""
        self.data, self.teacher = data, recipe.teacher
        self.boost = BOOST * learned.people if recipe.boosts else recipe.head.boost
        self.Z = features(learned._replace(directions=None), recipe, data.X)
        self.sums = {person: self._sums(data.person == person) for person in np.unique(data.person).tolist()}

    def decided(self) -> Array:
        """(n,) classes."""
        found = np.empty(len(self.Z), np.int64)
        for person in self.sums:
            own = self.data.person == person
            found[own] = self._decided(own, person, [])
        return found

    def with_own(self, recording: int) -> Array:
        """The classes of a recording's windows, if the other recordings of its person teach too, as a person's labels do."""
        which = self.data.recording == recording
        person = int(self.data.person[which][0])
        own = self._sums((self.data.person == person) & ~which)
        return self._decided(which, person, [own._replace(gram=self.boost * own.gram, along=self.boost * own.along)])

    def _decided(self, which: Array, person: int, more: list[Sums]) -> Array:
        head = head_of(self.teacher, [one for other, one in self.sums.items() if other != person] + more)
        return np.asarray(self.teacher.predict(head, self.Z[which]).argmax(axis=1))

    def _sums(self, which: Array) -> Sums:
        return sums_of(self.Z[which], self.data.activity[which], len(self.data.names))


def suspicious(data: Recordings, decided: Array, with_own: Callable[[int], Array]) -> list[Suspicious]:
    """Recordings that look as another activity, the most certain first; decided, with_own: as of `ByOthers`."""
    ids, first, where = np.unique(data.recording, return_index=True, return_inverse=True)
    counts, total = np.zeros((len(ids), len(data.names))), np.zeros((len(data.names), len(data.names)))
    np.add.at(counts, (where, decided), 1)
    labels = data.activity[first]
    np.add.at(total, labels, counts)
    found = []
    for one, label, row in zip(counts, labels.tolist(), first.tolist(), strict=True):
        windows, looks, others = int(one.sum()), int(np.argmax(one)), total[label] - one
        if windows < FEWEST or one[looks] < LOOKS * windows or one[label] > OWN * windows or not others.sum():
            continue
        usual, back = others[looks] / others.sum(), total[looks, label] / max(1.0, total[looks].sum())
        recording = int(data.recording[row])
        if max(usual, back) <= USUAL and np.mean(with_own(recording) == label) <= OWN:
            who, names = data.people[data.person[row]], (data.names[label], data.names[looks])
            found.append(Suspicious(who, data.recordings[recording], *names, windows, int(one[looks]), float(usual)))
    return sorted(found, key=lambda one: one.usual - one.like / one.windows)


def confused(counts: Array, names: Sequence[str]) -> list[Confused]:
    """The pairs of activities that are confused most, by the share of the first."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    np.fill_diagonal(shares, 0.0)
    order = np.argsort(-shares, axis=None, kind="stable")[:MOST_NAMED]
    places = [divmod(int(place), len(names)) for place in order]
    return [Confused(names[i], names[j], float(shares[i, j])) for i, j in places if shares[i, j] >= WORTH_IT]


def takes_most(counts: Array, names: Sequence[str]) -> str | None:
    """The activity that more than half of the others are often mistaken for, as is a code of no activity.

    >>> takes_most(np.array([[9, 1, 1, 1], [5, 5, 0, 0], [5, 0, 5, 0], [1, 0, 0, 9]]), ["other", "run", "sit", "walk"])
    'other'
    >>> takes_most(np.array([[9, 1, 0], [5, 5, 0], [5, 0, 5]]), ["walk", "run", "sit"])  # of three it may be by chance
    """
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    np.fill_diagonal(shares, 0.0)
    often = (shares >= TAKEN).sum(axis=0)
    one = int(often.argmax())
    return names[one] if len(names) > 3 and 2 * often[one] > len(names) - 1 else None


def one_activity_twice(data: Recordings, counts: Array) -> list[str]:
    """Pairs of activities that are mistaken most and often for each other, and that no person both does.

    counts (classes, classes): windows by true and decided class, decided without labels of the person.
    """
    does = np.zeros((len(data.names), int(data.person.max()) + 1), bool)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    np.fill_diagonal(shares, 0.0)
    does[data.activity, data.person] = True
    first = shares.argmax(axis=1).tolist()
    pairs = [(a, b) for a, b in enumerate(first) if a < b and first[b] == a and min(shares[a, b], shares[b, a]) >= TAKEN]
    return [f"{data.names[a]} and {data.names[b]}" for a, b in pairs if not (does[a] & does[b]).any()]


def sentences(found: Sequence[Suspicious], pairs: Sequence[Confused], curve: Curve | None) -> list[str]:
    lines = []
    if pairs:
        each = ", ".join(f"{one.truth} as {one.decided} {one.share:.0%}" for one in pairs[:MOST_NAMED])
        lines.append(f"Most confused: {each}.")
    if curve is not None:
        each = ", ".join(f"{n} people {share:.3f}" for n, share in zip(curve.people, curve.right, strict=True))
        lines.append(
            f"Windows right by people in the population: {each}. {MORE} more people than {curve.total} would gain about "
            f"{curve.gain:.3f}, if the error keeps falling as 1 / people."
        )
    lines += [
        f"Looks mislabelled: recording {one.recording} of {one.person}, labelled {one.label}: {one.like} of {one.windows} "
        f"windows look like {one.looks} to a head of other people; in other recordings of {one.label} {one.usual:.0%} do."
        for one in found[:MOST_NAMED]
    ]
    if len(found) > MOST_NAMED:
        lines.append(f"{len(found) - MOST_NAMED} more recordings look mislabelled; the page and --json name them.")
    return lines


def adaptation(gains: Sequence[tuple[str, float]], recordings: int) -> str:
    """gains: of each person, the share of right windows with the person's labels over that without, same windows.

    recordings: of these people, if other people are to be estimated from them; 0: not.
    """
    by = sorted(gains, key=lambda one: -one[1])
    lost = [f"{name} {gain:+.3f}" for name, gain in by if gain < 0]
    text = f"Labels of the person gain {np.mean([gain for _, gain in by]):+.3f} on average; most: {by[0][0]} {by[0][1]:+.3f}"
    text += f"; they cost: {', '.join(lost[-MOST_NAMED:])}." if lost else "; no one loses."
    if len(by) < LEAST_PEOPLE or not recordings:
        return text
    low, high = of_others(np.array([gain for _, gain in by]), recordings, -1.0)
    return f"{text} {OTHERS} other people probably {probably(len(by))} gain {low:+.3f} to {high:+.3f}."


def advice(
    job: Array,
    still: Array | None,
    last: Array,
    names: Sequence[str],
    curve: Curve | None,
    bad: int,
    cold: Array | None = None,
    cause: str = "",
) -> str:
    """One paragraph. job, still, last, cold: accuracy of each person by the job, by a head that learns no label, by the last
    label, and by a head that learns only the person's own; bad: recordings that look mislabelled; cause: of most wrong
    windows of the worst person, where it is known."""
    mean = float(job.mean())
    said = []
    if last.mean() > mean:
        said.append(
            f"repeating the last label is right more often ({last.mean():.1%} against {mean:.1%}), because activities last "
            "long and labels come soon. If your labels come as soon, repeat the last label and run no model. Use this job "
            "if labels are rare, and judge it by the windows before a recording's first label"
        )
    elif mean < HALF:
        said.append(
            f"do not rely on this job: it is right in {mean:.1%} only. Teach fewer activities, or one in place of "
            "two that are confused"
        )
    elif still is not None and still.mean() >= mean - MATTERS / 5:
        said.append(
            f"run the job: it is right in {mean:.1%}, and labels of these people gain nothing. Collect labels of a new "
            "person who is recognised less often: labels may still help people who differ from these people"
        )
    else:
        said.append(f"run the job: it is right in {mean:.1%}, and repeating the last label in {last.mean():.1%}")
    if cold is not None and cold.mean() > mean:
        said.append(
            f"people differ too much here to teach each other: a head that learns only a person's own labels is right in "
            f"{cold.mean():.1%}. Remove [population] and what needs it"
        )
    if bad:
        what = "correct their labels, or leave out those in which the sensor was worn another way, and fit again"
        said.append(f"look at the recordings that look mislabelled: {what}")
    worst = int(job.argmin())
    if job[worst] < WEAK and mean - job[worst] > 2 * MATTERS:
        cause = cause or "how this person wears the sensor, and who moves alike"
        said.append(f"look at {names[worst]} ({job[worst]:.1%}): {cause}")
    if curve is not None:
        more = f"{MORE} more people (about {curve.gain:+.3f})"
        if curve.gain >= WORTH_IT:
            said.append(f"record {more}")
        elif curve.total < ROUGH:
            said.append(f"record {MORE} more people: {curve.total} people are too few to estimate what more people gain")
        else:
            said.append(f"{more} are hardly worth their recordings")
    return "Advice: " + ". ".join(one[0].upper() + one[1:] for one in said) + "."


def of_one_activity(data: Recordings) -> list[str]:
    """People who do a single activity, if they are most of the people: they cannot show how people differ."""
    does = Counter(person for person, _ in {*zip(data.person.tolist(), data.activity.tolist(), strict=True)})
    alone = [data.people[person] if data.people else str(person) for person, count in sorted(does.items()) if count == 1]
    return alone if 2 * len(alone) > len(does) > 1 else []


def copies(data: Recordings) -> Iterator[str]:
    """Recordings with most windows in an earlier one too, a sentence for all of them."""
    seen: dict[bytes, int] = {}
    firsts = [seen.setdefault(row.tobytes(), one) for row, one in zip(data.X, data.recording.tolist(), strict=True)]
    equal = Counter(pair for pair in zip(firsts, data.recording.tolist(), strict=True) if pair[0] != pair[1])
    owner, sizes = dict(zip(data.recording.tolist(), data.person.tolist(), strict=True)), Counter(data.recording.tolist())
    named = [
        f"{data.recordings[again]} of {data.people[owner[again]]} ({data.recordings[first]} of {data.people[owner[first]]})"
        for (first, again), count in equal.items()
        if 2 * count > sizes[again]
    ]
    if named:
        more = ", ..." if len(named) > MOST_COPIES else ""
        yield f"duplicate recordings make the figures too good: {', '.join(named[:MOST_COPIES])}{more}."


def other_units(taught: Recordings, columns: Sequence[str], new: Recordings | None = None) -> Iterator[str]:
    """A sentence for each person of `new`, or who taught, with windows in another unit than most others'."""
    data = taught if new is None else joined(taught, new)
    is_new = np.arange(len(data.X)) >= len(taught.X)
    does = Counter(person for person, _ in {*zip(data.person.tolist(), data.activity.tolist(), strict=True)})
    resting = {person for person, count in does.items() if 2 * count <= len(data.names)}  # or not: of few activities
    for person, what in unlike_most(columns, data.X[:, : len(columns)], data.person, is_new, resting):
        yield f"{data.people[person]}: {what}; convert it."


def turned(taught: Recordings, columns: Sequence[str], new: Recordings | None = None) -> Iterator[str]:
    """A sentence for people of `new`, or who taught, with a sensor that looks mounted another way than others' who taught.

    By the direction of gravity.

    Only of windows of `rich+gravity`: in other windows acceleration has no known fields, or the mounting does not matter.
    And only if the acceleration has gravity, and where the others agree: else means point anywhere.
    """
    data, teachers, named = taught if new is None else joined(taught, new), len(np.unique(taught.person)), list[str]()
    people = np.unique(data.person)  # first those who taught
    axes = [place for place, name in enumerate(columns) if name.endswith("_mean")][:3]
    size = [place for place, name in enumerate(columns) if name.endswith("_norm_mean")][:1]
    aligned = any(name.startswith("gravity_") and name.endswith("_vertical_mean") for name in columns)
    if teachers < LEAST_PEOPLE or len(axes) < 3 or not size or not aligned:
        return
    if np.linalg.norm(data.X[:, axes], axis=1).sum() < GRAVITY * data.X[:, size].sum():
        return
    means = np.full((len(people), len(data.names), 3), np.nan)
    for n, person in enumerate(people):
        for c in np.unique(data.activity[data.person == person]):
            mean = data.X[(data.person == person) & (data.activity == c)][:, axes].mean(axis=0)
            means[n, c] = mean / max(float(np.linalg.norm(mean)), LEAST_NORM)
    for n, own in enumerate(means):
        if new is not None and n < teachers:
            continue
        others = np.delete(means[:teachers], n, axis=0) if n < teachers else means[:teachers]
        usual, count = np.nansum(others, axis=0), np.isfinite(others[:, :, 0]).sum(axis=0)
        length = np.linalg.norm(usual, axis=1)
        there = np.isfinite(own[:, 0]) & (length > AGREE * count)
        cosines = (own[there] * usual[there]).sum(axis=1) / length[there]
        if there.any() and (angle := float(np.degrees(np.arccos(np.clip(np.median(cosines), -1.0, 1.0))))) > TURNED:
            named.append(f"{data.people[people[n]]} ({angle:.0f} degrees)")
    if named:
        yield (
            f"the sensor looks mounted another way than that of the other people: {listed(named, MOST_NAMED)}. If people "
            'mount it in any orientation, --choose shows whether [window] statistics = "gravity" is better.'
        )


def strangers(data: Recordings, columns: Sequence[str]) -> Iterator[str]:
    """A sentence for each person with windows unlike those of all others; columns: names of the statistics."""
    X = data.X[:, : len(columns)] - data.X[:, : len(columns)].mean(axis=0)
    total, products = X.sum(axis=0), X.T @ X
    squares = np.diag(products)
    for person in np.unique(data.person).tolist():
        own = X[data.person == person]
        others = len(X) - len(own)
        mean = (total - own.sum(axis=0)) / others
        variance = (squares - np.square(own).sum(axis=0)) / others - mean**2
        spread = variance > NO_SPREAD * squares / len(X)
        scale = np.sqrt(np.where(spread, variance, np.inf))
        rows = (own - mean) / scale
        together = ((products - own.T @ own) / others - np.outer(mean, mean)) / np.outer(scale, scale)
        cut = np.clip(rows, -FAR, FAR)
        apart = np.einsum("nd,nd->n", cut, np.linalg.solve(together + RIDGE * np.eye(len(scale)), cut.T).T) / len(scale)
        counts = Taken(rows=len(rows), outside=Counter(outside(columns, rows, 0.0, apart > LEVERAGE)))
        if counts.unlike:
            yield f"{data.people[person]}: {counts.unlike}"
