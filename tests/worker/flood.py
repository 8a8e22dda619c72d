"""A flood of connections that say half a header, or ask and never read the answer."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

LIMIT = 1024  # the usual `ulimit -n`
HALF, SLOW = 1117, 83  # connections with half a header; with a whole request, that never read the answer


@contextmanager
def flooded(port: int) -> Iterator[None]:
    """Inside, 1,200 connections to this port of 127.0.0.1 have been opened, and none was closed from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * (HALF + SLOW)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(hard, wanted), hard))
    try:
        with ExitStack() as stack:
            for number in range(HALF + SLOW):
                one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
                one.sendall(b"GET /metrics HTTP/1.1\r\nHost: " + (b"" if number < HALF else b"x\r\n\r\n"))
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
