"""Tokens that do not last: an HTTPS address that gives them (OAuth 2.0 client credentials), and a file that is renewed."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.brokers.certificates import Authority, Issuer


class TokenServer:
    """Gives tokens of `issuer` for the subject that is the client; `given` and `refused` count.

    life: seconds a token is good for.
    """

    def __init__(self, folder: Path, ca: Authority, issuer: Issuer, clients: dict[str, str], life: float) -> None:
        self.issuer, self.clients, self.life = issuer, clients, life
        self.given = self.refused = 0
        ca.issued("tokens")
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                code, body = server._answer(self.headers.get("Authorization", ""), form)
                self.send_response(code)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tokens.crt", folder / "tokens.key")
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._http.server_port}/token"

    def _answer(self, said: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        scheme, _, text = said.partition(" ")
        client, secret = map(unquote, base64.b64decode(text).decode().split(":"))  # RFC 6749, 2.3.1
        if scheme != "Basic" or form.get("grant_type") != ["client_credentials"] or self.clients.get(client) != secret:
            self.refused += 1
            return 401, {"error": "invalid_client"}
        self.given += 1
        return 200, {"access_token": self.issuer.token(client, self.life), "expires_in": self.life}

    def __enter__(self) -> "TokenServer":
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def renewed(path: Path, issuer: Issuer, subject: str, life: float) -> Iterator[Path]:
    """A file that always holds a token that is good, as somebody beside a worker keeps it."""
    ended = threading.Event()

    def write() -> None:
        part = path.with_suffix(".part")
        part.write_text(issuer.token(subject, life) + "\n")
        part.chmod(0o600)
        part.replace(path)

    def keep() -> None:
        while not ended.wait(life / 5):
            write()

    write()
    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield path
    finally:
        ended.set()
        thread.join()
