"""The protocol of `tests.worker.two_clocks` keeps its promises in every order of steps, and each planted bug breaks one."""

import pytest

from tests.worker.two_clocks import BUGS, GUARANTEES, Model, Violation

# Keys of the input's records, their ttl, and whether metadata is lost and a key forgotten.
SMALL = (
    ((0, 1, 0), 2, True),
    ((1, 0, 1), 0, False),
    ((0, None, 0), 2, False),
)  # the second has an idle key, the third a letter
LARGE = ((1, 0, 1, 1), 1, True), ((0, 0, 1, 0), 2, True), ((0, 1, 0, 1), 2, True)
HARMLESS = {  # exactly_once has one step where at_least_once has three
    "tombstone with its R",
    "forget ignores snapshots",
    "changelog after commit",
    "commit before outputs",
}


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_no_order_of_steps_and_crashes_breaks_a_promise(guarantee: str) -> None:
    assert [Model(keys, guarantee, ttl=ttl, tools=tools).walk() > 500 for keys, ttl, tools in SMALL] == [True] * 3


@pytest.mark.long
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize(("keys", "ttl", "tools"), LARGE)
def test_nor_in_a_larger_world(keys: tuple[int, ...], ttl: int, tools: bool, guarantee: str) -> None:
    assert Model(keys, guarantee, ttl=ttl, tools=tools).walk() > 10_000


@pytest.mark.parametrize(
    ("bug", "guarantee"),
    [(bug, guarantee) for bug in BUGS for guarantee in GUARANTEES if guarantee == "at_least_once" or bug not in HARMLESS],
)
def test_every_planted_bug_breaks_a_promise(bug: str, guarantee: str) -> None:
    with pytest.raises(Violation):
        for keys, ttl, tools in SMALL:
            Model(keys, guarantee, bug, ttl=ttl, tools=tools).walk()
