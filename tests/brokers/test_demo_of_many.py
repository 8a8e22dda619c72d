"""The demo with many people on a real Kafka: every second of each of them is answered."""

import subprocess
import sys


def test_every_window_of_many_people_comes_out() -> None:
    words = [sys.executable, "-m", "streamjobs", "demo", "--people", "40", "--seconds", "6", "--no-browser"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    last = done.stdout.splitlines()[-1]
    assert last.startswith("40 people, 12,000 samples in ")  # 50 a second
    assert ", 200 windows out, " in last  # of two seconds, a second apart
