"""`python -m tests.pins` compares what users see with what is pinned; `--update` pins it as it is now."""

from __future__ import annotations

import argparse
import sys

from tests.pins.pinned import PINS, difference, stale_files, update


def main() -> int:
    """The exit code: 1 if something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.pins", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the golden files instead of comparing them")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only pins whose names begin so, such as plans/")
    given = parser.parse_args()
    names = [name for name in PINS if not given.names or name.startswith(tuple(given.names))]
    if given.update:
        for name in names:
            update(name)
        for file in stale_files():
            file.unlink()
        sys.stdout.write(f"{len(names)} pins written\n")
        return 0
    lines = [line for name in names for line in difference(name)]
    lines += [f"{file}: no pin makes this file" for file in stale_files()]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.write(f"{len(names)} pins compared: {'they differ' if lines else 'all are the same'}\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
