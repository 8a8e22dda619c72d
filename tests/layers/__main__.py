"""`python -m tests.layers ways`: how many calls and changes of file a record, a job file and a state take."""

import sys

from tests.layers.ways import table, ways


def main(arguments: list[str]) -> int:
    if arguments != ["ways"]:
        print("python -m tests.layers ways", file=sys.stderr)
        return 2
    print(table(ways()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
