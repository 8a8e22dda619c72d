"""`python -m tests.guard [--write]`: the counts of this checkout next to those of numbers.json, or into it."""

import json
import sys

from tests.guard.measures import MEASURES, NUMBERS, PYTHON, limit, measured


def main() -> int:
    counts = {name: round(count, 4) for measure in MEASURES for name, count in measured(measure).items()}
    known = json.loads(NUMBERS.read_text())["counts"]
    for name, count in counts.items():
        said = f"{known[name]:>9.4g}" if name in known else "      new"
        over = "  above its limit" if name in known and count > limit(name, known[name]) else ""
        print(f"{name:34}{said} -> {count:.4g}{over}")
    if sys.argv[1:] == ["--write"]:
        NUMBERS.write_text(json.dumps({"python": PYTHON, "counts": counts}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
