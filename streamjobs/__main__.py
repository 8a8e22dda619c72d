"""`python -m streamjobs`."""

from streamjobs.cli import main

main()
