"""Labels nodes for maintenance, and shows or awaits how far they are drained, for `maintenance` and the page.

The controller moves the pods away; this module only labels nodes and reads them.
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
"""Seconds after which a controller that empties nodes must have cordoned one: it checks at least every 10 s."""


class CordonState(StrEnum):
    """Whether a node is cordoned, and by what."""

    NONE = "no"
    OURS = "by rescheduler"
    OTHERS = "by others"


@dataclass(frozen=True, slots=True)
class MarkedNode:
    """A node, and whether its label had to be changed."""

    node: str
    changed: bool
    uid: str = ""


def mark(live: LiveCluster, names: Sequence[str], *, maintenance: bool, dry: bool) -> list[MarkedNode]:
    """Label nodes for maintenance, or remove the label. If one does not exist, none is changed."""

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
    """Do the same for one node, with an open client."""
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
    """Return how nodes under maintenance are cordoned (all, or those named), and the named ones without the label."""

    async def looking() -> list[Json]:
        async with ApiClient(live.connection(), request_timeout=live.request_timeout) as client:
            return await _nodes(client, names)

    nodes = asyncio.run(looking())
    marked = [node for node in nodes if _is_marked(node)]
    others = [_name(node) for node in nodes if node not in marked] if names else []
    return {_name(node): _cordon(node) for node in marked}, others


async def _nodes(client: ApiClient, names: Sequence[str]) -> list[Json]:
    """Read the nodes of these names, each once and in their order, or all."""
    found = {_name(node): node for node in await ObjectClient(client).list_all("Node")}
    for name in names:
        if name not in found:
            raise NotFoundError("Node", "", name, list(found))
    return [found[name] for name in dict.fromkeys(names or sorted(found))]


def describe_nodes(snapshot: ClusterSnapshot, policy: Policy, nodes: Collection[str]) -> list[DrainStatus]:
    """Describe what is left on these nodes, as the controller would see it."""
    emptying = [strategy(strategy.settings_type()) for strategy in mandatory_strategies()]
    return drain_statuses(snapshot, policy, emptying, nodes)


def missing_strategy(policy: Policy) -> str:
    """Name what to enable so that nodes are emptied; empty if a strategy that does so is enabled."""
    return "" if any(map(is_mandatory, policy.strategies_anywhere)) else name_mandatory()


@dataclass(frozen=True, slots=True)
class DrainCallbacks:
    """Functions that DrainWaiter calls."""

    on_progress: Callable[[dict[str, int]], None]
    """Gets the number of pods left to move, by node."""
    on_uncordoned: Callable[[list[str]], None]
    """Gets the nodes that no controller has cordoned after PATIENCE."""


class DrainWaiter:
    """Waits until nodes hold only pods that belong to them, and pods that cannot be moved (`barred`)."""

    def __init__(
        self, live: LiveCluster, nodes: Sequence[str], barred: Collection[ObjectKey], callbacks: DrainCallbacks
    ) -> None:
        self._live = live
        self._barred = frozenset(barred)
        self._callbacks = callbacks
        self._listed: set[str] = set()
        self._enough = asyncio.Event()
        self.left: dict[str, set[ObjectKey]] = {node: set() for node in nodes}
        """The pods that still have to leave, by node."""

    def wait(self, timeout: float | None) -> None:
        """Wait; TimeoutError if it takes longer."""

        async def waiting() -> None:
            live = self._live
            async with ApiClient(live.connection(), request_timeout=live.request_timeout) as client:
                checking = asyncio.create_task(self._check_cordons(client))
                try:
                    async with asyncio.timeout(timeout):
                        await follow(client, {_pods_on(node): self._follower(node) for node in self.left}, self._enough)
                finally:
                    checking.cancel()
                    await asyncio.wait([checking])

        asyncio.run(waiting())

    async def _check_cordons(self, client: ApiClient) -> None:
        """Report nodes that no controller has cordoned in time. Without the right to read nodes, report nothing."""
        await asyncio.sleep(PATIENCE)
        with suppress(ClusterError):
            nodes = [await ObjectClient(client).find("Node", "", name) for name in self.left]
            uncordoned = [
                _name(node) for node in nodes if node and _is_marked(node) and _cordon(node) is CordonState.NONE
            ]
            if uncordoned:
                self._callbacks.on_uncordoned(uncordoned)

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
        self._callbacks.on_progress({node: len(pods) for node, pods in self.left.items()})
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
