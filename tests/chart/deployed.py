"""A replica of a release: the process that a kubelet would start, by what the API server has of the Deployment.

Hollow nodes run no image, so tests do: with the container's arguments and environment, the ConfigMap's content as the
mounted file, and a token of the pods' account. Only what a pod has for itself is stood in for: its network, so that
each replica has ports of its own on loopback, and the root of its file system.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

import yaml

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest
from tests.support.config_volumes import ConfigVolume
from tests.support.controller_process import PROGRAM, Controller
from tests.testbed.processes import Child, Process, free_port, until

CONFIG = "config.yaml"


class Release:
    """What a release has in the cluster."""

    def __init__(self, cluster: ClusterUnderTest, namespace: str, name: str) -> None:
        self.cluster, self.namespace, self.name = cluster, namespace, name

    @property
    def deployment(self) -> Json:
        return self.cluster.api.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{self.name}")

    @property
    def pods(self) -> list[Json]:
        """Those that are not on their way out."""
        found: list[Json] = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    @property
    def spec(self) -> Json:
        """Of its pods."""
        found: Json = self.deployment["spec"]["template"]["spec"]
        return found

    def mounted(self, path: str) -> str:
        """What the container reads in a file: that of the ConfigMap which is mounted there."""
        (container,) = self.spec["containers"]
        (mount,) = (each for each in container["volumeMounts"] if path.startswith(each["mountPath"] + "/"))
        assert "subPath" not in mount  # such a file never changes
        (volume,) = (each for each in self.spec["volumes"] if each["name"] == mount["name"])
        name = volume["configMap"]["name"]
        data = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{name}")["data"]
        text: str = data[path.removeprefix(mount["mountPath"] + "/")]
        return text

    def kubeconfig(self, path: Path) -> Path:
        """What a pod knows of its cluster: a token of its account, and its namespace."""
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.spec['serviceAccountName']}"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        content = yaml.safe_load(self.cluster.kubeconfig.read_text())
        content["users"][0]["user"] = {"token": self.cluster.api.post(f"{account}/token", asked)["status"]["token"]}
        for each in content["contexts"]:
            each["context"]["namespace"] = self.namespace
        path.write_text(yaml.safe_dump(content))
        return path


class Replica(Controller):
    """One of its pods, as a process."""

    def __init__(self, release: Release, directory: Path, webhook: int) -> None:
        directory.mkdir()
        self._release = release
        self.web, self._webhook = free_port(), webhook
        (container,) = release.spec["containers"]
        (self._file,) = (each.removeprefix("--config=") for each in container["args"] if each.startswith("--config="))
        self._volume = ConfigVolume(directory, self._text())
        args = [each.replace(self._file, str(self._volume.path)) for each in container["args"]]
        # A pod finds its account in files below /var/run; this is the same by an environment variable.
        environment = {each["name"]: each["value"] for each in container.get("env", [])}
        environment["KUBECONFIG"] = str(release.kubeconfig(directory / "kubeconfig"))
        command = ["-i", *(f"{name}={value}" for name, value in environment.items()), str(PROGRAM), *args]
        Child.__init__(self, directory.name, Path("/usr/bin/env"), command, directory / "log")

    def _start(self, program: Path, args: Iterable[str]) -> Process:
        """The installed program, and no fork of the test's: it has the container's environment and no other."""
        return Child._start(self, program, args)

    def __enter__(self) -> Self:
        return self

    def is_brought_the_new_file(self) -> None:
        """As kubelet does when the ConfigMap has changed."""
        self._volume.swap(self._text())

    def is_ready(self) -> bool:
        """By the probe of the Deployment."""
        (container,) = self._release.spec["containers"]
        path = container["readinessProbe"]["httpGet"]["path"]
        try:
            with urlopen(f"http://127.0.0.1:{self.web}{path}", timeout=30) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def becomes_ready(self) -> None:
        until(f"{self.name} is ready", self.is_ready, [self])

    def in_force(self) -> Mapping[str, Any]:
        """The configuration that its page shows."""
        with urlopen(f"http://127.0.0.1:{self.web}/api/config", timeout=30) as answer:
            found: Mapping[str, Any] = json.load(answer)
        return found

    def _text(self) -> str:
        """The mounted file, with addresses of this replica's own."""
        config = yaml.safe_load(self._release.mounted(self._file))
        config["web"] |= {"port": self.web, "bindAddress": "127.0.0.1"}
        config["webhook"] |= {"port": self._webhook, "bindAddress": "127.0.0.1"}
        return yaml.safe_dump(config)
