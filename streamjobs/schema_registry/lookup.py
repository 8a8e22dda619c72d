"""Has the schemas of fetched records ready before they are applied: asks for each once, and waits for the answer.

What a registry does not have, by its own word, makes dead letters of the records that name it. All else (no answer, a
refusal, nonsense) is waited for. The verdict goes with the record (`Refused`), so that a record that is applied again, after
a failed stage, has the same one.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from streamjobs.core.decoding.unwrap import schema_ids
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.decoding.with_schema.wire_format import SchemaId
from streamjobs.core.messages import Record, Refused
from streamjobs.errors import SetupError
from streamjobs.schema_registry.client import Client, NotFoundError, RegistryError
from streamjobs.settings.sections import Settings

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0  # seconds between two attempts; each pause is twice the one before
ABSENT_FOR = 30.0  # seconds after which a registry is asked again for a schema that it did not have
TELL_EVERY = 60.0  # seconds between two warnings
AT_ONCE = 8  # schemas asked for at the same time
COMMANDS_WAIT = 30.0  # seconds that commands wait for a registry


class Lookup:
    """on_answer: gets `found`, `unusable`, `not_found` or `failed` for each attempt."""

    def __init__(
        self,
        settings: Settings,
        schemas: Schemas,
        on_answer: Callable[[str], None] = lambda outcome: None,
        log: Any = None,
    ) -> None:
        assert settings.registry is not None
        self._log = log or structlog.get_logger("streamjobs")
        self.source, self.schemas, self.client = settings.source, schemas, Client(settings.registry)
        self._on_answer = on_answer
        self._absent: dict[SchemaId, float] = {}  # when the registry said so, time.monotonic()
        self._asking: dict[SchemaId, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._since: float | None = None  # since when attempts fail, time.monotonic()
        self._problem = ""
        self._tell_again = 0.0

    @property
    def waiting_since(self) -> float | None:
        """time.monotonic() of the first of the attempts that failed one after another; None while none does."""
        return self._since if self._asking else None

    @property
    def problem(self) -> str:
        """What keeps records waiting, a sentence's words; '' for nothing."""
        if self.waiting_since is None:
            return ""
        return f"records wait for a schema: the registry {self.client.place} gave {self._problem}"

    async def ready(self, records: Sequence[Record]) -> list[Record]:
        """The records, once their schemas are there; those that name one the registry does not have as `Refused`."""
        ids = schema_ids(records, self.source)
        now = time.monotonic()
        absent = self._absent
        missing = {
            one: None
            for one in ids
            if one is not None and one not in self.schemas and now - absent.get(one, -ABSENT_FOR) >= ABSENT_FOR
        }
        if missing:
            await asyncio.gather(*map(self._ask_once, missing))
        if not absent:
            return list(records)
        return [
            self._refused(record, one) if one is not None and one in absent and one not in self.schemas else record
            for record, one in zip(records, ids, strict=True)
        ]

    def _refused(self, record: Record, schema: SchemaId) -> Record:
        refused = Refused(
            record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, record.headers
        )
        refused.problem = f"expected a schema of the registry, but the registry has no schema {schema}"
        return refused

    async def _ask_once(self, schema: SchemaId) -> None:
        """Wait for the answer; several partitions ask once. It goes on when this is cancelled: others may wait for it."""
        if schema not in self._asking:
            task = self._asking[schema] = asyncio.ensure_future(self._ask(schema))
            task.add_done_callback(lambda _: self._asking.pop(schema, None))
        await asyncio.shield(self._asking[schema])

    async def _ask(self, schema: SchemaId) -> None:
        pause = FIRST_PAUSE
        async with self._slots:
            while True:
                try:
                    definition = await self.client.definition(schema)
                except RegistryError as error:
                    self._failed(schema, str(error))
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    continue
                except NotFoundError:
                    self._absent[schema] = time.monotonic()
                    self._answered("not_found")
                    self._log.warning("schema not found", schema=schema, registry=self.client.place)
                    return
                problem = self.schemas.add(schema, definition)
                self._absent.pop(schema, None)
                self._answered("unusable" if problem else "found")
                if problem:
                    self._log.warning("schema unusable", schema=schema, registry=self.client.place, problem=f"it {problem}")
                else:
                    self._log.info("schema read", schema=schema, registry=self.client.place, kind=definition.kind)
                return

    def _answered(self, outcome: str) -> None:
        self._on_answer(outcome)
        if self._since is not None:
            self._log.info("schema registry answers again", registry=self.client.place)
        self._since, self._tell_again = None, 0.0

    def _failed(self, schema: SchemaId, problem: str) -> None:
        self._on_answer("failed")
        now = time.monotonic()
        self._problem = problem
        self._since = now if self._since is None else self._since
        if now >= self._tell_again:
            self._tell_again = now + TELL_EVERY
            self._log.warning(
                "waiting for schema registry",
                registry=self.client.place,
                schema=schema,
                problem=problem,
                seconds=round(now - self._since),
            )

    async def close(self) -> None:
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


def lookup_of(
    settings: Settings, schemas: Schemas | None, on_answer: Callable[[str], None] = lambda outcome: None
) -> Lookup | None:
    """None for jobs that read no schema from a registry. Call it in the event loop that is to wait."""
    if schemas is None or schemas.fixed is not None or settings.registry is None:
        return None
    return Lookup(settings, schemas, on_answer)


def ready_now(settings: Settings, schemas: Schemas | None, records: Sequence[Record]) -> Sequence[Record]:
    """As `Lookup.ready`, for commands: they wait for COMMANDS_WAIT. Raises SetupError then."""
    if schemas is None or schemas.fixed is not None or settings.registry is None:
        return records
    ids = schema_ids(records, settings.source)
    if all(one is None or one in schemas for one in ids):
        return records
    return asyncio.run(_ready(settings, schemas, records))


async def _ready(settings: Settings, schemas: Schemas, records: Sequence[Record]) -> list[Record]:
    warnings = structlog.make_filtering_bound_logger("warning")  # a command asks for the same schema many times
    log = structlog.wrap_logger(structlog.PrintLogger(sys.stderr), wrapper_class=warnings)  # stdout has results
    lookup = Lookup(settings, schemas, log=log)
    try:
        return await asyncio.wait_for(lookup.ready(records), COMMANDS_WAIT)
    except TimeoutError:
        problem = lookup.problem or "the schema registry gave no answer"
        raise SetupError(f"[registry] url {lookup.client.url}: {problem}, for {COMMANDS_WAIT:.0f} s.") from None
    finally:
        await lookup.close()
