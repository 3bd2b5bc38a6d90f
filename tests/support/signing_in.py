"""The page's actions as users and attackers reach them: our server before a cluster under test.

`served` runs the product's own server, identity and actions in the test's event loop. Who may do something is a service
account with a role of exactly that; the embedded cluster has no roles, so there it is the cluster's own token, which
may do everything, while accounts may do nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from rescheduler.app.actions import PageActions
from rescheduler.kube.client import ApiClient
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.pause_state import PauseStore, state_name
from rescheduler.kube.reviews import ReviewClient
from rescheduler.model.json import Json
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.web.actions import ActionRoutes
from rescheduler.web.auth import PageAccess, RequestChecks
from rescheduler.web.metrics import Metrics
from rescheduler.web.server import WebApp, serve
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.testbed.api import ApiError
from tests.testbed.processes import until

HERE = "127.0.0.1"
STATE = state_name("kube-rescheduler")
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CLUSTER_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@dataclass(frozen=True)
class Answer:
    """What a request came to."""

    status: int
    body: Json
    headers: Mapping[str, str]

    @property
    def error(self) -> str:
        return str(self.body.get("error", ""))

    @property
    def done(self) -> str:
        return str(self.body.get("done", ""))


@dataclass
class ServedPage:
    """The server, with words for asking it."""

    port: int
    migrations: MigrationCache
    heard: list[str] = field(default_factory=list)
    time: float = 0.0
    """As the identity sees it: what it remembers is forgotten when a test says so."""

    async def act(self, action: str, body: object, token: str = "", **headers: str) -> Answer:
        """As our own page does it, but for these headers (`X_Real_Ip`); one that is empty is not sent."""
        given = {
            "Content-Type": "application/json",
            "X-Rescheduler-Action": action,
            "Origin": f"http://{HERE}:{self.port}",
            "Sec-Fetch-Site": "same-origin",
        }
        if token:
            given["Authorization"] = f"Bearer {token}"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.ask("POST", f"/api/actions/{action}", given, json.dumps(body).encode())

    async def whoami(self, token: str = "", **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.ask("GET", "/api/whoami", given | ({"Authorization": f"Bearer {token}"} if token else {}))

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        """Exactly these headers, over a connection of its own: no client adds what an attacker would leave out."""
        given = {"Host": f"{HERE}:{self.port}", "Content-Length": str(len(body)), "Connection": "close", **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value)]
        reader, writer = await asyncio.open_connection(HERE, self.port)
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            answer = await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()
        head, _, rest = answer.partition(b"\r\n\r\n")
        first, *others = head.decode().split("\r\n")
        found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in others)}
        is_json = rest and found.get("content-type", "").startswith("application/json")
        return Answer(int(first.split()[1]), json.loads(rest) if is_json else {}, found)


@asynccontextmanager
async def served(cluster: ClusterUnderTest, namespace: str, *, local: bool = False) -> AsyncIterator[ServedPage]:
    """The page's actions of a controller that lives in a namespace."""
    async with ApiClient(load_connection(KubeconfigOptions(cluster.kubeconfig, None), os.environ)) as own:
        page = ServedPage(0, MigrationCache())

        async def hear() -> None:
            page.heard.append("a pause has changed")

        recorder = EventRecorder(own, "test", own.clock.now)
        pauses = PauseStore(own, namespace, STATE)
        handlers = PageActions(own, recorder, pauses, hear, empties=lambda: True).handlers
        access, people = RequestChecks(local=local), PageAccess(ReviewClient(own), lambda: page.time)
        actions = ActionRoutes(access, people, handlers, (namespace, STATE), page.migrations)
        async with serve(WebApp(Metrics(), parts=[actions], access=access), HERE, 0) as page.port:
            yield page


def is_embedded(cluster: ClusterUnderTest) -> bool:
    return cluster.version == "embedded"


def token_of(space: Space, account: str, seconds: int = 3600) -> str:
    """A token of a service account, which is made where there is none."""
    if space.find("ServiceAccount", account) is None:
        space.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    granted = space.api.post(space.path("ServiceAccount", account) + "/token", asked)
    token: str = granted["status"]["token"]
    return token


def sign_again(cluster: ClusterUnderTest, token: str, seconds: int) -> str:
    """The same token as the real cluster would have made it so many seconds later, or earlier."""
    path = cluster.kubeconfig.parent / "pki" / "service-accounts.key"
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    head, payload, _ = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    claims |= {name: claims[name] + seconds for name in ("exp", "iat", "nbf")}
    signed = f"{head}.{_pack(json.dumps(claims).encode())}"
    one, other = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{_pack(one.to_bytes(32, 'big') + other.to_bytes(32, 'big'))}"


def _pack(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def allow(space: Space, account: str, rule: Json, within: str = "") -> str:
    """The token of an account that may do what a rule says, in one namespace: this one, if none is given.

    On the embedded cluster it is the token of a user with all rights.
    """
    if is_embedded(space.cluster):
        return str(getattr(space.cluster, "cluster").token)  # noqa: B009 - only the embedded one has it
    token = token_of(space, account)
    _bind(space, account, rule, within or space.name)
    attributes: dict[str, Any] = {"verb": rule["verbs"][0], "group": rule["apiGroups"][0]}
    attributes |= {"resource": rule["resources"][0], "namespace": within or space.name}
    attributes["name"] = (rule.get("resourceNames") or [""])[0]
    spec = {"user": f"system:serviceaccount:{space.name}:{account}", "resourceAttributes": attributes}
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    until(f"{account} has the right", lambda: space.api.post(ACCESS_REVIEWS, asked)["status"]["allowed"])
    return token


@asynccontextmanager
async def allow_everywhere(space: Space, account: str, rule: Json) -> AsyncIterator[str]:
    """The same for what has no namespace; the role is gone at the end of the block."""
    if is_embedded(space.cluster):
        yield allow(space, account, rule)
        return
    name = f"{space.name}-{account}"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    space.api.post(CLUSTER_ROLES, role | {"rules": [rule]})
    space.api.post(CLUSTER_BINDINGS, _binding("ClusterRole", name, space, account))
    try:
        token = token_of(space, account)
        named = {"name": rule["resourceNames"][0]} if "resourceNames" in rule else {}
        attributes = {"verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": rule["resources"][0]} | named
        spec = {"user": f"system:serviceaccount:{space.name}:{account}", "resourceAttributes": attributes}
        asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        until(f"{account} has the right", lambda: space.api.post(ACCESS_REVIEWS, asked)["status"]["allowed"])
        yield token
    finally:
        space.api.delete(f"{CLUSTER_BINDINGS}/{name}")
        space.api.delete(f"{CLUSTER_ROLES}/{name}")


def _bind(space: Space, account: str, rule: Json, within: str) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": account}}
    space.api.post(ROLES.format(within), role | {"rules": [rule]})
    try:
        space.api.post(BINDINGS.format(within), _binding("Role", account, space, account))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def _binding(kind: str, name: str, space: Space, account: str) -> Json:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": space.name}],
    }
