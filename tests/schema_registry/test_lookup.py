"""A registry that is down, slow or answers nonsense is waited for; what it says it has not is a dead letter."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

import pytest

from streamjobs.core.decoding.records import decoder
from streamjobs.core.messages import Refused
from streamjobs.errors import ConfigError, SetupError
from streamjobs.schema_registry import lookup as lookup_module
from streamjobs.schema_registry import ready_now as ready_now_module
from streamjobs.schema_registry.lookup import Lookup
from streamjobs.schema_registry.ready_now import ready_now
from tests.core.values import avro
from tests.schema_registry.exchange import job_settings, schemas_of, stored
from tests.schema_registry.server import NONSENSE, RECORDED, serving
from tests.schema_registry.writers import PLACE, READING, row

ID = next(
    int(one["path"].rpartition("/")[2])
    for one in json.loads(RECORDED.read_text())
    if one["path"].startswith("/schemas/ids/") and "Reading" in one["answer"] and "PROTOBUF" not in one["answer"]
)
ABSENT = 999
PAYLOAD = avro(READING, row(1), [PLACE])


def value(schema: int = ID) -> bytes:
    return b"\0" + schema.to_bytes(4) + PAYLOAD


@asynccontextmanager
async def looking_up(url: str, **registry):
    settings = job_settings(url, "avro", **registry)
    schemas, outcomes = schemas_of(settings), []
    lookup = Lookup(settings, schemas, outcomes.append)
    lookup.decode, lookup.outcomes = decoder(settings.source, 3, schemas=schemas), outcomes
    try:
        yield lookup
    finally:
        await lookup.close()


async def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to it"
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(lookup_module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(lookup_module, "LONGEST_PAUSE", 0.02)


@pytest.mark.parametrize("mode", [*NONSENSE, "reset", "silent"])
def test_whatever_else_comes_than_an_answer_is_waited_for(mode):
    async def body():
        with serving() as server:
            server.mode, server.held = mode, 3.0
            async with looking_up(server.url, timeout=0.3 if mode == "silent" else 20.0) as lookup:
                waiting = asyncio.ensure_future(lookup.ready(stored([value()])))
                await until(lambda: len(lookup.outcomes) >= 2)
                assert set(lookup.outcomes) == {"failed"} and not waiting.done()
                assert lookup.waiting_since is not None and server.url.removeprefix("http://") in lookup.problem
                server.mode = "well"
                records = await asyncio.wait_for(waiting, 60)
                assert lookup.outcomes[-1] == "found" and lookup.waiting_since is None and lookup.problem == ""
                assert not lookup.decode(records).errors and len(lookup.decode(records).X) == 1

    asyncio.run(body())


def test_a_registry_that_is_down_is_waited_for():
    async def body():
        with serving() as server:
            url = server.url
        async with looking_up(url) as lookup:
            waiting = asyncio.ensure_future(lookup.ready(stored([value()])))
            await until(lambda: len(lookup.outcomes) >= 3)
            assert set(lookup.outcomes) == {"failed"} and not waiting.done() and "gave no answer" in lookup.problem
            waiting.cancel()

    asyncio.run(body())


def test_a_schema_is_asked_for_once_however_many_records_and_partitions_need_it():
    async def body():
        with serving() as server:
            async with looking_up(server.url) as lookup:
                await asyncio.gather(*[lookup.ready(stored([value()] * 100)) for _ in range(8)])
                await lookup.ready(stored([value()] * 100))
                assert [path for path in server.asked if "ids" in path] == [f"/schemas/ids/{ID}"]

    asyncio.run(body())


def test_an_id_that_does_not_exist_makes_dead_letters_that_name_it_and_is_asked_for_again_later(monkeypatch):
    async def body():
        with serving() as server:
            async with looking_up(server.url) as lookup:
                records = await lookup.ready(stored([value(), value(ABSENT), value(ABSENT)]))
                assert [type(one) is Refused for one in records] == [False, True, True]
                assert records[1].value == value(ABSENT) and records[1].key == b"p"
                errors = lookup.decode(records).errors
                assert [index for index, _ in errors] == [1, 2] and {error.reason for _, error in errors} == {"schema"}
                assert f"the registry has no schema {ABSENT}" in str(errors[0][1])
                await lookup.ready(stored([value(ABSENT)]))
                assert lookup.outcomes.count("not_found") == 1
                monkeypatch.setattr(lookup_module, "ABSENT_FOR", 0.0)
                for one in server.exchanges:
                    if one["path"] == f"/schemas/ids/{ID}":
                        server.exchanges.insert(0, {**one, "path": f"/schemas/ids/{ABSENT}"})
                        break
                later = await lookup.ready(stored([value(ABSENT)]))
                assert not lookup.decode(later).errors
                assert lookup.decode(records).errors == errors or len(lookup.decode(records).errors) == 2  # as it was found

    asyncio.run(body())


def test_records_that_name_no_schema_wait_for_nothing():
    async def body():
        with serving() as server:
            server.mode = "silent"
            server.held = 1.0
            async with looking_up(server.url) as lookup:
                records = stored([b"", b"{}", b"\0\0", b"\x09" * 40])
                assert await lookup.ready(records) == records and not server.asked

    asyncio.run(body())


def test_credentials_are_sent_and_read_again_at_each_attempt(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("old")

    async def body():
        with serving() as server:
            server.mode = "refused"
            async with looking_up(server.url, username="worker", password_file=str(secret)) as lookup:
                waiting = asyncio.ensure_future(lookup.ready(stored([value()])))
                await until(lambda: lookup.outcomes)
                assert "the answer 401" in lookup.problem
                secret.write_text("new")
                server.mode = "well"
                await asyncio.wait_for(waiting, 60)
                sent = [headers["Authorization"] for headers in server.headers]
                assert sent[0] == "Basic d29ya2VyOm9sZA==" and sent[-1] == "Basic d29ya2VyOm5ldw=="

    asyncio.run(body())


def test_a_command_gives_up_with_one_sentence(monkeypatch):
    monkeypatch.setattr(ready_now_module, "COMMANDS_WAIT", 0.3)
    with serving() as server:
        server.mode = "broken"
        settings = job_settings(server.url, "avro")
        with pytest.raises(SetupError, match=r"records wait for a schema: the registry .* gave the answer 500"):
            ready_now(settings, schemas_of(settings), stored([value()]))
        server.mode = "well"
        assert len(ready_now(settings, schemas_of(settings), stored([value()]))) == 1


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        ({"url": "registry:8081"}, "url must be https://host:port or http://host:port"),
        ({"url": "https://me:secret@registry"}, "url must not hold credentials"),
        ({"url": "http://registry", "username": "a", "password_file": "f"}, "credentials over http are refused"),
        ({"url": "https://registry", "username": "a"}, "username 'a' needs its password"),
        ({"url": "https://registry", "password_file": "f"}, "password needs a username"),
        ({"url": "http://registry", "ca_file": "f"}, "ca_file has no meaning with an http url"),
        ({"url": "https://registry", "password": "x", "username": "a"}, "password must not be in a job file"),
    ],
)
def test_mistakes_in_the_settings_are_reported_without_secrets(registry, expected):
    with pytest.raises(ConfigError) as told:
        job_settings(registry.pop("url"), "avro", **registry)
    assert expected in str(told.value) and "secret" not in str(told.value).replace("in a file", "")
