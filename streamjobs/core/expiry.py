"""Keys nothing has come of for [state] ttl begin anew: by their own event times, so a replay and a worker do the same.

A worker also removes such states when its partition's time has moved on (streamjobs.worker.idle_keys). That is not seen in
any output, as long as no record comes that is older by ttl than what its partition had before it.
"""

import math

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.job import Job
from streamjobs.core.state.live import Live


class Ttl:
    """Over the records of one batch, whose rows run through the stages together, after all of them were looked at."""

    def __init__(self, live: Live, seconds: float) -> None:
        self._live, self._seconds = live, seconds
        self._since: dict[int, float] = {}  # slot -> no later than its newest sample when the batch is done

    @classmethod
    def of(cls, job: Job, live: Live) -> "Ttl | None":
        """None where nothing expires; a pooled model is everybody's."""
        seconds = job.settings.state.ttl
        return cls(live, seconds) if seconds is not None and not live.pooled else None

    def concerns(self, slots: list[int], times: Array) -> bool:
        """Whether one of these keys may be expired by one of these times (n,); rarely true where none is."""
        newest = self._live.newest(slots)
        known = np.isfinite(newest)
        oldest = [self._live.oldest_held(slots[at]) for at in np.flatnonzero(~known).tolist()]
        lowest = min(float(times.min()), *oldest, *newest[known].tolist())
        return float(times.max()) - lowest > self._seconds

    def splits(self, slot: int, time: float) -> bool:
        """Lets the slot's key begin anew where a new record of this time finds it expired.

        True: that cannot be said before its rows in this batch are applied; the batch must end before this record.
        """
        since = self._since.get(slot)
        if since is None:
            newest = float(self._live.newest([slot])[0])
            if math.isfinite(newest) and time - newest > self._seconds:
                self._live.renew(slot)
                newest = -math.inf
            self._since[slot] = min(time, newest if math.isfinite(newest) else self._live.oldest_held(slot))
            return False
        if time - since > self._seconds:
            return True
        self._since[slot] = min(since, time)
        return False
