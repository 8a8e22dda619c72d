"""`run`: a worker from its settings to its exit code.

Exit codes: 0 stopped on request (or, with `once`, having caught up), 1 failed while running (or, with `once`, records came
and nothing was learned), 2 settings, 3 surroundings (no broker, a missing topic, wrong partitions, a port in use). A
failure is one line on stderr.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from streamjobs.core.interface import Core
from streamjobs.errors import NothingLearned
from streamjobs.kafka.patches.connections import LastAnswer
from streamjobs.process import collect_rarely, exit_at_once_on_signals, return_large_arrays, stop_signals, without_modules
from streamjobs.settings.learners import detector_name, with_name
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import AUTO
from streamjobs.worker import logs
from streamjobs.worker.failures import TimeoutAtStop, exit_code, failure_line, with_place
from streamjobs.worker.health import Health
from streamjobs.worker.health.server import Server
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.page import Page
from streamjobs.worker.page.ask import States
from streamjobs.worker.state_folder import lock_folder
from streamjobs.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from streamjobs.kafka.preflight import InputTopic

log = structlog.get_logger("streamjobs")

STOP_WITHIN = 30.0  # seconds for the last checkpoint
FAIL_WITHIN = 10.0  # seconds for leaving the group after a failure: no checkpoint is taken any more
CLOSE_WITHIN = 10.0  # seconds from the last checkpoint until the group is left and all connections are closed
GIVE_UP = 10.0  # seconds more, then the process ends hard: everything acknowledged is stored
END_WITHIN = 1.0  # seconds that a worker which has stopped waits for what a library still does
NO_NEW_RECORD = (
    "group {0.job.name} has already passed all {1:,} offsets of topic {0.source.topic}; "
    "to begin at the first record, give the job another [job] name"
)
NEW_GROUP = (
    "group {0.job.name} has no offsets yet: it begins at the first of {1:,} offsets of topic {0.source.topic}; states of "
    "another [job] name are not used"
)
CHECK_EVERY = 0.1  # seconds between two checks of the worker, see `_Worker._monitor`


def run(
    settings: Settings,
    make_core: Callable[[], Core],
    *,
    make_states: Callable[[Any], States] | None = None,
    once: bool = False,
    drain: bool = False,
    debug: bool = False,
) -> int:
    """Run a worker until SIGTERM, SIGINT or SIGHUP (exit 0), a failure (1 to 3), or with `once` until it has caught up (0).

    `once`: until every assigned partition has reached the end it had at the start. `drain`: the same for the partitions that
    were there before the input grew; the others wait. What `make_core` raises ends it too.
    """
    exit_at_once_on_signals()  # also while compiling; `_Worker` takes the signals over
    logs.configure(debug=debug)
    try:
        core = make_core()
        page = Page(settings, core, make_states(core.job)) if make_states is not None else None
        _run(settings, core, page, once=once or drain, drain=drain)
    except Exception as error:  # noqa: BLE001 - the last line before the exit code
        return _failed(error, debug)
    return 0


def _failed(error: BaseException, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    print(f"streamjobs: {failure_line(error)}", file=sys.stderr, flush=True)
    return exit_code(error)


def _tell_of_threads(health: Health) -> Callable[[threading.ExceptHookArgs], None]:
    """One line for an error that ends a library's thread, instead of a traceback, which may quote a record.

    While the worker stops, the consumer's thread may find its event loop closed. This is not reported.
    """

    def tell(ended: threading.ExceptHookArgs) -> None:
        say = log.info if health.state == "stopping" else log.error
        say("library thread ended", error=with_place(ended.exc_value) if ended.exc_value else ended.exc_type.__name__)

    return tell


def _run(settings: Settings, core: Core, page: Page | None, *, once: bool, drain: bool) -> None:
    drift = settings.drift
    metrics = Metrics(
        settings.source.topic,
        core.job.model,
        detector_name(drift) if drift is not None else "",
        core.job.sinks.values(),
        [with_name(control)[0] for control in drift.beside] if drift is not None else (),
        settings.job.name,
        [*(drift.watch_names if drift is not None else ()), *(settings.alarms.kinds if settings.alarms is not None else ())],
    )
    if core.forecast_plan is not None:
        metrics.expect_forecasts(*core.forecast_plan)
    health = Health(metrics)
    on_disk = settings.state.store != "memory"
    metrics.watch(
        ready=lambda: health.ready()[0] == HTTPStatus.OK,
        directory=Path(settings.state.directory).absolute() if on_disk else None,
    )
    threading.excepthook = _tell_of_threads(health)
    server = Server(settings.metrics, health, looks := page.serve(health) if page is not None else None)
    port = server.start()
    log.info("serving /metrics and /health", host=settings.metrics.host, port=port, page=looks is not None)
    try:
        with lock_folder(settings):
            _work(settings, core, metrics, health, page, once=once, drain=drain)
    except BaseException as error:
        health.state, health.reason = "failed", failure_line(error)
        raise
    finally:
        server.stop()


def _work(
    settings: Settings, core: Core, metrics: Metrics, health: Health, page: Page | None, *, once: bool, drain: bool
) -> None:
    from streamjobs.kafka.preflight import probe
    from streamjobs.kafka.topics import UNSENT

    with ThreadPoolExecutor(1) as asking:  # it mostly waits for answers
        asked = asking.submit(probe, settings, core.job, drain=drain, once=once)
        with without_modules("rich", "yaml"):
            from streamjobs.worker import app  # noqa: F401 - takes a tenth of a second
        source = asked.result()
    health.waits_for = "the worker compiles the learner's loops"
    if source.origin.life:
        core = core._replace(job=core.job.in_life(source.origin.life))
    if settings.source.key_in_value or (settings.alarms is not None and settings.alarms.expected):
        core = core._replace(job=core.job.on_partitions(source.origin.partitions))
    if settings.source.time_unit == AUTO:
        core, source = _with_time_unit(settings, core, source, once=once)
    if source.unsent is not None:
        log.warning("features are not sent", reason=f"[sinks]: {UNSENT.format(source.unsent)}")
    if source.left < 0 and (there := sum(source.ends.values())):
        log.info("new group", reason=NEW_GROUP.format(settings, there))
    if not once and source.left == 0 and len(source.ends) == source.partitions and (passed := sum(source.ends.values())):
        log.info("waiting for new records", reason=NO_NEW_RECORD.format(settings, passed))
    started = time.perf_counter()
    return_large_arrays()
    log.info("compiling learner loops", hint="takes a while on the first run, cached afterwards")
    core.job.compile()
    log.info("learner loops compiled", seconds=round(time.perf_counter() - started, 1))
    gc.freeze()  # modules and compiled loops are not collected any more; a collection before takes 0.14 s and frees nothing
    collect_rarely()
    gc.enable()
    worker = _Worker(settings, core, metrics, health, page)
    try:
        asyncio.run(worker.run(source, source.ends if once else None))
        if once and not drain and not worker.stop_requested.is_set():
            if not metrics.taken.records and (passed := sum(source.ends.values())):
                log.warning("no new record", reason=NO_NEW_RECORD.format(settings, passed))
            if sentence := metrics.taken.nothing_learned():
                raise NothingLearned(sentence)
    except Exception as error:
        worker.code = exit_code(error)
        raise
    finally:
        for number in stop_signals():
            signal.signal(number, signal.SIG_DFL)
        left = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
        if left:
            worker.end_within(END_WITHIN)  # Python waits for them without end
        elif worker.last_resort is not None:
            worker.last_resort.cancel()


def _with_time_unit(settings: Settings, core: Core, source: "InputTopic", *, once: bool) -> "tuple[Core, InputTopic]":
    """The core and its input with the unit of event times decided; unchanged if `once` finds no record."""
    from streamjobs.kafka.time_unit import decide

    known, origin = source.origin.time_unit, source.origin
    if known:
        log.info("time unit", unit=known, decided="at an earlier start")
    else:
        topic = settings.source.topic
        found = decide(
            settings,
            core.job,
            source.partitions,
            once=once,
            on_wait=lambda: log.info("waiting for a record whose time tells the unit", topic=topic),
        )
        if found is None:
            return core, source
        log.info("time unit", decided="now", **found._asdict())
        known = found.unit
    return core._replace(job=core.job.in_time_unit(known)), source._replace(origin=origin._replace(time_unit=known))


class _Worker:
    def __init__(self, settings: Settings, core: Core, metrics: Metrics, health: Health, page: Page | None = None) -> None:
        self.settings, self.core, self.metrics, self.health, self.page = settings, core, metrics, health, page
        self.stop_requested, self.signalled = asyncio.Event(), False
        self.unlearned = logs.Unlearned(metrics.taken, time.monotonic())
        self.code = 1  # if stopping hangs
        self.last_resort: threading.Timer | None = None  # ends the process when stopping hangs

    async def run(self, source: Any, ends: dict[int, int] | None) -> None:
        """Work until asked to stop, caught up, or failed; raises what it failed on."""
        from streamjobs.worker.app import build
        from streamjobs.worker.health.leaders import Leaders

        loop = asyncio.get_running_loop()
        for number in stop_signals():
            signal.signal(number, lambda *_: self._on_signal(loop))
        app = build(self.settings, self.core, self.metrics, source.partitions, source.origin, source.growth, source.limits)
        if ends is None:
            app.leaders = Leaders(app)
        if self.page is not None:
            self.page.connect(lambda: app.delivery.partitions, source.partitions)
        watchdog = Watchdog(
            self.settings, app.delivery, self.metrics, origin=app.delivery.origin, partitions=source.partitions
        )
        starting = asyncio.ensure_future(app.start())
        monitoring = asyncio.ensure_future(self._monitor(app, watchdog, ends))
        monitoring.add_done_callback(lambda task: _pass_on(task, app.delivery))  # also while the worker stops
        reasons = (monitoring, self.stop_requested.wait(), app._crashed.wait(), app.delivery.failing.wait())
        ending = [starting, *map(asyncio.ensure_future, reasons)]
        try:
            failed = await self._first_ended(ending, starting) or app.delivery.failed or app.crash_reason
            if failed is not None:
                app.delivery.fail(failed)
                failed = await watchdog.cause_of(failed)
                self.health.state = "failed"
                self._note_failure(failed)
            else:
                self.health.state = "stopping"
                log.info("stopping")
            keys = self.metrics.stats()  # stopping releases them
            await self._stop(app, failed)
        finally:
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        self.unlearned.check(time.monotonic(), last=True)
        alarming: dict[str, Any] = {}
        if self.settings.drift is not None or self.settings.alarms is not None:
            alarming["alarms"] = dict(+self.metrics.taken.watch_events)  # raised, without watches that raised none
        if self.settings.drift is not None:
            alarming |= {"keys_active": keys.active, "keys_warming_up": keys.warming_up}
            if keys.warming_up and self.page is not None and (needed := self.page.needed_to_alarm()) is not None:
                alarming["needed_to_alarm"] = needed
        scores = self.page.scores() if self.page is not None else {}
        log.info("stopped", dropped_batches=app.delivery.dropped, **logs.totals(self.metrics.taken), **alarming, **scores)

    async def _first_ended(
        self, ending: "list[asyncio.Future[Any]]", starting: "asyncio.Future[Any]"
    ) -> BaseException | None:
        """Wait until one of them ends, other than by a successful start; returns its error."""
        waiting = set(ending)
        while True:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.exception() is not None:
                    return task.exception()
            if done != {starting}:
                return None

    async def _monitor(self, app: Any, watchdog: Watchdog, ends: dict[int, int] | None) -> None:
        """Keep /health up to date and run the watchdog; returns when the worker has caught up with `ends`, if given.

        Raises what the watchdog raises.
        """
        delivery = app.delivery
        while True:
            await watchdog.check()
            self.unlearned.check(time.monotonic())
            self.health.last_turn, self.health.last_answer = time.monotonic(), LastAnswer.at
            self.health.leaderless = app.leaders.reason if app.leaders is not None else ""
            self.metrics.note_caught_up()
            if self.health.state in ("starting", "recovering", "running"):
                self.health.state = "recovering" if delivery.barrier else "running"
            nothing_here = bool(app.waiting) and not delivery.held  # another worker drains all that is to be drained
            if (
                ends is not None
                and not delivery.barrier
                and (nothing_here or delivery.caught_up(ends, app.consumer.fetched_to))
                and delivery.settle()
            ):
                log.info("caught up")
                return
            await asyncio.sleep(CHECK_EVERY)

    async def _stop(self, app: Any, failed: BaseException | None) -> None:
        """Stop the app, then raise what it failed on, before or while stopping; TimeoutAtStop when that takes too long.

        After the last checkpoint nothing can be lost. If a library then does not end, the worker ends without it.
        """
        delivery, within = app.delivery, STOP_WITHIN if failed is None else FAIL_WITHIN
        self.end_within(within + GIVE_UP)
        stopping, released = asyncio.ensure_future(app.stop()), asyncio.ensure_future(delivery.released.wait())
        until = time.monotonic() + within
        await asyncio.wait({stopping, released}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        safe = released.done() and (failed or delivery.failed) is None
        if safe:
            self.code = 0  # of `_give_up`: closing the stores of 200 partitions may hold the event loop until then
        await asyncio.wait({stopping}, timeout=CLOSE_WITHIN if safe else max(0.0, until - time.monotonic()))
        released.cancel()
        if not stopping.done() and safe and delivery.failed is None:
            log.warning(
                "a library did not end", seconds=CLOSE_WITHIN, reason="the last checkpoint is safe", at=_waiting_at(app)
            )
            self.end_within(END_WITHIN)
            return
        if not stopping.done():
            delivery.fail(  # before its tasks are cancelled
                TimeoutAtStop(
                    f"the last checkpoint did not finish within {within:.0f} s; check that the brokers are up. What is not "
                    "acknowledged is read again at the next start."
                )
            )
            stopping.cancel()
        if failed := failed or delivery.failed:
            self._note_failure(failed)  # what is cancelled may go on without end
        with suppress(asyncio.CancelledError):
            await stopping
        if failed:
            raise failed
        self.code = 0

    def _note_failure(self, failed: BaseException) -> None:
        """What `_give_up` prints, and its exit code."""
        self.health.reason, self.code = failure_line(failed), exit_code(failed)

    def end_within(self, seconds: float) -> None:
        """If the process hangs, end it hard, in place of what an earlier call does; what is acknowledged is stored."""
        if self.last_resort is not None:
            self.last_resort.cancel()
        self.last_resort = threading.Timer(seconds, self._give_up)
        self.last_resort.daemon = True
        self.last_resort.start()

    def _give_up(self) -> None:
        if self.health.reason and threading.main_thread().is_alive():  # else `run` has printed it
            print(f"streamjobs: {self.health.reason}", file=sys.stderr, flush=True)
        os._exit(self.code)

    def _on_signal(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called between two steps of the main thread, also while the loop stands still and the thread waits for a lock."""
        if self.signalled:
            os._exit(130)  # the second signal ends it at once
        self.signalled = True
        with suppress(RuntimeError):  # the loop is closed: the worker is ending anyway
            loop.call_soon_threadsafe(self.stop_requested.set)


def _pass_on(monitoring: "asyncio.Task[None]", delivery: Any) -> None:
    if not monitoring.cancelled() and (error := monitoring.exception()) is not None:
        delivery.fail(error)


def _waiting_at(app: Any) -> list[str]:
    """Where the tasks of the main thread and of the consumer's wait."""
    loops = [asyncio.get_running_loop()]
    if app._consumer is not None:
        loops.append(app._consumer._thread.thread_loop)
    places = set()
    for task in chain(*map(asyncio.all_tasks, loops)):
        inner: Any = task.get_coro()
        while hasattr(getattr(inner, "cr_await", None), "cr_frame"):
            inner = inner.cr_await
        if (frame := getattr(inner, "cr_frame", None)) is not None:
            places.add(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_qualname}")
    return sorted(places)
