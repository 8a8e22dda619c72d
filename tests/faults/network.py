"""Workers whose every connection goes through a bad network."""

import time

from tests.brokers.proxy import Proxy, Seen
from tests.faults.case import Case

LATENCY = 0.2  # seconds in each direction
NARROW = 256 << 10  # bytes a second in each direction, of each node


def proxied(case: Case) -> list[Proxy]:
    """The proxies, through which two workers are at work."""
    case.make_job()
    proxies = list(case.cluster.proxies.values())
    for proxy in proxies:
        proxy.seen = Seen()
    case.run_two_workers(STREAMJOBS_BROKER__URL=f"kafka://{case.cluster.proxied}")
    assert sum(proxy.seen.bytes for proxy in proxies) > 0, "the workers do not talk through the proxies"
    return proxies


def mended(case: Case) -> None:
    for proxy in case.cluster.proxies.values():
        proxy.mend()


def latency(case: Case) -> None:
    """200 ms more in each direction."""
    proxies = proxied(case)
    for proxy in proxies:
        proxy.latency = LATENCY
    case.start_load(15)
    case.wait_for_commits()
    before = sum(proxy.seen.bytes for proxy in proxies)
    begun = time.monotonic()
    case.wait_for_commits(len(case.records) // 5)
    passed = sum(proxy.seen.bytes for proxy in proxies) - before
    case.prove(f"{passed >> 10} KB through proxies 200 ms away in {time.monotonic() - begun:.0f} s")
    mended(case)


def narrow(case: Case) -> None:
    """256 KB a second."""
    proxies = proxied(case)
    case.start_load()
    case.wait_for_commits()
    for proxy in proxies:
        proxy.rate = NARROW
    before, begun = sum(proxy.seen.bytes for proxy in proxies), time.monotonic()
    case.wait_for_commits()
    time.sleep(max(0.0, 10 - (time.monotonic() - begun)))
    passed, took = sum(proxy.seen.bytes for proxy in proxies) - before, time.monotonic() - begun
    case.prove(f"{passed >> 10} KB in {took:.0f} s through 3 x 256 KB/s each way")
    mended(case)


def black_hole(case: Case) -> None:
    """15 s in which nothing arrives anywhere, longer than the session: the group puts both out."""
    proxies = proxied(case)
    case.start_load()
    case.wait_for_commits()
    for proxy in proxies:
        proxy.silence(True)
    time.sleep(15)
    held = sum(proxy.seen.held for proxy in proxies)
    assert held > 0, "nobody tried to talk in the silence"
    mended(case)
    case.wait_for_commits()
    case.prove(f"15 s of silence, {held} bytes held back")


def resets(case: Case) -> None:
    """Every connection is reset, ten times, some of them before they have recovered."""
    proxies = proxied(case)
    case.start_load()
    for turn in range(10):
        if turn % 2 == 0:
            case.wait_for_commits()
        for proxy in proxies:
            proxy.reset()
        time.sleep(0.3)
    case.wait_for_commits()
    seen = sum(proxy.seen.reset for proxy in proxies)
    assert seen >= 10
    case.prove(f"{seen} connections reset")


def half_open(case: Case) -> None:
    """Every connection loses its far end without a word; new ones are whole."""
    proxies = proxied(case)
    case.start_load()
    case.wait_for_commits()
    halved = sum(proxy.halve() for proxy in proxies)
    case.wait_for_commits(within=240)
    vanished = sum(proxy.seen.vanished for proxy in proxies)
    assert halved > 0 and vanished > 0, f"{halved} connections halved, {vanished} bytes vanished"
    case.prove(f"{halved} connections half open, {vanished} bytes vanished in them")
    mended(case)
