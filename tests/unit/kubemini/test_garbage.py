"""The embedded garbage collector: what goes when its owners go, in which order, and what stays."""

from kubemini.controllers.garbage import GarbageController
from kubemini.kinds import LEASE, NODE, POD, REPLICA_SET, Kind
from kubemini.refusals import Json
from tests.unit.kubemini.controllers_at_work import Cluster, at_work, custom, names, reference

MAP = Kind("", "v1", "ConfigMap", "configmaps")
WIDGET = custom("Widget")


async def owned(cluster: Cluster, name: str, *owners: Json, **how: bool) -> Json:
    """A config map with these owners."""
    references = [reference(owner, controller=False, **how) for owner in owners]
    return await cluster.make(MAP, name, {"metadata": {"ownerReferences": references}})


@at_work(GarbageController)
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


@at_work(GarbageController)
async def test_a_dependent_that_comes_after_its_owner_has_gone_goes_too(cluster: Cluster) -> None:
    top = await cluster.make(MAP, "top")
    await cluster.delete(MAP, "top")
    await owned(cluster, "late", top)
    await cluster.settled()
    assert cluster.all(MAP) == []


@at_work(GarbageController)
async def test_another_object_of_the_same_name_is_not_the_owner(cluster: Cluster) -> None:
    first = await cluster.make(MAP, "top")
    await cluster.delete(MAP, "top")
    await cluster.make(MAP, "top")
    await owned(cluster, "dependent", first)
    await cluster.settled()
    assert names(cluster.all(MAP)) == ["top"]


@at_work(GarbageController)
async def test_an_owner_in_another_namespace_is_none(cluster: Cluster) -> None:
    elsewhere = await cluster.make(MAP, "top", namespace="kube-node-lease")
    await owned(cluster, "dependent", elsewhere)
    await cluster.settled()
    assert cluster.find(MAP, "dependent") is None


@at_work(GarbageController)
async def test_one_owner_that_is_there_keeps_a_dependent_and_the_others_are_dropped(cluster: Cluster) -> None:
    stays, goes = await cluster.make(MAP, "stays"), await cluster.make(MAP, "goes")
    await owned(cluster, "dependent", stays, goes)
    await cluster.delete(MAP, "goes")
    await cluster.settled()
    (left,) = cluster.get(MAP, "dependent")["metadata"]["ownerReferences"]
    assert left["name"] == "stays"


@at_work(GarbageController)
async def test_an_owner_without_namespace_may_own_what_has_one(cluster: Cluster) -> None:
    node = await cluster.node("a")
    body = {"metadata": {"ownerReferences": [reference(node, controller=False)]}, "spec": {"holderIdentity": "a"}}
    await cluster.make(LEASE, "a", body, namespace="kube-node-lease")
    await cluster.settled()
    assert len(cluster.all(LEASE)) == 1
    await cluster.delete(NODE, "a")
    await cluster.settled()
    assert cluster.all(LEASE) == []


@at_work(GarbageController)
async def test_what_has_no_namespace_is_left_alone_whatever_owner_in_one_it_names(cluster: Cluster) -> None:
    top = await cluster.make(MAP, "top")
    await cluster.make(NODE, "a", {"metadata": {"ownerReferences": [reference(top)]}})
    await cluster.delete(MAP, "top")
    await cluster.settled()
    assert cluster.find(NODE, "a") is not None


@at_work(GarbageController)
async def test_in_the_foreground_an_owner_waits_for_the_dependents_that_block_it(cluster: Cluster) -> None:
    top = await cluster.make(MAP, "top")
    blocking = [reference(top, blockOwnerDeletion=True)]
    held = {"metadata": {"finalizers": ["test.io/held"], "ownerReferences": blocking}}
    await cluster.make(MAP, "blocks", held)
    await owned(cluster, "goes-along", top)
    await cluster.delete(MAP, "top", propagation="Foreground")
    await cluster.settled()
    assert names(cluster.all(MAP)) == ["blocks", "top"]
    assert "deletionTimestamp" in cluster.get(MAP, "blocks")["metadata"]
    assert cluster.get(MAP, "top")["metadata"]["finalizers"] == ["foregroundDeletion"]
    await cluster.edit(MAP, "blocks", lambda body: body["metadata"].pop("finalizers"))
    await cluster.settled()
    assert cluster.all(MAP) == []


@at_work(GarbageController)
async def test_foreground_deletion_goes_down_level_by_level(cluster: Cluster) -> None:
    order: list[str] = []
    cluster.store.subscribe(lambda change: order.append(change.entry.key[1]) if change.type == "DELETED" else None, MAP)
    top = await cluster.make(MAP, "top")
    middle = await owned(cluster, "middle", top, blockOwnerDeletion=True)
    await owned(cluster, "bottom", middle, blockOwnerDeletion=True)
    await cluster.delete(MAP, "top", propagation="Foreground")
    await cluster.settled()
    assert order == ["bottom", "middle", "top"]


@at_work(GarbageController)
async def test_objects_that_own_each_other_do_not_wait_for_each_other_for_ever(cluster: Cluster) -> None:
    first = await cluster.make(MAP, "first")
    second = await owned(cluster, "second", first, blockOwnerDeletion=True)
    back = [reference(second, controller=False, blockOwnerDeletion=True)]
    await cluster.edit(MAP, "first", lambda body: body["metadata"].update(ownerReferences=back))
    await cluster.delete(MAP, "first", propagation="Foreground")
    await cluster.settled()
    assert cluster.all(MAP) == []


@at_work(GarbageController)
async def test_orphans_stay_and_forget_their_owner(cluster: Cluster) -> None:
    top = await cluster.make(MAP, "top")
    other = await cluster.make(MAP, "other")
    await owned(cluster, "one", top)
    await owned(cluster, "both", top, other)
    await cluster.delete(MAP, "top", propagation="Orphan")
    await cluster.settled()
    assert names(cluster.all(MAP)) == ["both", "one", "other"]
    assert "ownerReferences" not in cluster.get(MAP, "one")["metadata"]
    assert [each["name"] for each in cluster.get(MAP, "both")["metadata"]["ownerReferences"]] == ["other"]


@at_work(GarbageController)
async def test_owners_and_dependents_may_be_of_custom_kinds(cluster: Cluster) -> None:
    cluster.api.kinds.add(WIDGET)
    widget = await cluster.make(WIDGET, "w")
    await owned(cluster, "of-widget", widget)
    top = await cluster.make(MAP, "top")
    await cluster.make(WIDGET, "of-map", {"metadata": {"ownerReferences": [reference(top)]}})
    await cluster.delete(WIDGET, "w")
    await cluster.delete(MAP, "top")
    await cluster.settled()
    assert cluster.all(MAP) == []
    assert cluster.all(WIDGET) == []


@at_work(GarbageController)
async def test_an_owner_of_a_kind_that_is_not_known_yet_is_waited_for(cluster: Cluster) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "uid": "1-2-3"}}
    await owned(cluster, "dependent", widget)
    await cluster.settled()
    assert cluster.find(MAP, "dependent") is not None
    cluster.api.kinds.add(WIDGET)
    await cluster.until(lambda: cluster.find(MAP, "dependent") is None)


@at_work(GarbageController)
async def test_pods_of_a_deleted_set_get_their_grace(cluster: Cluster) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "hollow:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    web = await cluster.make(REPLICA_SET, "web", {"spec": spec})
    await cluster.pod("web-1", node="a", owner=web, labels=labels)
    await cluster.delete(REPLICA_SET, "web")
    await cluster.settled()
    assert cluster.get(POD, "web-1")["metadata"]["deletionGracePeriodSeconds"] == 30
    await cluster.ends("web-1")
    await cluster.settled()
    assert cluster.find(POD, "web-1") is None


@at_work()
async def test_what_was_left_over_before_it_started_is_seen_with_the_first_change(cluster: Cluster) -> None:
    top = await cluster.make(MAP, "top")
    await owned(cluster, "dependent", top)
    await cluster.delete(MAP, "top")
    await cluster.start(GarbageController)
    await cluster.make(MAP, "news")
    await cluster.settled()
    assert names(cluster.all(MAP)) == ["news"]
