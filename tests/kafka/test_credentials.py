"""Whom a worker trusts and what it shows, against small TLS servers: each refusal is one sentence, none a hang."""

import base64
import json
import os
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from streamjobs.errors import ConfigError, SetupError
from streamjobs.kafka import client, handshake
from streamjobs.kafka.certificates import context_of, days_left, subject
from streamjobs.kafka.patches.connections import Refusals
from streamjobs.kafka.tokens import Tokens, expiry
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.sections import Settings
from streamjobs.worker import watchdog
from streamjobs.worker.watchdog import Watchdog
from tests.brokers.certificates import Authority, Issuer, missing_openssl

SECRET = "cl1ent%secret"


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    problem = missing_openssl()
    if problem is not None:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(problem)
        pytest.skip(problem)
    made = Authority(tmp_path_factory.mktemp("trust"))
    made.issued("server")
    return made


@contextmanager
def tls_server(file: Path | None) -> Iterator[str]:
    """Accepts connections, shakes hands with key and certificate of `file` and closes; None: says something else."""
    context = None
    if file is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    one, _ = listening.accept()
                except OSError:
                    return
                with one:
                    try:
                        if context is None:
                            one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                        else:
                            context.wrap_socket(one, server_side=True).close()
                    except OSError:
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"kafka://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def refused(broker: BrokerSection) -> str:
    begun = time.monotonic()
    with pytest.raises(SetupError) as caught:
        client.verify(broker)
    assert time.monotonic() - begun < 60
    (line,) = str(caught.value).splitlines()
    return line


def test_a_broker_whose_certificate_proves_nothing_is_refused_with_the_reason(ca: Authority) -> None:
    stranger = Authority(ca.folder, "stranger")
    ca.issued("late", days=-1)
    trusting = {"ca_file": str(ca.file)}
    with tls_server(ca.folder / "late.pem") as url:
        assert "its certificate has expired" in refused(BrokerSection(url=url, **trusting))
    with tls_server(ca.folder / "server.pem") as url:
        said = refused(BrokerSection(url=url.replace("127.0.0.1", "localhost"), **trusting))
        assert "its certificate is for other names than 'localhost'; use a name of its certificate in [broker] url" in said
        said = refused(BrokerSection(url=url, ca_file=str(stranger.file)))
        assert "signed by no authority in ca_file" in said and "set [broker] ca_file to the authority's certificate" in said
        said = refused(BrokerSection(url=url, protocol="ssl"))
        assert "signed by no authority in this machine's trust store" in said
        assert "closed the connection at the first request" in refused(BrokerSection(url=url, **trusting))
    with tls_server(None) as url:
        assert "does not speak TLS at this port" in refused(BrokerSection(url=url, **trusting))


def test_files_that_are_no_certificates_or_keys_are_named(ca: Authority, tmp_path: Path) -> None:
    ca.issued("me", "/O=Home/CN=me")
    ca.issued("locked", secret="open")
    other = tmp_path / "other"
    other.write_text("something else\n")
    crt, key = str(ca.folder / "me.crt"), str(ca.folder / "server.key")
    for stated, expected in (
        ({"ca_file": str(tmp_path / "none")}, "ca_file .* cannot be read"),
        ({"ca_file": str(other)}, "ca_file .* holds no certificate: expected PEM"),
        ({"certificate_file": str(other)}, "certificate_file .* holds no certificate"),
        ({"certificate_file": crt, "key_file": key}, "key_file .* does not fit certificate_file"),
        ({"certificate_file": crt, "key_file": str(other)}, "key_file .* cannot be opened"),
        (
            {"certificate_file": str(ca.folder / "locked.crt"), "key_file": str(ca.folder / "locked.key")},
            "key_file .* cannot be opened: .* key_password_file where it is encrypted",
        ),
    ):
        with pytest.raises(ConfigError, match=expected):
            context_of(BrokerSection(**stated))
    (tmp_path / "word").write_text("open\n")
    locked = {"certificate_file": str(ca.folder / "locked.crt"), "key_file": str(ca.folder / "locked.key")}
    context_of(BrokerSection(**locked, key_password_file=str(tmp_path / "word")))
    assert subject(crt) == "CN=me,O=Home"
    left = days_left(crt)
    assert left is not None and 1.9 < left <= 2


def test_a_renewed_certificate_counts_from_the_next_connection_on(ca: Authority, tmp_path: Path) -> None:
    new = Authority(tmp_path, "ca")
    new.issued("server")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(ca.file.read_bytes())
    broker = BrokerSection(ca_file=str(trusted))
    context = context_of(broker)

    def shaken() -> bool:
        """Whether the context trusts the new authority's server."""
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(tmp_path / "server.pem")
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        near = context.wrap_bio(back, there, server_hostname="127.0.0.1")
        far = server.wrap_bio(there, back, server_side=True)
        for _ in range(6):
            for side in (near, far):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                except ssl.SSLCertVerificationError:
                    return False
        return True

    assert not shaken()
    trusted.write_bytes(ca.file.read_bytes() + new.file.read_bytes())
    os.utime(trusted, (1, 1))
    assert shaken()


class Giving(BaseHTTPRequestHandler):
    """A token address: `server.asked` are the requests, `server.answer` is what it says."""

    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.headers["Authorization"], urllib.parse.parse_qs(body)))
        status, answer = self.server.answer
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def giver(ca: Authority) -> Iterator[Any]:
    with HTTPServer(("127.0.0.1", 0), Giving) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(ca.folder / "server.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.asked, server.answer = [], (200, {"access_token": "one", "expires_in": 100})  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(5)


def giving(ca: Authority, server: Any, tmp_path: Path) -> Tokens:
    (tmp_path / "secret").write_text(SECRET + "\n")
    return Tokens(
        BrokerSection(
            ca_file=str(ca.file),
            token_url=f"https://127.0.0.1:{server.server_port}/token",
            client_id="me",
            client_secret_file=str(tmp_path / "secret"),
            scope="kafka",
        )
    )


def test_a_token_is_asked_for_once_in_its_life_with_the_clients_secret(ca: Authority, giver: Any, tmp_path: Path) -> None:
    tokens = giving(ca, giver, tmp_path)
    assert [tokens.current()[0] for _ in range(3)] == ["one"] * 3
    expected = base64.b64encode(f"me:{urllib.parse.quote(SECRET)}".encode()).decode()
    assert giver.asked == [(f"Basic {expected}", {"grant_type": ["client_credentials"], "scope": ["kafka"]})]
    giver.answer = (200, {"access_token": "two", "expires_in": 0})
    tokens.forget()
    assert tokens.current()[0] == "two"
    assert tokens.current()[0] == "two" and len(giver.asked) == 3  # it had ended: asked again


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((401, {}), "answered 401 Unauthorized to client 'me'; correct client_id, its secret or scope"),
        ((302, {}), "answered 302"),  # the secret goes nowhere else
        ((200, {"token": "x"}), "expected JSON with access_token, got something else"),
        ((200, []), "expected JSON with access_token, got something else"),
    ],
)
def test_an_address_that_gives_no_token_is_one_sentence(
    ca: Authority, giver: Any, tmp_path: Path, answer: Any, expected: str
) -> None:
    giver.answer = answer
    with pytest.raises(SetupError) as caught:
        giving(ca, giver, tmp_path).current()
    assert expected in str(caught.value) and SECRET not in str(caught.value) and len(giver.asked) == 1


def test_a_token_of_a_file_is_the_newest_and_its_end_is_read_from_it(ca: Authority, tmp_path: Path) -> None:
    issuer, file = Issuer(tmp_path), tmp_path / "token"
    tokens = Tokens(BrokerSection(token_file=str(file)))
    for life in (3600.0, -50.0):
        file.write_text(issuer.token("me", life) + "\n")
        token, ends = tokens.current()
        assert token == file.read_text().strip() and abs(ends - time.time() - life) < 30 and expiry(token) == ends
    file.write_text("opaque\n")
    assert tokens.current()[0] == "opaque" and expiry("opaque") is None


def test_a_worker_refused_for_too_long_ends_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiokafka.errors import SaslAuthenticationFailed

    table = {"broker": {"username": "me", "password_file": "p"}, "source": {"topic": "in", "dim": 1}}
    settings = Settings.model_validate({**table, "learner": {"name": "okfeb"}})
    looking = Watchdog(settings, None, None)
    monkeypatch.setattr(Refusals, "error", SaslAuthenticationFailed("no"))
    monkeypatch.setattr(Refusals, "server", "far:9092")
    for since in (None, time.monotonic()):
        monkeypatch.setattr(Refusals, "since", since)
        looking._check_credentials()
    monkeypatch.setattr(Refusals, "since", time.monotonic() - watchdog.REFUSED_FOR - 1)
    with pytest.raises(SetupError, match=r"broker far:9092: refused user 'me' with SCRAM-SHA-512.* nothing is lost"):
        looking._check_credentials()


def test_one_server_of_several_that_welcomes_is_enough_and_check_wants_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {"a:1": ssl.SSLError("no"), "b:1": OSError("down"), "c:1": None}

    async def greeted(server: str, credentials: Any) -> float | None:
        answer = answers[server]
        if answer is not None:
            raise answer
        return 90.0

    monkeypatch.setattr(handshake, "_connect", greeted)
    broker = BrokerSection(protocol="ssl")
    assert handshake.verify(broker, ["a:1", "b:1", "c:1"], {}) == [("c:1", 90.0)]
    for servers, every in ((["a:1", "b:1", "c:1"], True), (["b:1", "a:1"], False)):
        with pytest.raises(SetupError, match="broker a:1: does not speak TLS at this port"):
            handshake.verify(broker, servers, {}, every=every)
    assert handshake.verify(broker, ["b:1"], {}) == []  # nobody refuses: librdkafka says that nobody answers
