"""A broker that trusts nobody: workers get in with each kind of credentials and exactly the printed rights, or say why."""

import contextlib
import io
import os
import re
import secrets
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AclBinding, AclOperation

from streamjobs.errors import SetupError
from streamjobs.kafka import acls
from streamjobs.kafka.preflight import probe
from tests.brokers.certificates import missing_openssl
from tests.brokers.fault_injection import program
from tests.brokers.fixtures import LEARNING, cleaning_up_on_sigterm
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import ANSWER, KafkaJob, Sent, until
from tests.brokers.load import START, samples
from tests.brokers.secured import Secured
from tests.brokers.token_server import TokenServer, renewed
from tests.brokers.verification import verify
from tests.brokers.workers import RUN, Worker, run_until_done, running_worker, wait_for_exit
from tests.commands.jobs import command
from tests.exit_codes import ExitCode

B = "STREAMJOBS_BROKER__"


class SecuredKafka(NamedTuple):
    """The broker, processes that workers are forked from, and credentials of each kind as environment variables."""

    secured: Secured
    fork_server: ForkServer
    credentials: dict[str, dict[str, str]]

    def make_job(self, folder: Path, name: str, *, rights: bool = True, **sections: Any) -> KafkaJob:
        """A job that names address and CA; topics are made, and rights granted, by the commands an administrator runs."""
        broker = {"url": f"kafka://{self.secured.sasl}", "ca_file": str(self.secured.ca.file), "session_timeout": "6s"}
        job = KafkaJob(self.secured.bootstrap, folder, name, make=False, broker=broker, **(LEARNING | sections))
        words = ("topics", "create", job.path, "--partitions", "4")
        for who in ("worker", "CN=mutual,O=Home") if rights else ("worker",):
            granted = ("--grant", "--principal", f"User:{who}") if rights else ()
            code, text = output_of(*words, *granted, env=self.credentials["boss"])
            assert code == 0, text
            if rights:
                self.secured.wait_for(acls.bindings(acls.rights(job.settings, job.core.sinks, f"User:{who}")))
        return job

    def file(self, name: str, text: str) -> str:
        path = self.secured.folder / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return str(path)


def output_of(*words: object, env: dict[str, str]) -> tuple[ExitCode, str]:
    """Exit code of a command in this process, and all it printed."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text), pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        return command(*words), text.getvalue()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[SecuredKafka]:
    problem = missing_openssl()
    if problem is not None:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(problem)
        pytest.skip(problem)
    folder = tmp_path_factory.mktemp("kafka")
    some = KafkaJob("127.0.0.1:1", folder, "some", make=False, **LEARNING)
    with cleaning_up_on_sigterm(), Secured(folder) as secured:
        made = SecuredKafka(secured, fork_server, {})
        secured.user("boss", "of all")
        secured.user("worker", "worker's own")
        secured.ca.issued("mutual", "/O=Home/CN=mutual")
        made.credentials.update(
            boss={f"{B}USERNAME": "boss", f"{B}PASSWORD": "of all"},
            scram={f"{B}USERNAME": "worker", f"{B}PASSWORD_FILE": made.file("password", "worker's own")},
            mutual={
                f"{B}URL": f"kafka://{secured.mutual}",
                f"{B}CERTIFICATE_FILE": str(folder / "mutual.crt"),
                f"{B}KEY_FILE": str(folder / "mutual.key"),
            },
            token={f"{B}TOKEN_FILE": made.file("token", secured.issuer.token("worker"))},
        )
        for who in ("boss", "scram"):
            until(lambda who=who: _enters(some, _at(made, who)), f"{who} may enter")  # type: ignore[misc]
        yield made


def _at(kafka: SecuredKafka, who: str = "scram") -> dict[str, str]:
    return {
        f"{B}URL": f"kafka://{kafka.secured.sasl}",
        f"{B}CA_FILE": str(kafka.secured.ca.file),
        **kafka.credentials[who],
    }


def test_workers_with_exactly_the_printed_rights_do_everything(kafka: SecuredKafka, tmp_path: Path) -> None:
    job, count = kafka.make_job(tmp_path, "exact"), 0
    for way in ("scram", "mutual", "token"):
        count += job.produce([*samples(300, keys=20, seed=count), Sent(b"k", b"{broken", 0, 1)])
        code, text = output_of("check", job.path, "--online", env=kafka.credentials[way])
        assert code == 0 and "every right is granted" in text, text
        guarantee = "exactly_once" if way == "token" else "at_least_once"  # the same rights suffice
        with running_worker(
            job, fork_server=kafka.fork_server, STREAMJOBS_JOB__GUARANTEE=guarantee, **kafka.credentials[way]
        ) as worker:
            job.wait_until_done([worker])
            assert worker.stop() == 0
    results = verify(job, repeats=False, expect=count)
    assert results["dlq"].answers == 3


def test_each_right_removed_is_named_with_who_lacks_it(kafka: SecuredKafka, tmp_path: Path) -> None:
    job = kafka.make_job(tmp_path, "lacking")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"k": "a", "ts": 1, "x": [1]}\n')
    code, text = output_of("produce", job.path, rows, "--key", "k", env=_at(kafka))
    assert code == 1 and "(row 1: expected the right to Write, not granted to User:worker)" in text, text
    granted = acls.bindings(acls.rights(job.settings, job.core.sinks, "User:worker"))
    needed = [one for one in granted if one.operation is not AclOperation.DESCRIBE]
    assert len(needed) == 9
    env = kafka.credentials["scram"]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        settings = _settings(job)
        for one in needed:
            with kafka.secured.without([one]):
                code, text = output_of("check", job.path, "--online", env={})
                assert code == 3 and len(text.splitlines()) == 1, text
                assert _named(one) in text and "not granted to User:worker" in text
                with pytest.raises(SetupError) as caught:  # what `run` does first
                    probe(settings, job.core)
                assert str(caught.value) == text.strip()
    with kafka.secured.without(granted):  # one may not even see that they are there
        code, lines = wait_for_exit(Worker(job, fork_server=kafka.fork_server, **env))
        assert code == 3 and len(lines) == 6
        assert all("not granted to User:worker, which may not even describe it" in line for line in lines)
    with kafka.secured.without([one for one in needed if one.name in (job.input, job.name, f"{job.name}-")]):
        code, lines = wait_for_exit(Worker(job, fork_server=kafka.fork_server, **env))
        assert code == 3 and len(lines) == 3, lines  # all at once


def test_a_right_taken_from_a_running_worker_ends_it_and_loses_nothing(kafka: SecuredKafka, tmp_path: Path) -> None:
    job = kafka.make_job(tmp_path, "taken")
    granted = acls.bindings(acls.rights(job.settings, job.core.sinks, "User:worker"))
    taken = {
        job.input: "Read",
        job.name: "Read",
        job.core.sinks["features"]: "Write",
        job.core.sinks["predictions"]: "Write",
    }
    for number, (name, right) in enumerate(taken.items()):
        # Of a transaction that the broker refuses a worker hears something else first.
        guarantee = "exactly_once" if name == job.core.sinks["predictions"] else "at_least_once"
        env = {**kafka.credentials["scram"], "STREAMJOBS_JOB__GUARANTEE": guarantee}
        with running_worker(job, fork_server=kafka.fork_server, **env) as worker:
            job.produce(samples(100, keys=20, seed=number))
            job.wait_until_done([worker])
            with kafka.secured.without([one for one in granted if one.name == name]):
                job.produce(samples(100, keys=20, seed=100 + number))
                code, lines = wait_for_exit(worker)
        assert code == 1 and len(lines) == 1 and name in lines[0] and f"right to {right}" in lines[0], (code, lines)
    run_until_done(job, fork_server=kafka.fork_server, **kafka.credentials["scram"])
    verify(job, repeats=True, expect=800)


def _settings(job: KafkaJob) -> Any:
    from streamjobs.job_files import load_job

    return load_job(job.path)


def _named(one: AclBinding) -> str:
    """What the sentence about this right must say."""
    what = {"TOPIC": f"topic {one.name} (", "GROUP": f"group {one.name}: expected"}.get(
        one.restype.name, f"transactional id {one.name}0 to {one.name}3: expected"
    )
    assert what
    return what


WRONG = {
    "password": "refused user 'worker' with SCRAM-SHA-512",
    "user": "refused user 'nobody' with SCRAM-SHA-512",
    "authority": "its certificate is signed by no authority in ca_file",
    "name": "its certificate is for other names than 'localhost'",
    "expired": "refused the token of token_file, which expired",
    "audience": "refused the token of token_file ({",
    "signature": "refused the token of token_file ({",
    "mechanism": "does not offer mechanism PLAIN",
    "uncertified": "requires a certificate of this worker",
    "strange": "refused this worker's certificate",
    "outdated": "refused this worker's certificate, which expired 1 days ago",
    "plain": "closed the connection at the first request; it may expect TLS",
}
RUNNING = ("password", "authority", "name", "expired")  # a worker too, not only `check --online`


def _wrong(kafka: SecuredKafka) -> dict[str, dict[str, str]]:
    secured, credentials = kafka.secured, kafka.credentials
    good = secured.issuer.token("worker")
    tokens = {
        "expired": secured.issuer.token("worker", -100),
        "audience": secured.issuer.token("worker", aud="others"),
        "signature": good[:-8] + ("A" * 8 if good[-8:] != "A" * 8 else "B" * 8),
    }
    secured.stranger.issued("strange")
    secured.ca.issued("outdated", days=-1)
    certificates = {
        name: {
            **credentials["mutual"],
            f"{B}CERTIFICATE_FILE": str(secured.folder / f"{name}.crt"),
            f"{B}KEY_FILE": str(secured.folder / f"{name}.key"),
        }
        for name in ("strange", "outdated")
    }
    return {
        "password": {**credentials["scram"], f"{B}PASSWORD_FILE": kafka.file("wrong", "another")},
        "user": {**credentials["scram"], f"{B}USERNAME": "nobody"},
        "authority": {**credentials["scram"], f"{B}CA_FILE": str(secured.stranger.file)},
        "name": {**credentials["scram"], f"{B}URL": f"kafka://{secured.sasl}".replace("127.0.0.1", "localhost")},
        "mechanism": {**credentials["scram"], f"{B}MECHANISM": "PLAIN"},
        "uncertified": {f"{B}URL": f"kafka://{secured.mutual}"},
        "plain": {f"{B}URL": f"kafka://{secured.sasl}"},
        **certificates,
        **{name: {f"{B}TOKEN_FILE": kafka.file(name, token)} for name, token in tokens.items()},
    }


def test_credentials_that_are_refused_are_one_sentence_and_code_3(kafka: SecuredKafka, tmp_path: Path) -> None:
    job = kafka.make_job(tmp_path, "refused", rights=False)
    open_job = tmp_path / "plain.toml"
    open_job.write_text(job.path.read_text().replace("ca_file", "# "))
    wrong = _wrong(kafka)
    assert set(wrong) == set(WRONG)
    for case, env in wrong.items():
        code, text = output_of("check", open_job if case == "plain" else job.path, "--online", env=env)
        assert code == 3 and len(text.splitlines()) == 1 and WRONG[case] in text, f"{case}: {code} {text}"
    for case in RUNNING:
        code, lines = wait_for_exit(Worker(job, case, fork_server=kafka.fork_server, **wrong[case]))
        assert code == 3 and len(lines) == 1 and WRONG[case] in lines[0], f"{case}: {code} {lines}"


def test_a_password_that_is_changed_while_a_worker_runs_is_taken_from_its_file(kafka: SecuredKafka, tmp_path: Path) -> None:
    job, secured = kafka.make_job(tmp_path, "rotated"), kafka.secured
    secured.user("worker", "worker's own")
    file = tmp_path / "password"
    file.write_text("worker's own\n")
    env = {f"{B}USERNAME": "worker", f"{B}PASSWORD_FILE": str(file), f"{B}URL": f"kafka://{secured.proxied}"}
    count = 0

    def more(worker: Worker | None = None) -> None:
        nonlocal count
        count += job.produce(samples(300, keys=20, seed=count))
        if worker is not None:
            job.wait_until_done([worker])

    def changed(password: str) -> None:
        """At the broker; and every connection is cut, so that each has to be made anew."""
        secured.user("worker", password)
        until(lambda: not _enters(job, env), "the old password refused")

    try:
        with running_worker(job, fork_server=kafka.fork_server, **env) as worker:
            more(worker)
            changed("the second")
            file.write_text("the second\n")
            assert secured.proxy.reset() > 3
            more(worker)
            assert worker.stop() == 0
        # Nobody tells the worker: it ends with one sentence, and the next one, told, goes on.
        with running_worker(job, fork_server=kafka.fork_server, program=program("impatient", 2), **env) as worker:
            more(worker)
            changed("the third")
            assert secured.proxy.reset() > 3
            more()
            code, lines = wait_for_exit(worker)
            assert code == 3 and len(lines) == 1, lines
            assert "refused user 'worker' with SCRAM-SHA-512" in lines[0] and "a restart continues" in lines[0]
        assert job.lag() > 0
        file.write_text("the third\n")
        with running_worker(job, fork_server=kafka.fork_server, **env) as worker:
            job.wait_until_done([worker])
            assert worker.stop() == 0
    finally:
        secured.user("worker", "worker's own")
    verify(job, repeats=True, expect=count)


def _enters(job: KafkaJob, env: dict[str, str]) -> bool:
    return "refused user" not in output_of("check", job.path, "--online", env=env)[1]


CUTS = 3  # rounds, in each of which every connection is cut or given up
LINKS = 12  # connections of three workers that do something: consumer, group, outputs, the changelogs of four partitions
LIFE = 8.0  # seconds of a token
CLIENT_SECRET = "the client's own"


def test_workers_live_through_sessions_that_end_whatever_their_credentials(kafka: SecuredKafka, tmp_path: Path) -> None:
    """A broker cuts connections with connections.max.reauth.ms, and those whose token has ended."""
    secured, job = kafka.secured, kafka.make_job(tmp_path, "sessions")
    at, exactly = {f"{B}URL": f"kafka://{secured.brief}"}, {"STREAMJOBS_JOB__GUARANTEE": "exactly_once"}
    with contextlib.ExitStack() as stack:
        clients = {"worker": CLIENT_SECRET}
        server = stack.enter_context(TokenServer(secured.folder, secured.ca, secured.issuer, clients, LIFE))
        file = stack.enter_context(renewed(tmp_path / "renewed", secured.issuer, "worker", LIFE))
        asked = {f"{B}TOKEN_URL": server.url, f"{B}CLIENT_ID": "worker", **at}
        code, text = output_of("check", job.path, "--online", env={**asked, f"{B}CLIENT_SECRET": "another"})
        assert code == 3 and "answered 401 Unauthorized to client 'worker'" in text and server.refused, text
        late = kafka.file("late", secured.issuer.token("worker", -5))  # the broker allows for clocks, and cuts at once
        code, text = output_of("check", job.path, "--online", env={f"{B}TOKEN_FILE": late, **at})
        assert code == 3 and len(text.splitlines()) == 1 and "127.0.0.1" in text, text
        credentials = {
            "address": {**asked, f"{B}CLIENT_SECRET_FILE": kafka.file("client", CLIENT_SECRET), **exactly},
            "file": {f"{B}TOKEN_FILE": str(file), **at},
            "scram": {**kafka.credentials["scram"], **at, **exactly},
        }
        workers = [
            stack.enter_context(running_worker(job, way, fork_server=kafka.fork_server, **env))
            for way, env in credentials.items()
        ]
        until(lambda: job.members() == [2, 1, 1], "the partitions shared")
        count = job.produce(samples(200, keys=20))
        job.wait_until_done(workers)
        moves, given = [len(worker.events("ready")) for worker in workers], server.given
        while count < (1 + CUTS) * 200 or server.given == given:
            before = secured.cutting.seen.connections
            count += job.produce(samples(200, keys=20, seed=count, start=START + count))
            job.wait_until_done(workers)
            until(lambda: secured.cutting.seen.connections >= before + LINKS, "connections made anew")  # noqa: B023
        assert [len(worker.events("ready")) for worker in workers] == moves, "a worker was taken for dead"
        for worker in workers:
            assert worker.stop() == 0
            unusual = [line for line in worker.text().splitlines() if not re.search(r'^{.*"level": "info"', line)]
            assert worker.text() and not unusual, unusual
    verify(job, repeats=True, expect=count)


def test_no_secret_and_no_key_shows_anywhere_whatever_goes_wrong(kafka: SecuredKafka, tmp_path: Path) -> None:
    secured, job = kafka.secured, kafka.make_job(tmp_path, "canary")
    canaries = {name: f"canary-{name}-{secrets.token_hex(8)}" for name in ("password", "other", "key", "token", "client")}
    secured.user("worker", canaries["password"])
    secured.ca.issued("locked", "/O=Home/CN=mutual", secret=canaries["key"])
    scram = {f"{B}USERNAME": "worker", f"{B}PASSWORD": canaries["password"]}
    other = {f"{B}USERNAME": "worker", f"{B}PASSWORD": canaries["other"]}
    files = {f"{B}CERTIFICATE_FILE": str(secured.folder / "locked.crt"), f"{B}KEY_FILE": str(secured.folder / "locked.key")}
    mutual = {f"{B}URL": f"kafka://{secured.mutual}", **files, f"{B}KEY_PASSWORD": canaries["key"]}
    token = {f"{B}TOKEN": canaries["token"]}
    client = {f"{B}TOKEN_URL": "https://127.0.0.1:9/token", f"{B}CLIENT_ID": "me", f"{B}CLIENT_SECRET": canaries["client"]}
    until(lambda: _enters(job, scram), "the password counts")
    shown = []
    try:
        for env in (scram, other, mutual, {**mutual, f"{B}KEY_PASSWORD": canaries["other"]}, token, client):
            for words in (("config", "show", job.path), ("check", job.path, "--online", "--debug")):
                shown.append(output_of(*words, env=env)[1])
        for words in (("state", "list"), ("dlq", "list"), ("topics", "create"), ("replay", "--input", "topic")):
            code, text = output_of(*words, job.path, "--debug", env=other)
            assert code == 3 and "Traceback" in text, text
            shown.append(text)
        shown += [output_of("schema", env=scram)[1], *_worked(kafka, job, scram)]
    finally:
        secured.user("worker", "worker's own")
    whole = "\n".join(shown)
    found = {name for name, canary in canaries.items() if canary in whole}
    assert not found, f"shown: {found}"
    stored = [b"".join(m.value() or b"" for m in job.read(topic)) for topic in (*job.core.sinks.values(), job.changelog)]
    stored += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(map(len, stored)) > 1000
    for canary in canaries.values():
        assert not any(canary.encode() in data for data in stored)


def _worked(kafka: SecuredKafka, job: KafkaJob, env: dict[str, str]) -> list[str]:
    """Log and pages of a worker that works, is watched, loses a right and crashes. No key is in them."""
    person = f"person-{secrets.token_hex(8)}"
    job.produce([record._replace(key=f"{person}-{record.partition}".encode()) for record in samples(200, keys=4)])
    job.produce([Sent(person.encode(), b'{"x": "' + person.encode() + b'"}', 0, 1)])
    predictions = [
        one
        for one in acls.bindings(acls.rights(job.settings, job.core.sinks, "User:worker"))
        if one.name == job.core.sinks["predictions"]
    ]
    pages = []
    with running_worker(job, fork_server=kafka.fork_server, program=(*RUN, "--debug"), **env) as worker:
        job.wait_until_done([worker])
        (serving,) = worker.events("serving /metrics and /health")
        for page in ("metrics", "health"):
            with urllib.request.urlopen(f"http://127.0.0.1:{serving['port']}/{page}", timeout=ANSWER) as answer:
                pages.append(answer.read().decode())
        assert "streamjobs_records_consumed_total" in pages[0] and '"running"' in pages[1]
        with kafka.secured.without(predictions):
            job.produce([record._replace(key=f"{person}-0".encode(), partition=0) for record in samples(50, keys=4)])
            assert wait_for_exit(worker)[0] == 1
        text = worker.text()
    assert "Traceback" in text and "the broker refused outputs" in text and "aiokafka" in text
    assert person not in text + "".join(pages)
    return [text, *pages]
