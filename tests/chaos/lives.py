"""Lives of the controller: each a process of its own, that ends by a trap, by our signal, or by itself.

`kills` and `faults` start one after the other, as a kubelet would. What they say goes to one log, which is kept if
something was wrong. They are tethered to us, so that none outlives us.
"""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from rescheduler.model.json import Json
from tests.support.forking import ForkedProcess
from tests.support.killing import Point
from tests.testbed.api import Api
from tests.testbed.processes import until

LOST = "kube-rescheduler is lost"  # how a controller ends that could not renew its lease in time
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/kube-rescheduler"
CONFIG: Json = {
    "apiVersion": "rescheduler.io/v1alpha1",
    "kind": "ReschedulerConfiguration",
    "enabledStrategies": [],
    "minPodAge": "0s",
    "coolDown": "0s",
    "allow": {"singleReplica": True},
    "leaderElection": {
        "leaseDuration": "4s",
        "renewDeadline": "3s",
        "retryPeriod": "500ms",
        "resourceNamespace": "default",
    },
    "migration": {
        "timeout": "2m",
        "attempts": 1,
        "retryDelay": "1s",
        "maxRetryDelay": "2s",
        "evictionGracePeriod": "2s",
        "shutdownGracePeriod": "5s",
    },
}
# Faults hit the lease's requests, too: with times like these the lead is lost now and then, and not all the time.
PATIENT = CONFIG | {
    "leaderElection": CONFIG["leaderElection"] | {"leaseDuration": "6s", "renewDeadline": "4s"},
    "migration": CONFIG["migration"] | {"attempts": 3, "concurrency": {"perWorkload": 2}},
}


@dataclass(frozen=True)
class Setting:
    """How every life is started: as whom, with what configuration, and where it says what it does."""

    kubeconfig: Path
    folder: Path
    config: Json = field(default_factory=lambda: CONFIG)
    forgets_leases: bool = False
    """Whether the lease of a dead controller is deleted, so that the next one to be killed need not wait for it."""

    @property
    def log(self) -> Path:
        """What all lives said, one after the other."""
        return self.folder / "controller.log"

    @property
    def arguments(self) -> list[str]:
        """The controller's command line."""
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(self.config))
        return ["run", "-v", "--kubeconfig", str(self.kubeconfig), "--config", str(path)]

    def said(self) -> str:
        """All of the log so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Life:
    """One process, from the beginning of a block to its end at the latest."""

    def __init__(self, setting: Setting, at: Point | None = None, of: str = "") -> None:
        trap = ["--at", str(at), "--of", of] if at is not None else []
        self._log = setting.log
        self._begins = len(setting.said())
        with setting.log.open("ab") as output:
            output.write(f"=== a life, to end at {at or 'our word'} {of}\n".encode())
        command = [*trap, "--", *setting.arguments]
        self._process = ForkedProcess("tests.support.killing:main", command, setting.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def ended(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def lost_its_lead(self) -> bool:
        """Whether it ended because the machine was too busy for it to renew its lease, as it must then."""
        return self.ended not in (None, 0) and LOST in self._log.read_text(errors="replace")[self._begins :]

    def kill(self) -> None:
        """SIGKILL, unless it is over."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def leave(self, seconds: float = 30.0) -> int | None:
        """SIGTERM; the exit code, or None if it did not go in time."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float) -> int | None:
        """The exit code, as soon as there is one."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def leads(self, api: Api, after: str) -> None:
        """Wait until somebody else than the last holder leads, which can only be this one; or until it has ended."""
        until("the controller leads", lambda: self.ended is not None or holder(api) not in ("", after))


def holder(api: Api) -> str:
    """The holder of the lease."""
    lease = api.find(LEASE)
    return str(lease["spec"].get("holderIdentity") or "") if lease else ""


def forget_lease(api: Api) -> None:
    """Commands that look for controllers in this cluster must not find ours, which are dead."""
    api.discard(LEASE)
