"""Which batches of a partition came lately: batches are counted by the core, which has no clock."""

from collections import deque

LATELY = 300.0  # seconds
STEP = 1.0  # seconds between two marks


class Recent:
    """Marks of (moment, batches so far), a second apart."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        self._last = (float("-inf"), 0)

    def note(self, moment: float, batches: int) -> None:
        """So many batches have been applied at this moment, in seconds of a clock that never goes back."""
        self._last = moment, batches
        if not self._marks or moment - self._marks[-1][0] >= STEP:
            self._marks.append(self._last)
            while len(self._marks) > 1 and self._marks[1][0] <= moment - LATELY:
                self._marks.popleft()

    def before(self, moment: float) -> int:
        """Batches that are longer ago than LATELY, to a second."""
        begin = moment - LATELY
        if self._last[0] <= begin:
            return self._last[1]
        return max((batches for marked, batches in list(self._marks) if marked <= begin), default=0)
