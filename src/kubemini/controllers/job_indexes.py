"""The indexes of an Indexed Job, as its status writes them: `0-2,5,7,8`."""

from __future__ import annotations

from collections.abc import Iterable

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""The label and the annotation that give a pod its index."""


def parse_indexes(text: str, completions: int) -> set[int]:
    """The indexes in a text, as far as the Job has so many; what makes no sense is passed over."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            found.update(range(int(first), min(int(last or first) + 1, completions)))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """The text; two neighbours are written one by one."""
    runs: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return ",".join(_run(first, last) for first, last in runs)


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}{',' if last == first + 1 else '-'}{last}"
