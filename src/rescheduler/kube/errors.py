"""The errors of the cluster package: each `str()` is a sentence for the user that says what to do.

From every module here, to the command line and the loops, which print them as they are. `ApiError` is the only one
that a request raises for what the server said, or for its silence; `KubeconfigError`, `AuthError` and `FencedError`
come before a request is sent. All are `ClusterError`, so a command catches one type.
"""


class ClusterError(Exception):
    """Anything that kept us from talking to the cluster, as a sentence for the user."""


class KubeconfigError(ClusterError):
    """A kubeconfig that cannot be used: names the file, the path in it, and the cure."""


class AuthError(ClusterError):
    """Credentials that could not be obtained or loaded: a missing file, a failing exec plugin, a broken certificate."""


class FencedError(ClusterError):
    """A write that was not sent, because we may not act any more: somebody else may lead by now."""


class ApiError(ClusterError):
    """One failed request.

    `status` is None when no whole answer came; `reason` is then one of the words in `failures.py`, else the reason of
    the server's `Status` object. `message` says what happened, `cure` (may be empty) what to do about it.
    """

    def __init__(self, status: int | None, reason: str, message: str, path: str) -> None:
        super().__init__(status, reason, message, path)
        self.status = status
        self.reason = reason
        self.message = message
        self.path = path
        self.cure = ""
        self.retry_after: float | None = None

    def __str__(self) -> str:
        answer = self.reason if self.status is None else f"{self.status} {self.reason}".rstrip()
        sentence = f"{self.message} ({answer} on {self.path})"
        return f"{sentence}; {self.cure}" if self.cure else sentence
