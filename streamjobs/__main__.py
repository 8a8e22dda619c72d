"""`python -m streamjobs`, and the console script: signals first, because the imports of a command take seconds."""

import sys

from streamjobs.process import interrupt_as_usual, take_signals_early


def main() -> None:
    take_signals_early(sys.argv[1:])
    from streamjobs.cli import run

    interrupt_as_usual()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
