"""For every test: hypothesis draws the same examples in every run, takes its time and keeps no files."""

import hypothesis

hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("fixed")
