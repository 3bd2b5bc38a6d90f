"""Fenced blocks that are neither a command, nor YAML, JSON or Python: which test is about each, or why none is.

Each must be found here, by its page and its first line; what is listed and no longer there fails the test, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.docs.pages import Block, name_of

CHECKED = frozenset(("bash", "sh", "console", "yaml", "json", "python"))
"""Languages that tests do something with."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Blocks of a page whose first line is like this, and the test that is about them, or why there is none."""

    page: str
    first_line: str
    reason: str = ""
    test: str = ""

    def means(self, block: Block) -> bool:
        """Whether it is about this block."""
        first = block.text.partition("\n")[0]
        return fnmatchcase(name_of(block.page), self.page) and fnmatchcase(first, self.first_line)


TEXTS = "tests/docs/test_texts.py::"
SKIPPED = (
    Skip("docs/commands.md", "*", test="tests/unit/test_docs.py::test_are_in_step_with_the_code"),
    Skip("docs/architecture.md", "src/rescheduler/", test=f"{TEXTS}test_the_tree_names_what_there_is"),
    Skip("docs/architecture.md", "cli.main:main", test="tests/docs/test_paths.py::test_a_drawn_function_exists"),
    Skip("docs/architecture.md", "app.controller:*", test="tests/docs/test_paths.py::test_a_drawn_function_exists"),
    Skip("docs/outcomes.md", "its last 2 moves *", test=f"{TEXTS}test_a_workload_that_rests_says_so_as_is_shown"),
    Skip("docs/usage.md", "usage: no sample *", test=f"{TEXTS}test_what_is_missing_of_usage_is_said_as_is_shown"),
    Skip("docs/outcomes.md", "gain = *", reason="a formula, in words; the example below it is reckoned by a test"),
)


READERS = {
    "CONTRIBUTING.md": "misplaced",
    "docs/writing-a-strategy.md": "baskets",
    "docs/writing-a-configuration-field.md": "max-?pod-?age",
}
"""What the reader of a page has just written, as a pattern: the tests of these pages put it in place first."""


def is_of_reader(place: str, text: str) -> bool:
    """Whether it needs what the reader of that page has written."""
    pattern = READERS.get(place.partition(":")[0])
    return pattern is not None and re.search(pattern, text, re.IGNORECASE) is not None


def is_skipped(block: Block) -> bool:
    """Whether the list has a reason for this block."""
    return block.language not in CHECKED and any(each.means(block) for each in SKIPPED)
