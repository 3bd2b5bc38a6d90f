"""Namespaces of the embedded cluster: what happens to one that is deleted, and to what is in it."""

from kubemini.api import Target
from kubemini.controllers.namespaces import NamespaceController
from kubemini.kinds import LEASE, NAMESPACE, POD, Kind
from kubemini.store import Key
from tests.unit.kubemini.controllers_at_work import SPACE, Cluster, at_work, condition, custom, pod_body

MAP = Kind("", "v1", "ConfigMap", "configmaps")
WIDGET = custom("Widget")


@at_work(NamespaceController)
async def test_an_empty_namespace_goes_at_once(cluster: Cluster) -> None:
    await cluster.make(NAMESPACE, "team")
    await cluster.delete(NAMESPACE, "team")
    await cluster.settled()
    assert cluster.find(NAMESPACE, "team") is None


@at_work(NamespaceController)
async def test_everything_in_a_namespace_goes_with_it_whatever_its_kind(cluster: Cluster) -> None:
    cluster.api.kinds.add(WIDGET)
    await cluster.make(NAMESPACE, "team")
    for kind in (MAP, WIDGET):
        for name in ("one", "two"):
            await cluster.make(kind, name, namespace="team")
            await cluster.make(kind, name)
    await cluster.delete(NAMESPACE, "team")
    await cluster.settled()
    assert cluster.find(NAMESPACE, "team") is None
    for kind in (MAP, WIDGET):
        assert {each["metadata"]["namespace"] for each in cluster.all(kind)} == {SPACE}


@at_work(NamespaceController)
async def test_pods_get_their_grace_and_all_else_stays_until_they_are_gone(cluster: Cluster) -> None:
    await cluster.make(NAMESPACE, "team")
    await cluster.make(POD, "web", pod_body(node="a"), namespace="team")
    await cluster.make(MAP, "settings", namespace="team")
    await cluster.delete(NAMESPACE, "team")
    await cluster.settled()
    assert cluster.get(NAMESPACE, "team")["status"]["phase"] == "Terminating"
    assert cluster.get(POD, "web", "team")["metadata"]["deletionGracePeriodSeconds"] == 30
    assert cluster.find(MAP, "settings", "team") is not None
    entry = cluster.store.get(POD, ("team", "web"))
    assert entry is not None
    cluster.store.delete(POD, entry.object(), entry.version)
    await cluster.settled()
    assert cluster.find(MAP, "settings", "team") is None
    assert cluster.find(NAMESPACE, "team") is None


@at_work(NamespaceController)
async def test_what_holds_a_namespace_up_is_told_in_its_conditions(cluster: Cluster) -> None:
    await cluster.make(NAMESPACE, "team")
    await cluster.make(LEASE, "held", {"metadata": {"finalizers": ["test.io/held"]}}, namespace="team")
    await cluster.delete(NAMESPACE, "team")
    await cluster.settled()
    team = cluster.get(NAMESPACE, "team")
    remaining, finalizers = (
        condition(team, "NamespaceContentRemaining"),
        condition(team, "NamespaceFinalizersRemaining"),
    )
    assert (remaining["status"], finalizers["status"]) == ("True", "True")
    assert remaining["message"] == "Some resources are remaining: leases.coordination.k8s.io has 1 resource instances"
    assert finalizers["message"].endswith("test.io/held in 1 resource instances")
    assert condition(team, "NamespaceDeletionContentFailure")["status"] == "False"
    free = Target(LEASE, "team", "held")
    await cluster.api.edit(free, lambda body: body | {"metadata": {**body["metadata"], "finalizers": []}})
    await cluster.settled()
    assert cluster.find(NAMESPACE, "team") is None


@at_work(NamespaceController)
async def test_a_namespace_that_somebody_else_holds_is_emptied_and_waits(cluster: Cluster) -> None:
    await cluster.make(NAMESPACE, "team", {"metadata": {"finalizers": ["test.io/held"]}})
    await cluster.make(MAP, "settings", namespace="team")
    await cluster.delete(NAMESPACE, "team")
    await cluster.settled()
    assert cluster.find(MAP, "settings", "team") is None
    assert cluster.get(NAMESPACE, "team")["spec"].get("finalizers", []) == []
    await cluster.edit(NAMESPACE, "team", lambda body: body["metadata"].pop("finalizers"))
    assert cluster.find(NAMESPACE, "team") is None


class Counted(NamespaceController):
    """Counts how often it is asked to look."""

    looks = 0

    async def reconcile(self, key: Key) -> float | None:
        Counted.looks += 1
        return await super().reconcile(key)


@at_work(Counted)
async def test_hundreds_of_objects_need_few_looks(cluster: Cluster) -> None:
    await cluster.make(NAMESPACE, "team")
    for number in range(300):
        await cluster.make(POD, f"pod-{number}", pod_body(node="a"), namespace="team")
    await cluster.delete(NAMESPACE, "team")
    await cluster.settled()
    for entry in cluster.store.entries(POD, "team"):
        cluster.store.delete(POD, entry.object(), entry.version)
        await cluster.settled()
    assert cluster.find(NAMESPACE, "team") is None
    assert Counted.looks < 10
