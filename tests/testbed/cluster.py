"""A real Kubernetes control plane on loopback, with hollow nodes: started and ended by one line, leaving nothing.

    with ControlPlane(binaries()) as cluster:
        cluster.add_nodes(3)
        cluster.kubectl("get", "nodes")

The fixtures and `python -m tests.testbed up` start it. `programs` says with which options each program runs; here
they are started in order, and each is waited for by asking for its state. Everything dies with the thread that
started it.
"""

import contextlib
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from rescheduler.model.json import Json
from tests.testbed import programs
from tests.testbed.api import Api, ApiError
from tests.testbed.binaries import Binaries
from tests.testbed.hollow import NodeShape, is_ready, node
from tests.testbed.pki import Authority, Pair
from tests.testbed.processes import Child, ProgramEnded, StateNotReached, free_port, until
from tests.testbed.runfolder import RunFolder

START_ATTEMPTS = 5  # each with new ports, when someone else was faster on one of them


class ControlPlane:
    """One running cluster."""

    def __init__(self, binaries: Binaries) -> None:
        self.version = binaries.version
        self._binaries = binaries
        self._children: dict[str, Child] = {}
        self._apis: list[Api] = []
        self._numbered = 0
        for attempt in range(1, START_ATTEMPTS + 1):
            self._folder = RunFolder()
            try:
                self._start()
            except BaseException as error:
                port_was_taken = isinstance(error, ProgramEnded) and error.port_was_taken
                retrying = port_was_taken and attempt < START_ATTEMPTS
                self.stop(keep_logs=isinstance(error, Exception) and not retrying)
                if not retrying:
                    raise
            else:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(keep_logs=kind is not None and kind is not KeyboardInterrupt)

    @property
    def pids(self) -> dict[str, int]:
        return {name: child.pid for name, child in self._children.items()}

    def stop(self, *, keep_logs: bool = False) -> None:
        """Ends every program and removes every file; the logs stay if asked for, and it is said where."""
        for child in reversed(self._children.values()):
            child.kill()
        self._children.clear()
        for api in self._apis:
            api.close()
        self._apis.clear()
        if kept := self._folder.close(keep_logs=keep_logs):
            print(f"testbed: the control plane's logs are kept in {kept}", file=sys.stderr, flush=True)

    def api_as(self, user: str, *groups: str) -> Api:
        """The API as another user."""
        self._apis.append(Api(self._layout.port, self._authority.certificate, self._authority.client(user, *groups)))
        return self._apis[-1]

    def kubeconfig_as(self, user: str, *groups: str) -> Path:
        """A kubeconfig of another user."""
        return Path(self._layout.kubeconfig(user, *groups))

    @property
    def certificate_authority(self) -> Path:
        """The CA of every certificate of this cluster."""
        return self._authority.certificate

    @property
    def kubelet_port(self) -> int:
        """Where KWOK serves what the kubelets measure; for `NodeShape.kubelet_port`."""
        return self._layout.kubelet_port

    def serving_pair(self, name: str, *names: str) -> Pair:
        """A certificate for another server of this cluster, on loopback."""
        return self._authority.server(name, *names)

    def another_server(self, port: int) -> Api:
        """Another server of this cluster, without a user; the caller closes it."""
        return Api(port, self._authority.certificate, None, timeout=2.0)

    def log_of(self, name: str) -> Path:
        """Where a further program of this cluster writes to."""
        return self._folder.logs / f"{name}.log"

    @property
    def audit_log(self) -> Path:
        """Where the API server records what others than its own programs and the administrator ask for."""
        return self._layout.audit_log

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """What kubectl prints, as the administrator; what it complains of is in the error."""
        cache = self._folder.path / "kubectl-cache"
        command = [str(self._binaries["kubectl"]), f"--kubeconfig={self.kubeconfig}", f"--cache-dir={cache}", *args]
        try:
            return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout
        except subprocess.CalledProcessError as error:
            error.add_note(error.stderr)
            raise

    def add_nodes(self, count: int, shape: NodeShape | None = None, *, prefix: str = "node") -> list[str]:
        """Hollow nodes, Ready when this returns; numbered on, so that names never repeat in one cluster."""
        first, self._numbered = self._numbered, self._numbered + count
        numbers = range(first, self._numbered)
        names = [f"{prefix}-{number}" for number in numbers]
        for name, number in zip(names, numbers, strict=True):
            self.api.post("/api/v1/nodes", node(name, number, shape or NodeShape(), self.version))
        until(f"{count} new nodes are Ready", lambda: self._ready_nodes() >= set(names), self._children.values())
        return names

    def remove_nodes(self, names: list[str]) -> None:
        for name in names:
            self.api.delete(f"/api/v1/nodes/{quote(name)}")

    def configure_scheduler(self, **fields: Any) -> None:
        """Restarts kube-scheduler with these fields in its configuration (`extenders=[…]`); without any, as it was."""
        self._end_scheduler()
        self._start_scheduler(fields)

    def run_scheduler_with(self, config: Path) -> None:
        """Restarts kube-scheduler with a whole configuration file; `configure_scheduler` puts it back as it was."""
        self._end_scheduler()
        self._start_scheduler({}, config)

    def _start(self) -> None:
        folder = self._folder.path
        self._authority = Authority(folder / "pki")
        self._layout = programs.Layout(folder, self._authority, free_port(), free_port(), free_port())
        self.server = self._layout.server
        admin = self._authority.client("admin", "system:masters")
        self.kubeconfig = self._authority.kubeconfig(folder / "kubeconfig", self.server, admin)
        self.api = self.api_as("admin", "system:masters")

        self._launch("etcd", programs.etcd(self._layout))
        self._launch("kube-apiserver", programs.kube_apiserver(self._layout))
        self._await_ready("kube-apiserver", self._layout.port)
        self._await("the API server made its namespaces", lambda: self.api.get("/api/v1/namespaces/kube-node-lease"))
        self._launch("kube-controller-manager", programs.kube_controller_manager(self._layout))
        self._launch("kwok", programs.kwok(self._layout))
        self._start_scheduler({})
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
        self._await("kube-controller-manager leads", lambda: self.api.get(lease))
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._await("kube-controller-manager makes service accounts", lambda: self.api.get(account))

    def _end_scheduler(self) -> None:
        self._children.pop("kube-scheduler").kill()

    def _start_scheduler(self, fields: Json, config: Path | None = None) -> None:
        port = free_port()
        options = programs.kube_scheduler(self._layout, port, fields)
        if config is not None:
            options = [f"--config={config}" if each.startswith("--config=") else each for each in options]
        self._launch("kube-scheduler", options)
        self._await_ready("kube-scheduler", port)

    def _launch(self, name: str, options: list[str]) -> None:
        log = self._folder.logs / f"{name}.log"
        self._children[name] = Child(name, self._binaries[name], options, log)

    def _await_ready(self, name: str, port: int) -> None:
        # A short time-out: another program on the port may accept and never answer, while ours has long given up.
        with contextlib.closing(Api(port, self._authority.certificate, None, timeout=2.0)) as health:
            self._await(f"{name} is ready", lambda: health.text("/readyz"))

    def _await(self, what: str, ask: programs.Question) -> None:
        """Until an answer comes that is neither a refusal nor a broken connection; the last such is in the error."""
        refusals: list[Exception | None] = [None]

        def answered() -> bool:
            try:
                ask()
            except (ApiError, OSError) as error:
                refusals[:] = [error]
                return False
            return True

        try:
            until(what, answered, self._children.values())
        except StateNotReached as error:
            raise error from refusals[-1]

    def _ready_nodes(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.api.get("/api/v1/nodes")["items"] if is_ready(each)}
