"""What migrations and plans are called: the same on the same occasion is called the same, so nothing is ordered twice.

The plan loop, `apply` and `move` name their migrations with it. The name is the migration-id, and stands in a label of
the pod, so it must do for both: the name of an object, and at most 63 characters. A plan's name is for people to type.
"""

from __future__ import annotations

import hashlib

_LONGEST = 63  # of a label's value
_DIGITS = 8
_LETTERS = "bcdfghjkmnpqrstvwxz2456789"  # no vowels, so that no words come of them, and none that look like digits
_LENGTH = 6


def migration_name(pod: str, *salt: str) -> str:
    """`<pod>-<8 hex digits>`: the pod's name, cut to fit, and a hash of it and of the salt (its UID, the occasion)."""
    digest = _digest(pod, *salt).hex()[:_DIGITS]
    # A part of a DNS name ends with a letter or digit: no dash or dot may stay at the cut.
    return f"{pod[: _LONGEST - _DIGITS - 1].rstrip('-.')}-{digest}"


def plan_name(*told: str) -> str:
    """Six letters and digits that stand for a plan, from all that tells it from others."""
    number = int.from_bytes(_digest(*told))
    letters = []
    for _ in range(_LENGTH):
        number, at = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[at])
    return "".join(letters)


def _digest(*texts: str) -> bytes:
    # The lengths keep ("a", "bc") and ("ab", "c") apart.
    return hashlib.sha256("".join(f"{len(text)}:{text}" for text in texts).encode()).digest()
