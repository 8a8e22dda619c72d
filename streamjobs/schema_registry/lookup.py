"""Has the schemas of fetched records ready before they are applied: asks for each once, and waits for the answer.

What a registry does not have, by its own word, makes dead letters of the records that name it. All else (no answer, a
refusal, nonsense) is waited for. The verdict goes with the record (`Refused`), so that a record that is applied again, after
a failed stage, has the same one.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
import structlog

from streamjobs.core.decoding.unwrap import schema_ids
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.decoding.with_schema.wire_format import Definition, SchemaId
from streamjobs.core.messages import Record, Refused
from streamjobs.errors import ConfigError
from streamjobs.kafka.certificates import context_of
from streamjobs.kafka.secrets import secret_of
from streamjobs.schema_registry.descriptors import ProtocError, descriptor_set
from streamjobs.settings.broker import RegistrySection
from streamjobs.settings.sections import Settings

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0  # seconds between two attempts; each pause is twice the one before
ABSENT_FOR = 30.0  # seconds after which a registry is asked again for a schema that it did not have
TELL_EVERY = 60.0  # seconds between two warnings
AT_ONCE = 8  # schemas asked for at the same time
MAX_BYTES = 16 << 20  # of an answer
MOST_REFERENCES = 200  # schemas that one needs
MAIN = "schema.proto"  # its own name, which registries do not keep
NOT_FOUND = {40401, 40402, 40403}  # error_code: unknown subject, version, schema
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


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


class RegistryError(Exception):
    """The registry is away, refuses, or answers what no registry does; ask again later. The end of a sentence."""


class NotFoundError(Exception):
    """The registry answers that the schema does not exist."""


class _Schema(msgspec.Struct):
    schema: str
    schemaType: str = "AVRO"
    references: "list[_Reference] | None" = None


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Error(msgspec.Struct):
    error_code: int


_read_schema = msgspec.json.Decoder(_Schema).decode
_read_error = msgspec.json.Decoder(_Error).decode


class Client:
    """Asks a schema registry with Confluent's API for schemas. Two kinds of requests are all: by id, and by subject.

    aiohttp serves the worker's page already. Confluent's own client would bring another HTTP library, its OAuth stack and a
    cache for the sake of these two; and a request of it cannot be given up while it runs.
    """

    def __init__(self, registry: RegistrySection) -> None:
        self.registry, self.url = registry, registry.url.rstrip("/")
        self._secrets = {name: secret_of(registry, name) for name in ("password", "token")}

    @property
    def place(self) -> str:
        return urlsplit(self.url).netloc

    async def definition(self, schema: SchemaId) -> Definition:
        """Raises RegistryError, NotFoundError."""
        path = f"/schemas/ids/{schema}" if isinstance(schema, int) else f"/schemas/guids/{schema}"
        try:
            async with self._session() as session:
                found = await self._schema(session, path)
                others: dict[str, str] = {}
                await self._referenced(session, found, others)
        except ConfigError as error:  # a file of the settings cannot be read for now
            raise RegistryError(str(error)) from None
        if found.schemaType == "AVRO":
            return Definition("AVRO", found.schema, tuple(others.values()))
        if found.schemaType != "PROTOBUF":
            return Definition(found.schemaType)
        try:
            descriptors = await asyncio.to_thread(descriptor_set, {**others, MAIN: found.schema}, MAIN)
        except ProtocError as error:
            return Definition("PROTOBUF", problem=str(error))
        except OSError as error:
            raise RegistryError(f"a schema that could not be compiled here ({error})") from None
        return Definition("PROTOBUF", descriptors=descriptors)

    def _session(self) -> aiohttp.ClientSession:
        """Raises ConfigError where a file with a secret or a certificate cannot be read."""
        registry = self.registry
        headers = {"Accept": ACCEPT}
        password, token = self._secrets["password"], self._secrets["token"]
        if token is not None:
            headers["Authorization"] = f"Bearer {token.read()}"
        elif registry.username is not None:
            secret = password.read() if password is not None else ""
            headers["Authorization"] = aiohttp.encode_basic_auth(registry.username, secret)
        secured = self.url.startswith("https:")
        return aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=registry.timeout),
            connector=aiohttp.TCPConnector(ssl=context_of(registry) if secured else True),
        )

    async def _schema(self, session: aiohttp.ClientSession, path: str) -> _Schema:
        try:
            async with session.get(self.url + path, allow_redirects=False) as answer:
                body = await _body(answer.content)
                status, reason = answer.status, answer.reason
        except TimeoutError:
            raise RegistryError(f"no answer within {self.registry.timeout:g} s") from None
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            raise RegistryError(f"no answer ({_why(error)})") from None
        if status == 200:
            try:
                return _read_schema(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                raise RegistryError("an answer that is not a schema; check that [registry] url is a registry's") from None
        if status == 404 and _error_code(body) in NOT_FOUND:
            raise NotFoundError
        raise RegistryError(f"the answer {status} {reason or ''}".rstrip())

    async def _referenced(self, session: aiohttp.ClientSession, schema: _Schema, others: dict[str, str]) -> None:
        """Add what the schema names of other subjects, each after what it needs itself."""
        for reference in schema.references or ():
            if reference.name in others:
                continue
            if len(others) >= MOST_REFERENCES:
                raise RegistryError(f"a schema that needs more than {MOST_REFERENCES} others")
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            try:
                other = await self._schema(session, path)
            except NotFoundError:
                raise RegistryError(f"an answer without the schema of the reference {reference.name!r:.80}") from None
            others[reference.name] = ""  # asked for: references may name each other
            await self._referenced(session, other, others)
            del others[reference.name]
            others[reference.name] = other.schema


async def _body(content: aiohttp.StreamReader) -> bytes:
    """Raises RegistryError."""
    body = bytearray()
    async for part in content.iter_any():
        body += part
        if len(body) > MAX_BYTES:
            raise RegistryError(f"an answer of more than {MAX_BYTES >> 20} MB")
    return bytes(body)


def _error_code(body: bytes) -> int:
    try:
        return _read_error(body).error_code
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0


def _why(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not valid: {error.certificate_error}"[:200]
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.strerror:
        return error.os_error.strerror
    return str(error)[:200] or type(error).__name__
