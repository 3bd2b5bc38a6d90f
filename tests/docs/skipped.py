"""The one list of fenced blocks that nothing is done with, each with its reason.

Whatever is neither a command, nor YAML, JSON or Python must be found here, by its page and its first line; what is
listed and no longer there fails the test, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.docs.pages import Block, name_of

CHECKED = frozenset(("bash", "sh", "console", "yaml", "json", "python"))
"""Languages that tests do something with."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Blocks of a page whose first line is like this, and why nothing is done with them."""

    page: str
    first_line: str
    reason: str

    def means(self, block: Block) -> bool:
        """Whether it is about this block."""
        first = block.text.partition("\n")[0]
        return fnmatchcase(name_of(block.page), self.page) and fnmatchcase(first, self.first_line)


SKIPPED = (
    Skip("docs/commands.md", "*", "usage lines and lists that docs/generate.py makes of the commands' own help"),
    Skip("docs/architecture.md", "src/rescheduler/", "the tree of folders, with words"),
    Skip("docs/outcomes.md", "gain = *", "a formula"),
    Skip("docs/outcomes.md", "its last 2 moves *", "a message, as an example"),
    Skip("docs/usage.md", "usage: no sample *", "warnings, as examples"),
)


READERS = {"CONTRIBUTING.md": "Misplaced", "docs/writing-a-strategy.md": "Baskets"}
"""Strategies that the reader of a page has just written: the tests of these pages put them in place first."""


def is_of_reader(place: str, text: str) -> bool:
    """Whether it needs the strategy that the reader of that page has written."""
    name = READERS.get(place.partition(":")[0])
    return name is not None and name.lower() in text.lower()


def is_skipped(block: Block) -> bool:
    """Whether the list has a reason for this block."""
    return block.language not in CHECKED and any(each.means(block) for each in SKIPPED)
