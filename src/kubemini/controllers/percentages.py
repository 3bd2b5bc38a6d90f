"""Numbers that may be given as a percentage: `2`, or `"25%"` of something."""

from __future__ import annotations


def scaled(number: int | str, total: int) -> int:
    """The number, or that percentage of the total rounded up; a ValueError if the text is no percentage."""
    if isinstance(number, int):
        return number
    if not (number.endswith("%") and number[:-1].isdecimal()):
        raise ValueError(f'invalid value for IntOrString: invalid type: string is not a percentage: "{number}"')
    return -(-total * int(number[:-1]) // 100)
