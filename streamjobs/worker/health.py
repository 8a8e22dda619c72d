"""/metrics and /health of a worker, served by a thread of their own: they answer while the worker's event loop is busy."""

import asyncio
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from streamjobs.errors import SetupError
from streamjobs.settings.sections import MetricsSection
from streamjobs.worker.metrics import Metrics

STALLED = 60.0  # seconds behind without a commit, without an answer of a broker, or without a turn of the event loop

Answer = tuple[int, dict[str, Any]]  # HTTP status, JSON


@dataclass
class Health:
    """What the worker is doing; written by its event loop, read by the server's thread."""

    metrics: Metrics
    state: str = "recovering"  # recovering | running | stopping | failed
    reason: str = ""  # why it failed
    last_turn: float = 0.0  # time.monotonic() of the event loop's last turn, 0: not started
    last_answer: float = 0.0  # time.monotonic() of a broker's last answer, 0: none yet

    def answer(self, now: float | None = None) -> Answer:
        """200 while recovering or running (and not stalled), 503 otherwise."""
        metrics, clock = self.metrics, time.time()
        moment = time.monotonic() if now is None else now
        partitions = metrics.partitions()
        lags = {str(one.number): metrics.lag_of(one) for one in partitions}
        age = clock - (metrics.last_commit or metrics.started)
        waiting = {one.number: moment - one.committed_at for one in partitions if lags[str(one.number)]}
        late = sorted(number for number, seconds in waiting.items() if seconds > STALLED)
        stalled = ""
        if self.last_turn and moment - self.last_turn > STALLED:
            stalled = f"the worker's event loop has not run for {moment - self.last_turn:.0f} s"
        elif self.last_answer and moment - self.last_answer > STALLED:
            stalled = f"no broker has answered for {moment - self.last_answer:.0f} s"
        elif self.state == "running" and any(lags.values()) and age > STALLED:
            stalled = f"records are waiting, and no offset was committed for {age:.0f} s"
        elif self.state == "running" and late:
            which = ", ".join(map(str, late))
            longest = max(waiting.values())
            stalled = f"records of partition {which} are waiting, and no offset of theirs was committed for {longest:.0f} s"
        healthy = self.state in ("recovering", "running") and not stalled
        return (200 if healthy else 503), {
            "state": self.state,
            "healthy": healthy,
            "reason": self.reason or stalled,
            "partitions": sorted(int(number) for number in lags),
            "lag": lags,
            "last_commit_age_seconds": round(age, 3) if metrics.last_commit else None,
            "recovery_remaining_records": metrics.remaining,
        }


def _reason(problem: OSError) -> str:
    """The system's words alone: asyncio's repeat the address."""
    return os.strerror(problem.errno) if problem.errno and problem.errno > 0 else str(problem)


class Server:
    """Serves until `stop`. `port` is the chosen one when the settings say 0."""

    def __init__(self, settings: MetricsSection, health: Health) -> None:
        self._settings, self._health = settings, health
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._problem: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self.port = settings.port

    def start(self) -> int:
        """Raises SetupError when the port is taken."""
        self._thread.start()
        self._started.wait()
        if self._problem is not None:
            raise SetupError(
                f"[metrics] {self._settings.host}:{self._settings.port}: cannot listen ({_reason(self._problem)}); "
                "another worker may already use it. Set [metrics] port to another one, or to 0 for any free port."
            )
        return self.port

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)

    def _run(self) -> None:
        runner = web.AppRunner(self._app(), access_log=None, handle_signals=False, shutdown_timeout=1.0)
        try:
            self._loop.run_until_complete(self._listen(runner))
        except OSError as problem:
            self._problem = problem
        self._started.set()
        if self._problem is None:
            self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _listen(self, runner: web.AppRunner) -> None:
        await runner.setup()
        site = web.TCPSite(runner, self._settings.host, self._settings.port)
        await site.start()
        self.port = runner.addresses[0][1]

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/health", self._answer)
        return app

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, kind = choose_encoder(request.headers.get("Accept", ""))  # exemplars are in OpenMetrics only
        return web.Response(body=encode(self._health.metrics.registry), headers={"Content-Type": kind})

    async def _answer(self, request: web.Request) -> web.Response:
        status, body = self._health.answer()
        return web.json_response(body, status=status)
