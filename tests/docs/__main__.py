"""`python -m tests.docs`: print the pages' generated sections; with --write, put them between their markers."""

import sys

from tests.docs.pages import pages
from tests.docs.reference import BEGIN, END, renewed, sections
from tests.parts import CHECKOUT


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        for page, text in pages().items():
            if (new := renewed(text, page)) != text:
                (CHECKOUT / page).write_text(new, encoding="utf-8")
                print(page)
        return 0
    if arguments:
        print("python -m tests.docs [--write]", file=sys.stderr)
        return 2
    for name, text in sections().items():
        print(f"{BEGIN.format(name)}\n{text}\n{END.format(name)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
