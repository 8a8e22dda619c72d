"""The development broker of `broker start` and `broker stop`: one node that outlives the process that started it."""

import atexit
import json
import os
import signal
import time
from pathlib import Path

from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker import jars
from streamjobs.kafka.devbroker.broker import Broker, is_free, prepare
from streamjobs.kafka.devbroker.jars import Progress, quiet

STOP_WITHIN = 10.0  # seconds, then it is killed
DEFAULT_PORT = 9092  # where a job file expects a broker by default


def start(port: int | None = None, *, progress: Progress = quiet) -> str:
    """Start the development broker, or find it running, and return its url. Its data survives every stop.

    port: None = 9092, or any free one where that is taken.  Raises SetupError as `Broker.start` does.
    """
    prepare(progress)
    with jars.locked():
        running = _running()
        if running is not None:
            if port not in (None, running["port"]):
                raise SetupError(
                    f"broker: already running at 127.0.0.1:{running['port']}; stop it ('streamjobs broker stop') "
                    f"before starting one at port {port}, or set STREAMJOBS_CACHE to another folder for a second one."
                )
            return f"kafka://127.0.0.1:{running['port']}"
        node = Broker(data=jars.home() / "node")
        node.start_prepared(port or (DEFAULT_PORT if is_free(DEFAULT_PORT) else None))
        assert node.process is not None
        _pid_file().write_text(json.dumps({"pid": node.process.pid, "port": node.port}))
        atexit.unregister(node.kill)
        return node.url


def stop() -> str | None:
    """Stop the development broker and return the url it had; None where none was running."""
    with jars.locked():
        running = _running()
        if running is None:
            return None
        os.kill(running["pid"], signal.SIGTERM)
        started = time.monotonic()
        while _running() is not None:
            if time.monotonic() - started > STOP_WITHIN:
                os.kill(running["pid"], signal.SIGKILL)
            time.sleep(0.05)
        _pid_file().unlink()
        return f"kafka://127.0.0.1:{running['port']}"


def _pid_file() -> Path:
    return jars.home() / "node.json"


def _running() -> dict[str, int] | None:
    """Process id and port of the development broker, if that process still is one."""
    try:
        written: dict[str, int] = json.loads(_pid_file().read_text())
        command = Path(f"/proc/{written['pid']}/cmdline").read_bytes()
    except FileNotFoundError:
        return None
    return written if str(jars.home() / "node" / "node.properties").encode() in command else None
