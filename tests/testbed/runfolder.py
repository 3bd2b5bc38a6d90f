"""The folder in which one control plane lives: data, keys, kubeconfig and logs, under the machine's temporary folder.

`cluster` makes one per start and closes it at the end, when only the logs of a failure stay. A process that is killed
can't close anything, so each new folder first sweeps away those of the dead. An owner that is alive holds a lock on the
file `alive`, which the kernel lets go of however the owner ended; process ids would lie across containers.
"""

import contextlib
import fcntl
import shutil
import tempfile
from pathlib import Path

PREFIX = "rescheduler-testbed-"
LOGS_PREFIX = "rescheduler-logs-"  # another prefix, so that what is kept for people is never swept


class RunFolder:
    """Ours until `close`."""

    def __init__(self) -> None:
        _sweep()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.logs = self.path / "logs"
        self.logs.mkdir()
        # Locked before it gets its name: a cleaner never sees an unlocked `alive` of a living owner.
        locking = self.path / "locking"
        self._alive = locking.open("w")
        fcntl.flock(self._alive, fcntl.LOCK_EX)
        locking.rename(self.path / "alive")

    def close(self, *, keep_logs: bool) -> Path | None:
        """Removes all but, if asked for, the logs; returns where they are then."""
        kept = None
        if self._alive.closed:
            return None
        if keep_logs:
            kept = Path(tempfile.mkdtemp(prefix=LOGS_PREFIX))
            for log in self.logs.iterdir():
                shutil.move(log, kept)
        shutil.rmtree(self.path)
        self._alive.close()
        return kept


def _sweep() -> None:
    for alive in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/alive"):
        with contextlib.suppress(BlockingIOError, PermissionError, FileNotFoundError), alive.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where the owner lives
            shutil.rmtree(alive.parent)
