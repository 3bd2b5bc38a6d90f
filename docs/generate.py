"""Writes what documentation is made from the code: whole pages of docs/, and the output that other pages show.

    python docs/generate.py            write it
    python docs/generate.py --check    write nothing; exit 1 with a diff when a page is out of step

Words come from docstrings, field descriptions and help texts, so that a page cannot say what the code doesn't. Only
what has no docstring of its own is worded in `docs.generating`, where the pages are made; tests/unit/test_docs.py
checks that nothing is missing from it.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # a script is given its own folder, and `docs` is the one above
    from docs.generating.writing import main

    sys.exit(main())
