"""What `check --online` says of certificates that end soon."""

from collections.abc import Iterator

from streamjobs.access import BrokerSection
from streamjobs.shell import client
from streamjobs.shell.certificates import days_left

SOON = 30.0  # days


def expiring(broker: BrokerSection) -> Iterator[str]:
    """A sentence for each certificate that ends within a month; asks the broker."""
    if broker.reached == "plaintext":
        return
    for server, left in client.greet(broker, every=True):
        if left is not None and left < SOON:
            yield f"broker {server}: its certificate expires in {left:.0f} days; have it renewed."
    if broker.certificate_file is not None:
        left = days_left(broker.certificate_file)
        if left is not None and left < SOON:
            when = f"expires in {left:.0f} days" if left > 0 else f"expired {-left:.0f} days ago"
            yield f"[broker]: certificate_file {broker.certificate_file!r} {when}; have it renewed."
