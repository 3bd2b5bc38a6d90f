"""What every namespace of the embedded cluster comes with, and gets back."""

from kubemini.controllers.accounts import AccountController
from kubemini.controllers.namespaces import NamespaceController
from kubemini.kinds import NAMESPACE, Kind
from tests.unit.kubemini.controllers_at_work import SPACE, Cluster, at_work

MAP = Kind("", "v1", "ConfigMap", "configmaps")
ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")


@at_work(AccountController)
async def test_every_namespace_has_its_account_and_bundle_and_gets_them_back(cluster: Cluster) -> None:
    await cluster.make(NAMESPACE, "team")
    await cluster.settled()
    for namespace in (SPACE, "team"):
        assert cluster.find(ACCOUNT, "default", namespace) is not None
        assert "ca.crt" in cluster.get(MAP, "kube-root-ca.crt", namespace)["data"]
    await cluster.delete(ACCOUNT, "default")
    await cluster.delete(MAP, "kube-root-ca.crt")
    await cluster.settled()
    assert cluster.find(ACCOUNT, "default") is not None
    assert cluster.find(MAP, "kube-root-ca.crt") is not None


@at_work(AccountController, NamespaceController)
async def test_a_namespace_that_goes_is_not_furnished_again(cluster: Cluster) -> None:
    await cluster.make(NAMESPACE, "team")
    await cluster.settled()
    await cluster.delete(NAMESPACE, "team")
    await cluster.settled()
    assert cluster.find(NAMESPACE, "team") is None
    assert {each["metadata"]["namespace"] for each in cluster.all(ACCOUNT)} == {SPACE, "kube-node-lease"}
