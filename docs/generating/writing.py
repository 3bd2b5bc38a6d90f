"""Every page with its maker; writes them, or says what is out of step. `docs/generate.py` calls it."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from docs.generating.commands import commands
from docs.generating.configuration import configuration
from docs.generating.events import events
from docs.generating.guards import guards_page
from docs.generating.metrics import metrics
from docs.generating.predicates import predicates_page
from docs.generating.rights import rights
from docs.generating.shown import SHOWING, refreshed
from docs.generating.strategies import strategies

ROOT = Path(__file__).parents[2]
_MADE = "<!-- Made by docs/generate.py: change the code and run it again. -->\n"

PAGES: dict[str, Callable[[], str]] = {
    "strategies.md": strategies,
    "configuration.md": configuration,
    "guards.md": guards_page,
    "predicates.md": predicates_page,
    "commands.md": commands,
    "metrics.md": metrics,
    "events.md": events,
    "rights.md": rights,
}


def wanted(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Each page by its path, and the text that it should have."""
    for name, make in PAGES.items():
        title, _, rest = make().partition("\n")
        yield f"docs/{name}", f"{title}\n\n{_MADE}{rest}"
    for path in SHOWING:
        yield path, refreshed((root / path).read_text(encoding="utf-8"), root)


def differences(root: Path = ROOT) -> list[str]:
    """The lines of a diff from the pages as they are to the pages as they should be."""
    found: list[str] = []
    for path, text in wanted(root):
        there = (root / path).read_text(encoding="utf-8") if (root / path).exists() else ""
        found += difflib.unified_diff(there.splitlines(), text.splitlines(), path, "generated", lineterm="")
    return found


def main(root: Path = ROOT) -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description="Write what documentation is made from the code.")
    parser.add_argument("--check", action="store_true", help="only say what is out of step")
    if parser.parse_args().check:
        lines = differences(root)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return 1 if lines else 0
    for path, text in wanted(root):
        (root / path).write_text(text, encoding="utf-8")
    return 0
