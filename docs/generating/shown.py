"""What other pages show of the code: the output of commands, and tables. It is run anew, and put in its place.

Shown output is what the shown command prints on a terminal of 100 columns, at the root of the checkout. A line `…` in a
console stands for lines that the page leaves out.
"""

from __future__ import annotations

import re
import shlex
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner

from docs.generating.conversion import TABLES
from docs.generating.markdown import table
from rescheduler.cli.main import run
from rescheduler.cli.output import Terminal

SHOWING = (
    "README.md",
    "README.zh-CN.md",
    "docs/getting-started.md",
    "docs/plan-format.md",
    "docs/coming-over.md",
)
"""Pages that show what commands print, or tables that the code has."""

_CONSOLE = re.compile(r"(```console\n\$ (rescheduler [^\n]+)\n)(.*?)(```\n)", re.DOTALL)
_CUT = "…\n"
_TABLE_OF = re.compile(r"(<!-- made by docs/generate\.py: ([a-z-]+) -->\n\n).*?(<!-- end -->)", re.DOTALL)
_PRINTS = re.compile(r"(`(rescheduler [^`\n]+)` prints:\n\n```json\n).*?(```\n)", re.DOTALL)


def printed(command: str, root: Path) -> tuple[str, str]:
    """What a command line prints on stderr and on stdout, run at the root of a checkout."""
    terminal = patch.object(Terminal, "of", return_value=Terminal(width=100))
    with chdir(root), terminal, CliRunner().isolation() as (out, said, _):
        run(shlex.split(command)[1:])
    return said.getvalue().decode(), out.getvalue().decode()


def cut_like(output: str, page: str) -> str:
    """The output with as many lines left out as the page leaves out."""
    lines, kept = output.splitlines(keepends=True), page.splitlines(keepends=True)
    if _CUT not in kept:
        return output
    head = kept.index(_CUT)
    return "".join([*lines[:head], _CUT, *lines[len(lines) - len(kept) + head + 1 :]])


def refreshed(text: str, root: Path) -> str:
    """The page with the output of its commands as it is now."""
    text = _TABLE_OF.sub(lambda found: f"{found[1]}{table(*TABLES[found[2]]())}\n{found[3]}", text)
    text = _CONSOLE.sub(lambda found: found[1] + cut_like("".join(printed(found[2], root)), found[3]) + found[4], text)
    return _PRINTS.sub(lambda found: f"{found[1]}{printed(found[2], root)[1]}{found[3]}", text)
