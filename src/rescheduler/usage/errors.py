"""The errors of this package: each `str()` is a sentence for the user that says what to do."""


class UsageError(Exception):
    """What is used could not be read; the message names the place and the cure."""


class FileError(UsageError):
    """A token, certificate or key that cannot be read or does not load."""


class AnswerError(UsageError):
    """An answer of a Prometheus that is none, or not to our question."""
