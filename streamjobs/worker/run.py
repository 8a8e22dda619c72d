"""`run`: a worker from its settings to its exit code.

Exit codes: 0 stopped on request (or, with `once`, having caught up), 1 failed while running, 2 settings, 3 surroundings
(no broker, a missing topic, wrong partitions, a port in use). A failure is one line on stderr.
"""

import asyncio
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import structlog

from streamjobs import process
from streamjobs.core.interface import Core
from streamjobs.kafka.patches.connections import Answered
from streamjobs.process import nothing_to_save
from streamjobs.settings.learners import with_name
from streamjobs.settings.sections import Settings
from streamjobs.worker import logs
from streamjobs.worker.failures import TimeoutAtStop, exit_code, failure_line
from streamjobs.worker.health import Health, Server
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.watchdog import Watchdog

log = structlog.get_logger("streamjobs")

STOP_WITHIN = 30.0  # seconds for the last checkpoint and leaving the group
FAIL_WITHIN = 10.0  # seconds for leaving the group after a failure: nothing is made safe any more
GIVE_UP = 10.0  # seconds more, then the process ends hard: all that is acknowledged is safe
COLLECT = (50_000, 20, 50)  # a fetched batch is thousands of tuples, and none of them part of a cycle
TURN = 0.1  # seconds between two looks at whether it has caught up


def run(settings: Settings, make_core: Callable[[], Core], *, once: bool = False, debug: bool = False) -> int:
    """Run a worker until SIGTERM or SIGINT (exit 0), a failure (1 to 3), or with `once` until it has caught up (0).

    `once` means: every assigned partition reached the end it had at the start. What `make_core` raises ends it too.
    """
    nothing_to_save()  # also while compiling; the loop takes the signals over when it runs
    logs.configure(debug=debug)
    try:
        _run(settings, make_core(), once=once)
    except Exception as error:  # noqa: BLE001 - the last line before the exit code
        return _failed(error, debug)
    return 0


def _failed(error: BaseException, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    print(f"streamjobs: {failure_line(error)}", file=sys.stderr, flush=True)
    return exit_code(error)


def _run(settings: Settings, core: Core, *, once: bool) -> None:
    from streamjobs.kafka.preflight import Found, probe

    drift = settings.drift
    metrics = Metrics(
        settings.source.topic,
        core.job.model,
        with_name(drift.detector)[0] if drift is not None else "",
        core.job.sinks.values(),
        [with_name(control)[0] for control in drift.beside] if drift is not None else (),
    )
    health = Health(metrics)
    server = Server(settings.metrics, health)
    port = server.start()
    log.info("serving /metrics and /health", host=settings.metrics.host, port=port)
    try:
        found: Found = probe(settings, core.job)
        begun = time.perf_counter()
        process.load_lapack()
        log.info("compiling learner loops (a moment on the first run, cached afterwards)")
        core.job.compile()
        log.info("learner loops compiled", seconds=round(time.perf_counter() - begun, 1))
        gc.collect()
        gc.freeze()  # modules and compiled loops are not looked through again
        gc.set_threshold(*COLLECT)
        gc.enable()
        worker = _Worker(settings, core, metrics, health)
        try:
            asyncio.run(worker.run(found, found.ends if once else None))
        finally:
            left = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
            if worker.last_resort is not None and not left:
                worker.last_resort.cancel()  # nothing is left that could hang
    except BaseException as error:
        health.state, health.reason = "failed", failure_line(error)
        raise
    finally:
        server.stop()


class _Worker:
    def __init__(self, settings: Settings, core: Core, metrics: Metrics, health: Health) -> None:
        self.settings, self.core, self.metrics, self.health = settings, core, metrics, health
        self.asked = asyncio.Event()  # to stop
        self.code = 0
        self.last_resort: threading.Timer | None = None  # while it stops

    async def run(self, found: Any, ends: dict[int, int] | None) -> None:
        """Until asked to stop, caught up, or failed: then it raises what it failed on."""
        from streamjobs.worker.app import build

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked)
        app = build(self.settings, self.core, self.metrics, found.partitions, found.input_id)
        app.consumer.passing = ends is not None
        starting = asyncio.ensure_future(app.start())
        signals = (self._watch(app, ends), self.asked.wait(), app._crashed.wait(), app.delivery.failing.wait())
        ending = [starting, *map(asyncio.ensure_future, signals)]
        try:
            failed = await self._until(ending, starting) or app.delivery.failed or app.crash_reason
            if failed is not None:
                app.delivery.fail(failed)
                self.health.state, self.health.reason, self.code = "failed", failure_line(failed), exit_code(failed)
            else:
                self.health.state = "stopping"
                log.info("stopping: no more fetching, a last checkpoint, leaving the group")
            await self._stop(app, failed)
        finally:
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        log.info("stopped", dropped_batches=app.delivery.dropped, **self.metrics.totals)

    async def _until(self, ending: "list[asyncio.Future[Any]]", starting: "asyncio.Future[Any]") -> BaseException | None:
        """Until one of them ends other than by having started; gives what it failed on."""
        waiting = set(ending)
        while True:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.exception() is not None:
                    return task.exception()
            if done != {starting}:
                return None

    async def _watch(self, app: Any, ends: dict[int, int] | None) -> None:
        """Tells /health that the loop turns and what the worker does; ends when it has caught up, if it is to.

        Raises DeliveryError when the worker is stuck.
        """
        delivery = app.delivery
        watchdog = Watchdog(self.settings, delivery, self.metrics, input_id=delivery.input_id)
        while True:
            await watchdog.look()
            self.health.turned, self.health.answered = time.monotonic(), Answered.at
            if self.health.state in ("recovering", "running"):
                self.health.state = "recovering" if delivery.barrier else "running"
            if ends is not None and not delivery.barrier and delivery.finished(ends, app.consumer.passed):
                log.info("caught up with the end the input had at the start")
                return
            await asyncio.sleep(TURN)

    async def _stop(self, app: Any, failed: BaseException | None) -> None:
        """Stop the app, then raise what it failed on, before or in stopping; TimeoutAtStop when that takes too long."""
        within, late = STOP_WITHIN if failed is None else FAIL_WITHIN, False
        # A process that hangs after all is ended hard; what is acknowledged is safe.
        self.last_resort = threading.Timer(within + GIVE_UP, self._give_up)
        self.last_resort.daemon = True
        self.last_resort.start()
        try:
            await asyncio.wait_for(app.stop(), within)
        except TimeoutError:
            late = True
        failed = failed or app.delivery.failed
        if failed is not None:
            raise failed
        if late:
            raise TimeoutAtStop(
                f"the last checkpoint did not come through within {STOP_WITHIN:.0f} s (no broker?); what is not "
                "acknowledged is read again at the next start."
            )

    def _give_up(self) -> None:
        if self.health.reason:  # what it failed on would be told after all has ended
            print(f"streamjobs: {self.health.reason}", file=sys.stderr, flush=True)
        os._exit(self.code or 1)

    def _asked(self) -> None:
        if self.asked.is_set():
            os._exit(130)  # asked twice: at once
        self.asked.set()
