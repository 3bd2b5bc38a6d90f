"""What the handlers of the webhook and the extender say to a body that is no question at all; the server answers it."""

from __future__ import annotations


class ReviewError(Exception):
    """A body that cannot be answered: which HTTP status it gets, and why in words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return self.message
