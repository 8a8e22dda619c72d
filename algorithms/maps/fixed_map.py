"""What fixed maps share: their features follow from the settings, and a key's state only counts."""

from typing import NamedTuple

from algorithms.common.protocol import Learner

LARGEST_WIDTH = 20_000  # most features of a row


class MapState(NamedTuple):
    dim: int  # length of x
    seen: int  # rows so far; the map is a matter of settings


class FixedMap(Learner, abstract=True):
    """A base, not a learner."""

    __slots__ = ()

    def init(self, *, dim: int, targets: int, seed: int) -> MapState:
        return MapState(dim, 0)

    def dim(self, state: MapState) -> int:
        return state.dim
