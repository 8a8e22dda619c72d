"""One BLAS thread for every test, as in tests/conftest.py."""

from streamjobs.process import use_one_thread

use_one_thread()  # before anything imports numpy
