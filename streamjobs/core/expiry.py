"""Keys idle longer than [state] ttl start over: by their own event times, so a replay and a worker do the same.

A worker also removes such states once its partition's time has moved on (streamjobs.worker.idle_keys). No output shows it,
unless a record comes that is older by ttl than what its partition had before.
"""

import math

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live


class Ttl:
    """Decides over the records of one batch; their rows run through the stages together, after all were admitted."""

    def __init__(self, live: Live, seconds: float) -> None:
        self._live, self._seconds = live, seconds
        self._since: dict[int, float] = {}  # slot -> no later than its newest sample when the batch is done

    @classmethod
    def of(cls, job: Job, live: Live) -> "Ttl | None":
        """None if nothing expires: no ttl, or a pooled model, which all keys share."""
        seconds = job.settings.state.ttl
        return cls(live, seconds) if seconds is not None and not live.pooled else None

    def may_expire(self, slots: list[int], times: Array) -> bool:
        """Whether one of these keys may have expired by one of these times (n,); rarely true without need."""
        newest = self._live.newest(slots)
        known = np.isfinite(newest)
        oldest = [self._live.oldest_held(slots[at]) for at in np.flatnonzero(~known).tolist()]
        lowest = min(float(times.min()), *oldest, *newest[known].tolist())
        return float(times.max()) - lowest > self._seconds

    def must_split(self, slot: int, time: float) -> bool:
        """Start the slot's key over if a new record of this time finds it expired.

        True: its rows in this batch must be applied first to know; the batch must end before this record.
        """
        since = self._since.get(slot)
        if since is None:
            newest = float(self._live.newest([slot])[0])
            if math.isfinite(newest) and time - newest > self._seconds:
                self._live.start_over(slot)
                newest = -math.inf
            self._since[slot] = min(time, newest if math.isfinite(newest) else self._live.oldest_held(slot))
            return False
        if time - since > self._seconds:
            return True
        self._since[slot] = min(since, time)
        return False
