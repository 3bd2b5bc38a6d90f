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
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.objects import CommandSender, ObjectClient, path_of
from rescheduler.migration.commands import patch
from rescheduler.migration.observation import controller_of, has_finished, is_terminating, labels_of
from rescheduler.model import labels
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


async def mark(client: ApiClient, names: Sequence[str], *, maintenance: bool, dry: bool = False) -> list[MarkedNode]:
    """Label nodes for maintenance, or remove the label. If one does not exist, none is changed."""
    nodes, writer = await _read_nodes(client, names), CommandSender(client, dry=dry)
    return [
        MarkedNode(_name(node), await _mark(writer, node, maintenance=maintenance), str(node["metadata"]["uid"]))
        for node in nodes
    ]


async def _mark(writer: CommandSender, node: Json, *, maintenance: bool) -> bool:
    if _is_marked(node) == maintenance:
        return False
    command = patch(
        node, {"metadata": {"labels": {labels.MAINTENANCE: "true" if maintenance else None}}}, "mark for maintenance"
    )
    refused = await writer.carry_out(command)
    if refused is not None:
        raise ApiError(refused.code, refused.reason, refused.message, path_of("Node", "", _name(node)))
    return True


async def find_marked(client: ApiClient, names: Sequence[str]) -> tuple[dict[str, CordonState], list[str]]:
    """Return how nodes under maintenance are cordoned (all, or those named), and the named ones without the label."""
    nodes = await _read_nodes(client, names)
    others = [_name(node) for node in nodes if not _is_marked(node)] if names else []
    return {_name(node): _cordon(node) for node in nodes if _is_marked(node)}, others


async def _read_nodes(client: ApiClient, names: Sequence[str]) -> list[Json]:
    """Read the nodes of these names, each once and in their order, or all."""
    lookup = ObjectClient(client)
    if names:
        return [await lookup.get("Node", "", name) for name in dict.fromkeys(names)]
    return sorted(await lookup.list_all("Node"), key=_name)


def describe_nodes(snapshot: ClusterSnapshot, policy: Policy, nodes: Collection[str]) -> list[DrainStatus]:
    """Describe what is left on these nodes, as the controller would see it."""
    emptying = [strategy(strategy.settings_type()) for strategy in mandatory_strategies()]
    return drain_statuses(snapshot, policy, emptying, nodes)


def missing_strategy(policy: Policy) -> str:
    """Name what to enable so that nodes are emptied; empty if a strategy that does so is enabled."""
    return "" if any(map(is_mandatory, policy.strategies_anywhere)) else name_mandatory()


async def await_drain(
    client: ApiClient,
    nodes: Sequence[str],
    barred: Collection[ObjectKey],
    on_progress: Callable[[dict[str, int]], None],
    on_uncordoned: Callable[[list[str]], None],
    limit: float | None,
) -> dict[str, set[ObjectKey]]:
    """Wait until nodes hold only pods that belong to them, and `barred` ones, which cannot be moved.

    Returns the `barred` pods that are there, by node; TimeoutError after `limit` seconds. `on_progress` gets the number
    of pods left to move, by node; `on_uncordoned` the nodes that no controller has cordoned after PATIENCE.
    """
    left: dict[str, set[ObjectKey]] = {node: set() for node in nodes}
    listed: set[str] = set()
    enough = asyncio.Event()

    def follower(node: str) -> ChangeSink:
        def tell(change: ObjectChange) -> None:
            before = len(left[node])
            if change.gone or not _is_in_the_way(change.body):
                left[node].discard(change.key)
            else:
                left[node].add(change.key)
            if node in listed and len(left[node]) != before:
                look()

        def settled() -> None:
            listed.add(node)
            look()

        return ChangeSink(tell, settled)

    def look() -> None:
        if len(listed) < len(left):
            return
        on_progress({node: len(pods) for node, pods in left.items()})
        if not set().union(*left.values()).difference(barred):
            enough.set()

    checking = asyncio.create_task(_check_cordons(client, nodes, on_uncordoned))
    try:
        async with asyncio.timeout(limit):
            await follow(client, {_pods_on(node): follower(node) for node in left}, enough)
    finally:
        checking.cancel()
        await asyncio.wait([checking])
    return left


async def _check_cordons(client: ApiClient, names: Sequence[str], on_uncordoned: Callable[[list[str]], None]) -> None:
    """Report nodes that no controller has cordoned in time. Without the right to read nodes, report nothing."""
    await asyncio.sleep(PATIENCE)
    with suppress(ClusterError):
        nodes = [await ObjectClient(client).find("Node", "", name) for name in names]
        uncordoned = [_name(node) for node in nodes if node and _is_marked(node) and _cordon(node) is CordonState.NONE]
        if uncordoned:
            on_uncordoned(uncordoned)


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
    return CordonState.OURS if labels.CORDONED in annotations_of(node) else CordonState.OTHERS


def _is_marked(node: Json) -> bool:
    return labels_of(node).get(labels.MAINTENANCE) == "true"


def _name(body: Json) -> str:
    return str(body["metadata"]["name"])
