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
    if chosen and chosen not in NAMES:
        print(f"unknown benchmark {chosen!r}; there are: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    codes = [importlib.import_module(f"tests.bench.{name}").main(arguments) for name in NAMES if chosen in ("", name)]
    return max(code or 0 for code in codes)


if __name__ == "__main__":
    sys.exit(main())
