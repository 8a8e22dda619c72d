"""The HTTP side of a schema registry, in a thread: passes requests on and records answers, repeats them, or misbehaves."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded.json"  # what Apicurio answered; `python -m tests.schema_registry` renews it
NONSENSE: dict[str, tuple[int, bytes]] = {  # what no registry answers, or none that is well
    "html": (200, b"<html>sign in</html>"),
    "list": (200, b"[]"),
    "not utf-8": (200, b"\xff\xfe"),
    "deep": (200, b'{"schema":' + b"[" * 100_000),
    "half": (200, b'{"schema":"{\\"type'),
    "empty": (200, b""),
    "huge": (200, b" " * (17 << 20)),
    "redirect": (302, b""),
    "refused": (401, b'{"error_code":401,"message":"unauthorized"}'),
    "broken": (500, b'{"error_code":50001}'),
    "no such path": (404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'),
    "no such page": (404, b"<html>not found</html>"),
}


class Server:
    """url: its address. mode: `well`, `silent` (no answer for `held` seconds), `reset`, or one of NONSENSE."""

    def __init__(self, pass_on: str | None = None) -> None:
        self.pass_on, self.mode, self.held = pass_on, "well", 0.0
        self.asked: list[str] = []  # paths
        self.headers: list[dict[str, str]] = []
        self.exchanges: list[dict[str, Any]] = [] if pass_on else json.loads(RECORDED.read_text())
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self._thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, body: str) -> tuple[int, bytes]:
        if self.pass_on is None:
            for known in self.exchanges:
                if [known[name] for name in ("method", "path", "body")] == [method, path, body]:
                    return known["status"], known["answer"].encode()
            if path.startswith("/schemas/ids/"):
                return 404, b'{"message":"No content with id/hash was found.","error_code":40403}'
            return 500, b'{"error_code":500,"message":"not recorded"}'
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.pass_on + path, body.encode() or None, kind, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as got:
                status, content = got.status, got.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        self.exchanges.append({"method": method, "path": path, "body": body, "status": status, "answer": content.decode()})
        return status, content


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            server.asked.append(self.path)
            server.headers.append(dict(self.headers))
            if server.mode == "silent":
                time.sleep(server.held)
            if server.mode == "reset":
                self.connection.close()
                return
            if server.mode in NONSENSE:
                status, content = NONSENSE[server.mode]
            else:
                status, content = server.answer(self.command, self.path, body)
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                pass  # who asked has given up

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def serving(pass_on: str | None = None) -> Iterator[Server]:
    """pass_on: the registry that answers; None: the recorded answers."""
    server = Server(pass_on)
    try:
        yield server
    finally:
        server.stop()
