"""The proxy does to a connection what its faults say."""

import socket
import threading
from collections.abc import Iterator

import pytest

from streamjobs.kafka.devbroker.broker import free_port
from tests.brokers.proxy import Proxy


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """In front of a server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        made = Proxy(free_port(), server.getsockname()[1]).start()
        yield made
        made.stop()


def _echo(server: socket.socket) -> None:
    def answer(one: socket.socket) -> None:
        try:
            while data := one.recv(4096):
                one.sendall(data)
        except OSError:
            pass

    while True:
        try:
            one, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(one,), daemon=True).start()


def connected(proxy: Proxy, within: float = 30.0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=within)


def said(one: socket.socket, text: bytes) -> bytes:
    """What comes back."""
    one.sendall(text)
    got = b""
    while len(got) < len(text) and (more := one.recv(4096)):
        got += more
    return got


def silent(one: socket.socket, text: bytes) -> bool:
    one.sendall(text)
    one.settimeout(0.3)
    try:
        return not one.recv(4096)
    except TimeoutError:
        return True
    finally:
        one.settimeout(30)


def test_an_ordinary_network_passes_everything_in_order(proxy: Proxy) -> None:
    text = bytes(range(256)) * 1_000
    with connected(proxy) as one:
        assert said(one, text) == text
    assert proxy.seen.bytes >= 2 * len(text)


def test_a_black_hole_holds_bytes_and_delivers_them_after_it(proxy: Proxy) -> None:
    with connected(proxy) as one:
        assert said(one, b"before") == b"before"
        proxy.silence(True)
        assert silent(one, b"during")
        proxy.silence(False)
        assert one.recv(6) == b"during"
    assert proxy.seen.held >= 6


def test_a_reset_ends_every_connection_and_new_ones_work(proxy: Proxy) -> None:
    with connected(proxy) as one:
        assert said(one, b"before") == b"before"
        assert proxy.reset() == 1
        with pytest.raises(ConnectionResetError):
            one.recv(1)
    with connected(proxy) as another:
        assert said(another, b"after") == b"after"


def test_of_a_half_open_connection_one_end_is_gone_without_a_sign(proxy: Proxy) -> None:
    with connected(proxy) as one:
        assert said(one, b"before") == b"before"
        assert proxy.halve() == 1
        assert silent(one, b"into nothing") and proxy.seen.vanished == 12
        with connected(proxy) as another:
            assert said(another, b"whole") == b"whole"
        proxy.mend()
        with pytest.raises(ConnectionResetError):
            one.recv(1)


def test_a_narrow_network_takes_its_time(proxy: Proxy) -> None:
    proxy.rate = 64 << 10
    begin = proxy._loop.time()
    with connected(proxy) as one:
        assert said(one, bytes(32 << 10)) == bytes(32 << 10)
    assert proxy._loop.time() - begin >= 0.5  # 32 KB each way, each direction on its own
