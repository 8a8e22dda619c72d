"""Asks a schema registry with Confluent's API for schemas. Two kinds of requests are all: a schema by id, and by subject.

aiohttp serves the worker's page already. Confluent's own client would bring another HTTP library, its OAuth stack and a
cache for the sake of these two; and a request of it cannot be given up while it runs.
"""

import asyncio
import ssl
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec

from streamjobs.core.decoding.with_schema.wire_format import Definition, SchemaId
from streamjobs.errors import ConfigError
from streamjobs.kafka.certificates import context_of
from streamjobs.kafka.secrets import secret_of
from streamjobs.schema_registry.descriptors import ProtocError, descriptor_set
from streamjobs.settings.broker import RegistrySection

MAX_BYTES = 16 << 20  # of an answer
MOST_REFERENCES = 200  # schemas that one needs
MAIN = "schema.proto"  # its own name, which registries do not keep
NOT_FOUND = {40401, 40402, 40403}  # error_code: unknown subject, version, schema
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


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
    def __init__(self, registry: RegistrySection) -> None:
        self.registry, self.url = registry, registry.url.rstrip("/")
        self._secrets = {name: secret_of(registry, name) for name in ("password", "token")}

    @property
    def place(self) -> str:
        """The registry, for people."""
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
                raise RegistryError(f"no schema for the reference {reference.name!r:.80}, which it must have") from None
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
