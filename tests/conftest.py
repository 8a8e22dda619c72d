"""For every test: one BLAS thread; hypothesis draws the same examples in every run, without a deadline or a database."""

from streamjobs.process import use_one_thread

use_one_thread()  # before anything imports numpy

import gc  # noqa: E402

gc.disable()  # imports and collection leave no garbage; looking for it takes a third of their time

import sys  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402

from tests import sizes  # noqa: E402

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    """Before test modules are imported: their decorators ask for the number of examples."""
    sizes.fast = "not slow" in config.getoption("markexpr")
    hypothesis.settings.register_profile("sized", hypothesis.settings.get_profile("fixed"), max_examples=sizes.examples(100))
    hypothesis.settings.load_profile("sized")


def pytest_collection_finish() -> None:
    """What was imported and collected stays: looking through it for garbage again and again takes a tenth of the time.

    Python looks through everything made since then after 70,000 more objects, and the trees of our sources alone have
    millions. The numbers are those of `streamjobs.process`.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


@pytest.fixture(autouse=True)
def _no_former_connections() -> None:
    """What a test's connections met is the process's: a later test must not take an earlier refusal for its own."""
    if connections := sys.modules.get("streamjobs.kafka.patches.connections"):
        connections.Refusals.since, connections.LastAnswer.at = None, 0.0
