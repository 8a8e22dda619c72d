"""`python -m tests.bench [NAME [ARGUMENTS]]`: prints the figures of one benchmark, or of all."""

import importlib
import sys

NAMES = (
    "decoding",
    "estimators",
    "keys",
    "learners",
    "page",
    "peers",
    "people",
    "plain",
    "rows",
    "scrape",
    "state",
    "statistics",
    "worker",
)


def main() -> int:
    chosen, *arguments = sys.argv[1:] or ("",)
    if chosen in ("-h", "--help"):
        print(f"{__doc__}\nNames: {', '.join(NAMES)}. `NAME --help` prints the arguments of one.")
        return 0
    if chosen and chosen not in NAMES:
        print(f"unknown benchmark {chosen!r}; there are: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    modules = [importlib.import_module(f"tests.bench.{name}") for name in NAMES if chosen in ("", name)]
    if arguments[:1] in (["-h"], ["--help"]) and not hasattr(modules[0], "argparse"):  # a benchmark without arguments
        print(modules[0].__doc__)
        return 0
    codes = [module.main(arguments) for module in modules]
    return max(code or 0 for code in codes)


if __name__ == "__main__":
    sys.exit(main())
