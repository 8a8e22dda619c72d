"""A thread of a library that ends with an error is one line of the log, and never quotes what it worked on."""

import threading

from structlog.testing import capture_logs

from streamjobs.worker.health import Health
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.run import _tell_of_threads


def told(state: str, monkeypatch) -> list[dict]:
    monkeypatch.setattr(threading, "excepthook", _tell_of_threads(Health(Metrics("in"), state=state)))

    def fail() -> None:
        raise ValueError("secret of a record")

    with capture_logs() as logs:
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
    return logs


def test_an_error_of_a_librarys_thread_is_one_line_without_its_text(monkeypatch):
    (line,) = told("running", monkeypatch)
    assert line["log_level"] == "error" and line["event"] == "library thread ended"
    assert line["error"].startswith("ValueError at test_library_threads.py:") and "secret" not in str(line)


def test_while_the_worker_stops_it_is_no_news(monkeypatch):
    (line,) = told("stopping", monkeypatch)
    assert line["log_level"] == "info"
