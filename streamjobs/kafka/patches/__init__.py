"""What aiokafka 0.14.0 gets wrong for us, corrected in its own classes.

`connections`: lookups, timeouts and credentials that would leave a worker idle. `decompression`: batches that decompress
to gigabytes. `batches`: batches and header names that raise. `instances`: two workers with one instance id. Each patch is
pinned to that version and has a test that fails when aiokafka changes.
"""

from streamjobs.kafka.patches import batches, connections, decompression, instances


def apply() -> None:
    """Patch aiokafka's classes. Call it before any client is made; calling it again changes nothing."""
    connections.apply()
    decompression.apply()
    batches.apply()
    instances.apply()
