"""Namespaces of the embedded cluster: what happens to one that is deleted, and to what is in it."""

from kubemini.api import Target
from kubemini.controllers.namespaces import NamespaceController, ServiceAccountController
from kubemini.kinds import NAMESPACE, POD, Kind
from tests.unit.kubemini.controllers_at_work import Cluster, at_work, pod_body

MAP = Kind("", "v1", "ConfigMap", "configmaps")
ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")


@at_work(NamespaceController)
async def test_a_namespace_is_gone_when_its_pods_have_had_their_grace(cluster: Cluster) -> None:
    await cluster.make(NAMESPACE, "team")
    await cluster.make(POD, "web", pod_body(node="a"), namespace="team")
    await cluster.make(MAP, "settings", namespace="team")
    await cluster.delete(NAMESPACE, "team")
    await cluster.settled()
    assert cluster.get(NAMESPACE, "team")["status"]["phase"] == "Terminating"
    assert cluster.get(POD, "web", "team")["metadata"]["deletionGracePeriodSeconds"] == 30
    assert cluster.find(MAP, "settings", "team") is None
    entry = cluster.store.get(POD, ("team", "web"))
    assert entry is not None
    cluster.store.delete(POD, entry.object(), entry.version)
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


@at_work(ServiceAccountController)
async def test_every_namespace_has_its_service_account_and_gets_it_back(cluster: Cluster) -> None:
    await cluster.make(NAMESPACE, "team")
    await cluster.settled()
    assert cluster.find(ACCOUNT, "default", "team") is not None
    await cluster.api.delete(Target(ACCOUNT, "team", "default"))
    await cluster.settled()
    assert cluster.find(ACCOUNT, "default", "team") is not None
