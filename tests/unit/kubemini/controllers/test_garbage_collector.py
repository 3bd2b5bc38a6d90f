"""The embedded garbage collector: what goes when its owners go, in which order, and what stays."""

from kubemini.controllers.garbage_collector import GarbageCollector
from kubemini.errors import Json
from kubemini.kinds import Kind
from tests.support.workloads import names
from tests.unit.kubemini.controllers_at_work import Cluster, at_work, custom, reference

MAP = Kind("", "v1", "ConfigMap", "configmaps")
WIDGET = custom("Widget")


async def owned(cluster: Cluster, name: str, *owners: Json, **how: bool) -> Json:
    """A config map with these owners."""
    references = [reference(owner, controller=False, **how) for owner in owners]
    return await cluster.make(MAP, name, {"metadata": {"ownerReferences": references}})


@at_work(GarbageCollector)
async def test_dependents_go_when_their_owner_is_gone_and_theirs_with_them(cluster: Cluster) -> None:
    top = await cluster.make(MAP, "top")
    middle = await owned(cluster, "middle", top)
    await owned(cluster, "bottom", middle)
    await cluster.make(MAP, "bystander")
    await cluster.settled()
    assert len(cluster.all(MAP)) == 4
    await cluster.delete(MAP, "top")
    await cluster.settled()
    assert names(cluster.all(MAP)) == ["bystander"]


@at_work(GarbageCollector)
async def test_another_object_of_the_same_name_is_not_the_owner(cluster: Cluster) -> None:
    first = await cluster.make(MAP, "top")
    await cluster.delete(MAP, "top")
    await cluster.make(MAP, "top")
    await owned(cluster, "dependent", first)
    await cluster.settled()
    assert names(cluster.all(MAP)) == ["top"]


@at_work(GarbageCollector)
async def test_foreground_deletion_goes_down_level_by_level(cluster: Cluster) -> None:
    order: list[str] = []
    cluster.store.subscribe(lambda change: order.append(change.entry.key[1]) if change.type == "DELETED" else None, MAP)
    top = await cluster.make(MAP, "top")
    middle = await owned(cluster, "middle", top, blockOwnerDeletion=True)
    await owned(cluster, "bottom", middle, blockOwnerDeletion=True)
    await cluster.delete(MAP, "top", propagation="Foreground")
    await cluster.settled()
    assert order == ["bottom", "middle", "top"]


@at_work(GarbageCollector)
async def test_an_owner_of_a_kind_that_is_not_known_yet_is_waited_for(cluster: Cluster) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "uid": "1-2-3"}}
    await owned(cluster, "dependent", widget)
    await cluster.settled()
    assert cluster.find(MAP, "dependent") is not None
    cluster.api.kinds.add(WIDGET)
    await cluster.until(lambda: cluster.find(MAP, "dependent") is None)
