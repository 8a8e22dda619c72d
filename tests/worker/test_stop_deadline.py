"""A worker that does not come to its end: brokers never answer its last checkpoint, or a library goes on."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from streamjobs.errors import SetupError, StreamjobsError
from streamjobs.worker import run
from streamjobs.worker.delivery import Delivery
from streamjobs.worker.failures import TimeoutAtStop
from streamjobs.worker.health import Health
from tests.worker.fakes import Worker, stream, until


def running_with(delivery: Delivery) -> run._Worker:
    return run._Worker(None, None, delivery.metrics, Health(delivery.metrics), None)  # type: ignore[arg-type]


async def last_checkpoint(delivery: Delivery) -> None:
    delivery.raise_barrier()
    await delivery.revoke("stop")


def test_a_stop_that_its_deadline_ends_names_the_brokers_and_not_a_library(monkeypatch):
    monkeypatch.setattr(run, "STOP_WITHIN", 0.05)

    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        worker.kafka.out.hold = True
        worker.fetch(0, stream(10))
        await worker.settle()
        partition = delivery.held[0].partition
        partition.due.set()
        await until(lambda: partition._cut_since is not None)
        running = running_with(delivery)
        delivery.raise_barrier()
        try:
            await running._stop(SimpleNamespace(stop=lambda: delivery.revoke("stop"), delivery=delivery), None)
        finally:
            running.last_resort.cancel()

    with pytest.raises(TimeoutAtStop, match="check that the brokers are up"):
        asyncio.run(body())


@pytest.mark.parametrize(
    ("before", "after", "hangs", "code"),
    [
        (None, None, False, 0),
        (None, None, True, 0),
        (None, SetupError("late"), True, 3),  # its connections are lost while they are closed
        (SetupError("early"), None, True, 3),
    ],
)
def test_a_worker_that_hangs_behind_its_stop_ends_with_the_code_of_its_failure_and_prints_it(
    before: StreamjobsError | None, after: StreamjobsError | None, hangs: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STOP_WITHIN", "FAIL_WITHIN", "CLOSE_WITHIN"):
        monkeypatch.setattr(run, name, 0.1)

    async def body() -> None:
        delivery = await Worker().begin(0)
        running = running_with(delivery)

        async def stop() -> None:
            await last_checkpoint(delivery)
            delivery.released.set()
            if after is not None:
                delivery.fail(after)
            if hangs:
                await asyncio.get_running_loop().create_future()

        if before is not None:
            delivery.fail(before)
        failed = before or after
        try:
            with pytest.raises(SetupError, match=str(failed)) if failed is not None else nullcontext():
                await running._stop(SimpleNamespace(stop=stop, delivery=delivery, _consumer=None), before)
        finally:
            assert running.last_resort is not None
            running.last_resort.cancel()
        assert (running.code, running.health.reason) == (code, str(failed) if failed is not None else "")

    asyncio.run(body())


def test_what_closes_for_long_after_the_last_checkpoint_does_not_change_the_exit_code() -> None:
    """Closing many local stores holds the event loop, until the process ends hard with the code of that moment."""
    codes = []

    async def body() -> None:
        delivery = await Worker().begin(0)
        running = running_with(delivery)

        async def stop() -> None:
            await last_checkpoint(delivery)
            codes.append(running.code)
            delivery.released.set()
            await asyncio.sleep(0.05)
            codes.append(running.code)

        await running._stop(SimpleNamespace(stop=stop, delivery=delivery), None)
        assert running.last_resort is not None
        running.last_resort.cancel()

    asyncio.run(body())
    assert codes == [1, 0]
