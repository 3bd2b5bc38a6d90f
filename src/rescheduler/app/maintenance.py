"""Maintenance of nodes, for `maintenance` and the page: the mark that says so, how far emptying has come, waiting.

Moving the pods away is the controller's work; here nodes are only marked and looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from rescheduler.app.follow import ChangeSink, FollowedObjects, ObjectChange, follow
from rescheduler.app.planning import LiveCluster
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.objects import CommandSender, NotFoundError, ObjectClient, path_of
from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.observation import controller_of, has_finished, is_terminating, labels_of
from rescheduler.model import labels as marks
from rescheduler.model.json import Json, ObjectKey, annotations_of
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.strategy_traits import is_mandatory
from rescheduler.planning.maintenance import DrainStatus, drain_statuses
from rescheduler.planning.workloads import stays_on_node
from rescheduler.strategies import mandatory_strategies, name_mandatory

PATIENCE = 20.0
"""Seconds within which a controller that empties nodes has surely cordoned one; it looks every 10 s and sooner."""


class CordonState(StrEnum):
    """Whether new pods are kept off a node, and by whom."""

    NONE = "no"
    OURS = "by rescheduler"
    OTHERS = "by others"


@dataclass(frozen=True, slots=True)
class MarkedNode:
    """A node, and whether its mark had to be changed."""

    node: str
    changed: bool
    uid: str = ""


def mark(live: LiveCluster, names: Sequence[str], *, maintenance: bool, dry: bool) -> list[MarkedNode]:
    """Label these nodes for maintenance, or take the label off; all of them must be there before any is touched."""

    async def marking() -> list[MarkedNode]:
        async with ApiClient(live.connection(), request_timeout=live.request_timeout) as client:
            nodes = await _nodes(client, names)
            writer = CommandSender(client, dry=dry)
            return [
                MarkedNode(
                    _name(node), await _mark(writer, node, maintenance=maintenance), str(node["metadata"]["uid"])
                )
                for node in nodes
            ]

    return asyncio.run(marking())


async def mark_one(client: ApiClient, name: str, *, maintenance: bool) -> MarkedNode:
    """The same for one node, with a client that is there."""
    node = await ObjectClient(client).get("Node", "", name)
    return MarkedNode(
        name, await _mark(CommandSender(client), node, maintenance=maintenance), str(node["metadata"]["uid"])
    )


async def _mark(writer: CommandSender, node: Json, *, maintenance: bool) -> bool:
    if _is_marked(node) == maintenance:
        return False
    labels = {marks.MAINTENANCE: "true" if maintenance else None}
    body = {"metadata": {"uid": node["metadata"]["uid"], "labels": labels}}
    refused = await writer.carry_out(Command(Verb.PATCH, "Node", "", _name(node), body, why="mark for maintenance"))
    if refused is not None:
        raise ApiError(refused.code, refused.reason, refused.message, path_of("Node", "", _name(node)))
    return True


def find_marked(live: LiveCluster, names: Sequence[str]) -> tuple[dict[str, CordonState], list[str]]:
    """How the marked nodes are cordoned, all or those of these names; and the named ones that are not marked."""

    async def looking() -> list[Json]:
        async with ApiClient(live.connection(), request_timeout=live.request_timeout) as client:
            return await _nodes(client, names)

    nodes = asyncio.run(looking())
    marked = [node for node in nodes if _is_marked(node)]
    others = [_name(node) for node in nodes if node not in marked] if names else []
    return {_name(node): _cordon(node) for node in marked}, others


async def _nodes(client: ApiClient, names: Sequence[str]) -> list[Json]:
    """The nodes of these names, each once and in their order, or all."""
    found = {_name(node): node for node in await ObjectClient(client).list_all("Node")}
    for name in names:
        if name not in found:
            raise NotFoundError("Node", "", name, list(found))
    return [found[name] for name in dict.fromkeys(names or sorted(found))]


def describe_nodes(snapshot: ClusterSnapshot, policy: Policy, nodes: Collection[str]) -> list[DrainStatus]:
    """What is left on these nodes, as the controller would see it."""
    emptying = [strategy(strategy.settings_type()) for strategy in mandatory_strategies()]
    return drain_statuses(snapshot, policy, emptying, nodes)


def missing_strategy(policy: Policy) -> str:
    """Name what to enable so that nodes are emptied; empty if a strategy that does so is enabled."""
    return "" if any(map(is_mandatory, policy.strategies_anywhere)) else name_mandatory()


@dataclass(frozen=True, slots=True)
class DrainAudience:
    """Who is told how emptying goes."""

    noticed: Callable[[dict[str, int]], None]
    """How many pods are left to move, by node."""
    unheeded: Callable[[list[str]], None]
    """After PATIENCE: the nodes that no controller has cordoned."""


class DrainWaiter:
    """Waits until nodes hold only what belongs there, and pods that cannot go (`barred`)."""

    def __init__(
        self, live: LiveCluster, nodes: Sequence[str], barred: Collection[ObjectKey], audience: DrainAudience
    ) -> None:
        self._live = live
        self._barred = frozenset(barred)
        self._audience = audience
        self._listed: set[str] = set()
        self._enough = asyncio.Event()
        self.left: dict[str, set[ObjectKey]] = {node: set() for node in nodes}
        """What is on the nodes and does not belong there."""

    def wait(self, timeout: float | None) -> None:
        """TimeoutError when it takes longer."""

        async def waiting() -> None:
            live = self._live
            async with ApiClient(live.connection(), request_timeout=live.request_timeout) as client:
                minding = asyncio.create_task(self._mind(client))
                try:
                    async with asyncio.timeout(timeout):
                        await follow(client, {_pods_on(node): self._follower(node) for node in self.left}, self._enough)
                finally:
                    minding.cancel()
                    await asyncio.wait([minding])

        asyncio.run(waiting())

    async def _mind(self, client: ApiClient) -> None:
        """Tell if nobody seems to act; who may not look is not told, and waits as before."""
        await asyncio.sleep(PATIENCE)
        with suppress(ClusterError):
            nodes = [await ObjectClient(client).find("Node", "", name) for name in self.left]
            unheeded = [
                _name(node) for node in nodes if node and _is_marked(node) and _cordon(node) is CordonState.NONE
            ]
            if unheeded:
                self._audience.unheeded(unheeded)

    def _follower(self, node: str) -> ChangeSink:
        def tell(change: ObjectChange) -> None:
            before = len(self.left[node])
            if change.gone or not _is_in_the_way(change.body):
                self.left[node].discard(change.key)
            else:
                self.left[node].add(change.key)
            if node in self._listed and len(self.left[node]) != before:
                self._look()

        def listed() -> None:
            self._listed.add(node)
            self._look()

        return ChangeSink(tell, listed)

    def _look(self) -> None:
        if len(self._listed) < len(self.left):
            return
        self._audience.noticed({node: len(pods) for node, pods in self.left.items()})
        if not set().union(*self.left.values()) - self._barred:
            self._enough.set()


def _pods_on(node: str) -> FollowedObjects:
    return FollowedObjects("Pod", "", (("fieldSelector", f"spec.nodeName={node}"),))


def _is_in_the_way(pod: Json) -> bool:
    """Whether a pod has to leave, as `planning.maintenance` counts the pods of a snapshot."""
    owner = controller_of(pod)
    stays = stays_on_node("" if owner is None else owner["kind"], annotations_of(pod))
    return not stays and (is_terminating(pod) or not has_finished(pod))


def _cordon(node: Json) -> CordonState:
    if not node["spec"].get("unschedulable"):
        return CordonState.NONE
    return CordonState.OURS if marks.CORDONED in annotations_of(node) else CordonState.OTHERS


def _is_marked(node: Json) -> bool:
    return labels_of(node).get(marks.MAINTENANCE) == "true"


def _name(body: Json) -> str:
    return str(body["metadata"]["name"])
