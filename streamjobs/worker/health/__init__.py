"""What a worker is doing, as /health, /live and /ready report it; `server` serves them."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Protocol

from streamjobs.worker.metrics import Metrics

STALLED = 60.0  # seconds behind without a commit, without an answer of a broker, or without a turn of the event loop


class Pages(Protocol):
    """Serves more paths in the event loop of the server's thread; see `streamjobs.worker.page.Looks`."""

    def begin(self, loop: asyncio.AbstractEventLoop, port: int) -> None: ...
    def serves(self, path: str) -> bool: ...
    async def answer(self, request: Any, connection: Any) -> Any: ...  # of aiohttp, which is not loaded here
    def close(self) -> None: ...


Answer = tuple[int, dict[str, Any]]  # HTTP status, JSON


@dataclass
class Health:
    """What the worker is doing; written by its event loop, read by the server's thread."""

    metrics: Metrics
    state: str = "starting"  # starting | recovering | running | stopping | failed
    reason: str = ""  # why it failed
    waits_for: str = "no broker has answered yet"  # while starting
    last_turn: float = 0.0  # time.monotonic() of the event loop's last turn, 0: not started
    last_answer: float = 0.0  # time.monotonic() of a broker's last answer, 0: none yet
    leaderless: str = ""  # why partitions of this worker wait, see `leaders`

    def answer(self, now: float | None = None) -> Answer:
        """200 while starting, recovering or running (and not stalled), 503 otherwise."""
        metrics = self.metrics
        moment = time.monotonic() if now is None else now
        partitions = metrics.partitions()
        lags = {str(one.number): metrics.lag_of(one) for one in partitions}
        waiting = {one.number: moment - one.waiting_since for one in partitions if lags[str(one.number)]}
        late = sorted(number for number, seconds in waiting.items() if seconds > STALLED)
        stalled = self._stands_still(moment) or self._silence(moment)
        if not stalled and self.metrics.waiting_for_schemas() > STALLED:
            stalled = self._waits_for_schemas()
        if not stalled and self.state == "running" and late:
            which, longest = ", ".join(map(str, late)), max(waiting.values())
            stalled = (
                f"records of partition {which} are waiting, and none of their offsets was committed for {longest:.0f} s"
            )
        starting = self.waits_for if self.state == "starting" else ""
        healthy = self.state in ("starting", "recovering", "running") and not stalled
        return (200 if healthy else 503), {
            "state": self.state,
            "healthy": healthy,
            "reason": self.reason or stalled or starting or self.leaderless,
            "partitions": sorted(int(number) for number in lags),
            "lag": lags,
            "last_commit_age_seconds": max(0, round(time.time() - metrics.last_commit, 3)) if metrics.last_commit else None,
            "recovery_remaining_records": metrics.remaining,
            "keys_set_aside": metrics.keys_set_aside(),
        }

    def live(self, now: float | None = None) -> Answer:
        """200 while the event loop turns, or before it has started; a restart helps where it is 503."""
        stalled = self._stands_still(time.monotonic() if now is None else now)
        return (503 if stalled else 200), {"live": not stalled, "reason": stalled}

    def ready(self, now: float | None = None) -> Answer:
        """200 while all its partitions have leaders, their states are recovered and a broker answers; 503 otherwise."""
        moment = time.monotonic() if now is None else now
        if self.state == "running":
            reason = self._stands_still(moment) or self._silence(moment) or self._waits_for_schemas() or self.leaderless
        elif self.state == "starting":
            reason = self.waits_for
        elif self.state == "recovering":
            left = self.metrics.remaining
            reason = self._stands_still(moment) or self._silence(moment)
            reason = reason or (
                f"{left} changelog records are still to be read" if left else "the worker does not have its partitions yet"
            )
        else:
            reason = self.reason or f"the worker is {self.state}"
        return (503 if reason else 200), {"ready": not reason, "reason": reason}

    def _stands_still(self, now: float) -> str:
        if self.last_turn and now - self.last_turn > STALLED:
            return f"the worker's event loop has not run for {now - self.last_turn:.0f} s"
        return ""

    def _waits_for_schemas(self) -> str:
        seconds, lookup = self.metrics.waiting_for_schemas(), self.metrics.lookup
        return f"{lookup.problem}, for {seconds:.0f} s" if lookup is not None and lookup.problem else ""

    def _silence(self, now: float) -> str:
        if self.last_answer and now - self.last_answer > STALLED:
            return f"no broker has answered for {now - self.last_answer:.0f} s"
        return ""
