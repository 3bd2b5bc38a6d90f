"""A hook of MkDocs: long names in tables may break after `_`, `.` and `/`, and not before an ending.

Names of metrics and fields have no spaces; a browser would give them a column as wide as the longest, or cut them
anywhere. What is copied from the page stays the name.
"""

from __future__ import annotations

import re
from typing import Any

_CELL = re.compile(r"<td.*?</td>", re.DOTALL)
_CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
_AFTER = re.compile(r"(?<=\w)([_./])(?=\w)(?!(?:py|md|js|yaml|json)\b)")


def on_page_content(html: str, **_: Any) -> str:
    """The page with places to break."""
    return _CELL.sub(lambda cell: _CODE.sub(lambda code: _AFTER.sub(r"\1<wbr>", code[0]), cell[0]), html)
