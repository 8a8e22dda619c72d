"""Heads of many keys, where a key has a row of its own only from its first label on.

A row without a label changes nothing of a linear head but the number of its rows, `seen`. So the keys that have had no label
share row 0, the head of a new key, which nothing writes; what each of them has is its `seen`. The results are the same bits.
"""

from collections.abc import Callable, Sequence

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.linalg import missing
from algorithms.common.protocol import LEARN_HEAD, Array, Learner, State
from algorithms.common.workspace import Workspace

FIRST_ROWS = 2
GROWS = 4  # rows grow by a quarter, as slots do


class HeadRows:
    """A workspace of heads for `slots` keys; `start`: the state of a new key.

    most: gives the most rows that may be there. evict: makes so many keys leave that have a row, or as many as may leave.
    """

    __slots__ = ("evict", "free", "head", "most", "row_of", "rows", "seen", "start")

    def __init__(self, head: Learner, start: State, slots: int) -> None:
        self.head, self.start = head, start
        self.rows = head.workspace(start, slots=FIRST_ROWS)
        head.load(self.rows, 0, start)
        self.free = list(range(FIRST_ROWS - 1, 0, -1))
        self.row_of = np.zeros(slots, np.int64)  # 0: the key has had no label
        self.seen = Workspace((np.zeros(slots, np.int64), np.zeros((slots, 0), np.int64)), ("seen", "counts"))
        self.most: Callable[[], int] = lambda: 1 << 62
        self.evict: Callable[[int], object] = lambda keys: None

    @property
    def taken(self) -> int:
        return int(self.rows.slots) - 1 - len(self.free)

    @property
    def row_bytes(self) -> int:
        return int(self.rows.nbytes) // int(self.rows.slots)

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + self.slot_nbytes

    @property
    def slot_nbytes(self) -> int:
        """Without the rows."""
        return self.row_of.nbytes + self.seen.nbytes

    def grow(self, slots: int) -> None:
        self.row_of = np.concatenate([self.row_of, np.zeros(slots - len(self.row_of), np.int64)])
        self.seen.grow(slots)

    def begin(self, slots: Array) -> None:
        self.release(slots)
        self.seen.arrays[0][slots] = self.start[-1]

    def release(self, slots: Array) -> None:
        """These slots need no rows of their own any more."""
        rows = self.row_of[slots]
        self.free += rows[rows > 0].tolist()
        self.row_of[slots] = 0

    def own(self, slots: Sequence[int], *, blank: bool = False) -> None:
        """A row of its own for each of these different slots. blank: the caller fills the new ones."""
        wanted = np.array(slots, np.int64)
        wanted = wanted[self.row_of[wanted] == 0]
        if len(wanted) > len(self.free):
            self._more(len(wanted) - len(self.free))
        rows = np.array([self.free.pop() for _ in wanted], np.int64)
        self.row_of[wanted] = rows
        if not len(rows):
            return
        constant = self.head.constant(self.start)
        for name, array in zip(self.rows.names, self.rows.arrays, strict=True):
            if not blank or name in constant:
                array[rows] = array[0]
        if blank:
            return
        self.rows["seen"][rows] = self.seen.arrays[0][wanted]

    def _more(self, rows: int) -> None:
        now = int(self.rows.slots)
        possible = max(0, self.most() - now)
        if rows > possible:
            had = len(self.free)
            self.evict(rows - possible)
            rows -= len(self.free) - had
        if rows > 0:
            grown = now + max(rows, min(now // GROWS, possible))
            self.rows.grow(grown)
            self.free = [*range(grown - 1, now - 1, -1), *self.free]

    def enter(self, slots: Array, X: Array, Y: Array, learn: Array) -> tuple[Array, Array]:
        """The row of each of the rows X, and what it may teach that row; `seen` of the others counts them."""
        n = len(slots)
        labelled, out = np.empty(n, np.bool_), (np.empty(n, np.int64), np.empty(n, np.int8))
        if _first_labels(slots, X, Y, learn, self.row_of, self.seen.arrays[0], labelled, out):
            self.own(np.unique(slots[labelled]).tolist())
            _share(slots, X, learn, self.row_of, self.seen.arrays[0], out)
        return out

    def taught(self, slots: Sequence[int]) -> Array:
        """(k,) bool: slots with a head that differs from a new key's in more than `seen`. Other rows become free."""
        at = np.array(slots, np.int64)
        rows = self.row_of[at]
        differs = rows > 0
        like = rows.copy()  # 0 once a difference is known
        for array in self.rows.arrays[: len(self.start) - 1]:
            if not like.any():
                break
            _compare(array.reshape(-1).view(np.uint8).reshape(len(array), -1), like)
        same = at[like > 0]
        if len(same):
            self.seen.arrays[0][same] = self.rows["seen"][self.row_of[same]]
            self.release(same)
            differs[like > 0] = False
        return differs

    def load(self, slot: int, state: State) -> None:
        # Whether nothing but `seen` differs from the state of a new key.
        pairs = zip(state[:-1], self.start[:-1], strict=True)
        if all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in pairs):
            self.release(np.array([slot]))
            self.seen.arrays[0][slot] = state.seen
            return
        self.own([slot], blank=True)
        self.head.load(self.rows, int(self.row_of[slot]), state)

    def save(self, slot: int, like: State) -> State:
        row = int(self.row_of[slot])
        state = self.head.save(self.rows, row, like)
        return state if row else state._replace(seen=int(self.seen.arrays[0][slot]))


@compiled
def _first_labels(slots, X, Y, learn, row_of, seen, labelled, out):
    """How many rows teach a head that has no row of its own; without any, shares the rows."""
    count = 0
    for n in range(slots.size):
        labelled[n] = row_of[slots[n]] == 0 and learn[n] & LEARN_HEAD and not missing(Y[n]) and not missing(X[n])
        count += labelled[n]
    if count == 0:
        _share(slots, X, learn, row_of, seen, out)
    return count


@compiled
def _share(slots, X, learn, row_of, seen, out):
    rows, may_learn = out
    for n in range(slots.size):
        slot = slots[n]
        rows[n], may_learn[n] = row_of[slot], learn[n]
        if rows[n] == 0 and learn[n] & LEARN_HEAD:
            may_learn[n] = learn[n] - LEARN_HEAD
            if not missing(X[n]):
                seen[slot] += 1


@compiled
def _compare(data, rows):
    """rows become 0 where their bytes differ from those of row 0."""
    for n in range(rows.size):
        row = rows[n]
        for b in range(data.shape[1]):
            if data[row, b] != data[0, b]:
                rows[n] = 0
                break
