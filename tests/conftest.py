"""For every test: one BLAS thread; hypothesis draws the same examples in every run, takes its time and keeps no files."""

from streamjobs.process import use_one_thread

use_one_thread()  # before anything imports numpy

import hypothesis  # noqa: E402

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("fixed")
