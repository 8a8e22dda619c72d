"""A server of metrics and health on a free port."""

import pytest

from streamjobs.settings.sections import MetricsSection
from streamjobs.worker.health import Health
from streamjobs.worker.health.server import Server
from streamjobs.worker.metrics import Metrics


@pytest.fixture
def served():
    health = Health(Metrics("in", "okfeb", "page_hinkley", ["in.features"]))
    server = Server(MetricsSection(port=0), health)
    yield health, server.start()
    server.stop()
