"""What recovery tells of the keys it has written."""

import numpy as np

from streamjobs.worker.recovery import WrittenKeys


def test_keys_written_counts_a_key_once_whatever_is_written_of_it() -> None:
    draw = np.random.default_rng(5)
    keys, truth, total = WrittenKeys(), set[bytes](), 0
    for _ in range(50):
        numbers = draw.integers(200, size=draw.integers(60))
        chunk = {b"k%d" % number: None if draw.random() < 0.2 else b"state" for number in numbers}
        truth = (truth | {key for key, value in chunk.items() if value}) - {key for key, value in chunk.items() if not value}
        total += keys.take(chunk)
        assert total == len(truth)
