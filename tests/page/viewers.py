"""Viewers of a page without a browser: they read its events, or connect and never read."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

READER = """
import selectors, socket, sys, time
port, count = map(int, sys.argv[1:])
choose = selectors.DefaultSelector()
seen = [0] * count
for number in range(count):
    one = socket.create_connection(("127.0.0.1", port))
    one.sendall(b"GET /events HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    choose.register(one, selectors.EVENT_READ, number)
choose.register(sys.stdin, selectors.EVENT_READ, None)
while True:
    for key, _ in choose.select():
        if key.data is None:
            print(*seen, flush=True)
            sys.exit()
        data = key.fileobj.recv(1 << 18)
        seen[key.data] += data.count(b"event: ")
        if not data:
            choose.unregister(key.fileobj)
"""


@contextmanager
def viewers(port: int, count: int) -> Iterator[list[int]]:
    """So many, in a process of their own; afterwards the list has how many events each has read."""
    words = [sys.executable, "-S", "-c", READER, str(port), str(count)]
    seen: list[int] = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield seen
            told, _ = process.communicate("\n", timeout=120)
            seen += map(int, told.split())
        finally:
            process.kill()


@contextmanager
def idle_viewer(port: int) -> Iterator[socket.socket]:
    """Asks for the events, and never reads one."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", port))
        one.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield one
