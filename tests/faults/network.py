"""Workers whose every connection goes through a bad network."""

import time

from tests.brokers.proxy import Proxy, Seen
from tests.faults.trial import Trial

LATENCY = 0.2  # seconds in each direction
NARROW = 256 << 10  # bytes a second in each direction, of each node


def proxied(trial: Trial) -> list[Proxy]:
    """The proxies, through which two workers are at work."""
    trial.make_bed()
    proxies = list(trial.cluster.proxies.values())
    for proxy in proxies:
        proxy.seen = Seen()
    trial.both(STREAMJOBS_BROKER__URL=f"kafka://{trial.cluster.proxied}")
    assert sum(proxy.seen.bytes for proxy in proxies) > 0, "the workers do not talk through the proxies"
    return proxies


def mended(trial: Trial) -> None:
    for proxy in trial.cluster.proxies.values():
        proxy.mend()


def latency(trial: Trial) -> None:
    """200 ms more in each direction."""
    proxies = proxied(trial)
    for proxy in proxies:
        proxy.latency = LATENCY
    trial.pour(15)
    trial.progress()
    before = sum(proxy.seen.bytes for proxy in proxies)
    begun = time.monotonic()
    trial.progress(len(trial.records) // 5)
    passed = sum(proxy.seen.bytes for proxy in proxies) - before
    trial.prove(f"{passed >> 10} KB through proxies 200 ms away in {time.monotonic() - begun:.0f} s")
    mended(trial)


def narrow(trial: Trial) -> None:
    """256 KB a second."""
    proxies = proxied(trial)
    trial.pour()
    trial.progress()
    for proxy in proxies:
        proxy.rate = NARROW
    before, begun = sum(proxy.seen.bytes for proxy in proxies), time.monotonic()
    trial.progress()
    time.sleep(max(0.0, 10 - (time.monotonic() - begun)))
    passed, took = sum(proxy.seen.bytes for proxy in proxies) - before, time.monotonic() - begun
    trial.prove(f"{passed >> 10} KB in {took:.0f} s through 3 x 256 KB/s each way")
    mended(trial)


def black_hole(trial: Trial) -> None:
    """15 s in which nothing arrives anywhere, longer than the session: the group puts both out."""
    proxies = proxied(trial)
    trial.pour()
    trial.progress()
    for proxy in proxies:
        proxy.silence(True)
    time.sleep(15)
    held = sum(proxy.seen.held for proxy in proxies)
    assert held > 0, "nobody tried to talk in the silence"
    mended(trial)
    trial.progress()
    trial.prove(f"15 s of silence, {held} bytes held back")


def resets(trial: Trial) -> None:
    """Every connection is reset, ten times, some of them before they have recovered."""
    proxies = proxied(trial)
    trial.pour()
    for turn in range(10):
        if turn % 2 == 0:
            trial.progress()
        for proxy in proxies:
            proxy.reset()
        time.sleep(0.3)
    trial.progress()
    seen = sum(proxy.seen.reset for proxy in proxies)
    assert seen >= 10
    trial.prove(f"{seen} connections reset")


def half_open(trial: Trial) -> None:
    """Every connection loses its far end without a word; new ones are whole."""
    proxies = proxied(trial)
    trial.pour()
    trial.progress()
    halved = sum(proxy.halve() for proxy in proxies)
    trial.progress(within=240)
    vanished = sum(proxy.seen.vanished for proxy in proxies)
    assert halved > 0 and vanished > 0, f"{halved} connections halved, {vanished} bytes vanished"
    trial.prove(f"{halved} connections half open, {vanished} bytes vanished in them")
    mended(trial)
