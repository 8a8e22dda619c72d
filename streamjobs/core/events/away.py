"""Open alarms of keys that are not live: after a restart their states are only stored, and keys leave for want of room.

They are read a few at a time, for the page and the metrics. No output and no state depends on them.
"""

from collections.abc import Callable, Iterator

from streamjobs.core import alarms
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.slots import FIRST_SLOTS
from streamjobs.core.messages import ShownAlarm
from streamjobs.errors import ForeignStateError

MOST_READ = 1000  # keys of a partition with alarms that can be shown; more are only counted


def read_open(job: Job, live: Live, scan: Callable[[bytes | None, int], list[tuple[bytes, bytes]]]) -> Iterator[bool]:
    """Each step reads a few keys into `live.away`, and gives whether more wait to be read. It does not end.

    Call it between two calls of `advance` and while all that `snapshots` gave is stored. scan: as of a store.
    """
    after, read = None, _Reader(job, live)
    while live.lasting and (some := scan(after, FIRST_SLOTS)):
        after = some[-1][0]
        others = live.slot_of, live.parked, live.away, live.aside
        read({key: data for key, data in some if not any(key in one for one in others)})
        yield True
    while True:
        unread = [key for key, shown in live.away.items() if shown is None][:FIRST_SLOTS]
        stored = [live.parked.get(key) or live.read_many([key])[0] for key in unread]
        read({key: data for key, data in zip(unread, stored, strict=True) if data is not None})
        yield bool(unread)


class _Reader:
    """Reads snapshots by live states of its own, which it makes when there is something to read."""

    def __init__(self, job: Job, live: Live) -> None:
        self._job, self._live = job, live
        self._own: Live | None = None

    def __call__(self, found: dict[bytes, bytes]) -> None:
        if not found:
            return
        own = self._own = self._own or Live(self._job, most_bytes=0)
        own.read_many = lambda keys: [found[key] for key in keys]
        try:
            own.enter(list(found))
        except ForeignStateError:  # the next record of the key ends the worker, with the reason
            return
        by_text: dict[str, list[ShownAlarm]] = {}
        for alarm in self._opened(own):
            by_text.setdefault(alarm.key, []).append(alarm)
        away = self._live.away
        for key in found:
            slot = own.slot_of.get(key)
            if slot is not None and (of_key := by_text.get(own.text_of[slot])) is not None:
                away[key] = of_key if len(away) < MOST_READ else []
            else:
                away.pop(key, None)
            own.forget(key)

    def _opened(self, own: Live) -> list[ShownAlarm]:
        if self._job.steps.stuck is not None:
            from streamjobs.core import sensor_alarms  # few jobs have them

            return sensor_alarms.open_of_live(self._job, own)
        return alarms.open_of_live(self._job, own, own.keys * len(self._job.watches))[1]
