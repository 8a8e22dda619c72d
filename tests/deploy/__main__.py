"""`python -m tests.deploy NAME`: what takes too long for `python -m tests`; without a name, all of it.

wheel   builds the wheel, installs it into an empty environment and runs the demo there
image   builds deploy/Dockerfile with buildah and runs the demo's job through it on a real Kafka (as root, on Debian)
unit    systemd-analyze verify and security of the systemd unit
"""

import importlib
import sys

NAMES = ("wheel", "image", "unit")


def main() -> int:
    chosen, *arguments = sys.argv[1:] or ("",)
    if chosen in ("-h", "--help"):
        print(__doc__)
        return 0
    if chosen and chosen not in NAMES:
        print(f"unknown {chosen!r}; there are: {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    codes = [importlib.import_module(f"tests.deploy.{name}").main(arguments) for name in NAMES if chosen in ("", name)]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
