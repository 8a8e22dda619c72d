"""For every test: one BLAS thread; hypothesis draws the same examples in every run, takes its time and keeps no files."""

from streamjobs.process import one_thread

one_thread()  # before anything imports numpy

import hypothesis  # noqa: E402

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("fixed")
