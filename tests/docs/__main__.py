"""`python -m tests.docs`: print the README's reference sections; with --write, put them between their markers."""

import sys

from tests.docs.reference import renewed, sections
from tests.parts import CHECKOUT


def main(arguments: list[str]) -> int:
    readme = CHECKOUT / "README.md"
    if arguments == ["--write"]:
        readme.write_text(renewed(readme.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    if arguments:
        print("python -m tests.docs [--write]", file=sys.stderr)
        return 2
    for name, text in sections().items():
        print(f"<!-- reference:{name} -->\n{text}\n<!-- /reference:{name} -->\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
