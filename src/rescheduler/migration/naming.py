"""What a migration is called: the same pod and the same occasion give the same name, so that nothing is ordered twice.

The plan loop, `apply` and `move` name their migrations with it. The name is the migration-id, and stands in a label of
the pod, so it must do for both: the name of an object, and at most 63 characters.
"""

from __future__ import annotations

import hashlib

_LONGEST = 63  # of a label's value
_DIGITS = 8


def migration_name(pod: str, *salt: str) -> str:
    """`<pod>-<8 hex digits>`: the pod's name, cut to fit, and a hash of it and of the salt (its UID, the occasion)."""
    # The lengths keep ("a", "bc") and ("ab", "c") apart.
    told = "".join(f"{len(text)}:{text}" for text in (pod, *salt))
    digest = hashlib.sha256(told.encode()).hexdigest()[:_DIGITS]
    # A part of a DNS name ends with a letter or digit: no dash or dot may stay at the cut.
    return f"{pod[: _LONGEST - _DIGITS - 1].rstrip('-.')}-{digest}"
