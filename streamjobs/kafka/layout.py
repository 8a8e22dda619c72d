"""The number of partitions that a job's states are laid out for, kept as metadata of its group's committed offsets.

A producer chooses a key's partition by the number of partitions. When partitions are added to the input, some keys move:
their next records come in a new partition, while their states are still with the old one. No worker may apply such a
record before the state has moved. The changelog's own number of partitions does not tell whether the states have moved,
because it has to grow first. So each commit says for how many partitions the states of its partition are laid out.
"""

from collections.abc import Mapping
from typing import NamedTuple

from streamjobs.errors import SetupError

MARK = "partitions="  # in a commit's metadata, before the number
STEPS = (
    "No state is lost. Stop all workers, run 'streamjobs topics grow JOB', 'streamjobs run JOB --drain' and 'streamjobs "
    "state repartition JOB', then start them again."
)


class Commit(NamedTuple):
    offset: int  # of the input, the next one
    metadata: str


class Growth(NamedTuple):
    """Partitions were added to the input, and states have not moved yet."""

    before: int  # partitions that there were
    waiting: frozenset[int]  # of these, the partitions with states that still have to move


def mark(partitions: int) -> str:
    """A word of a commit's metadata.

    >>> mark(4), marked(f"changelog=x {mark(4)}"), marked("")
    ('partitions=4', 4, None)
    """
    return f"{MARK}{partitions}"


def marked(metadata: str | None) -> int | None:
    """The number of partitions in a commit's metadata; None in a commit of release 0.2.0 or earlier."""
    numbers = [word.removeprefix(MARK) for word in (metadata or "").split() if word.startswith(MARK)]
    return int(numbers[0]) if numbers and numbers[0].isdecimal() else None


def growth(commits: Mapping[int, Commit], partitions: int) -> Growth | None:
    """What is pending, None where nothing is. commits: of the group, by partition; partitions: of the input.

    Earlier releases left no marks: there, new partitions are those at the end without a commit, if all before have one.

    >>> growth({0: Commit(7, "partitions=2"), 1: Commit(9, "partitions=2")}, 4)
    Growth(before=2, waiting=frozenset({0, 1}))
    >>> growth({0: Commit(7, "")}, 2), growth({0: Commit(7, "partitions=2")}, 2), growth({}, 2)
    (Growth(before=1, waiting=frozenset({0})), None, None)
    """
    marks = {number: marked(commit.metadata) for number, commit in commits.items()}
    fewer = [count for count in marks.values() if count is not None and count < partitions]
    if fewer:
        before = min(fewer)
    elif set(marks.values()) == {None} and set(commits) == set(range(len(commits))):
        before = len(commits)
    else:
        return None
    if before >= partitions:
        return None
    return Growth(before, frozenset(number for number in range(before) if marks.get(number) != partitions))


def require_laid_out(topic: str, pending: Growth | None, partitions: int) -> None:
    """Raises SetupError while states have not moved to the partitions that their keys belong to."""
    if pending is not None:
        raise SetupError(
            f"topic {topic} (input): it has {partitions} partitions, and this job's states are laid out for "
            f"{pending.before}; records in the new partitions wait until the states have moved. Run 'streamjobs run JOB "
            "--drain', which finishes the old partitions, then 'streamjobs state repartition JOB'."
        )


def require_same_count(topic: str, before: int, now: int | None) -> None:
    """Raises SetupError when partitions were added to a worker's input. now: None where it is not known."""
    if now is not None and now > before:
        raise SetupError(
            f"topic {topic} (input): partitions were added ({before} before, {now} now), and keys move to them. {STEPS}"
        )


def grown(topic: str, partitions: int, behind: Mapping[str, int]) -> str:
    """The sentence for an input that has more partitions than the job's topics. behind: their partitions by name."""
    listed = ", ".join(f"{name} {count}" for name, count in sorted(behind.items()))
    return (
        f"topic {topic} (input): it has {partitions} partitions, but other topics of this job have fewer ({listed}). {STEPS}"
    )
