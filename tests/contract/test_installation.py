"""Installing the kind PodMigration on a cluster: new, over an older or a newer one, and without the right to."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from rescheduler import __version__
from rescheduler.cli.main import root
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Impersonation
from rescheduler.kube.crd_installer import install_crd
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.migrations import MigrationClient
from rescheduler.migration.crd import POD_MIGRATION, VERSION_ANNOTATION
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, Phase
from rescheduler.model.plan import Method
from tests.support.both_clusters import ClusterUnderTest, Space, condition, is_discovered, names, refusal
from tests.support.migrations import DEFINITIONS, MIGRATIONS
from tests.support.pod_migrations import migration_spec, pod_migration
from tests.testbed.api import ApiError
from tests.testbed.processes import until

NAME: str = POD_MIGRATION["metadata"]["name"]
REAL = pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True)
Use = Callable[[ApiClient], Awaitable[None]]


def as_user(cluster: ClusterUnderTest, use: Use, user: str = "") -> None:
    options = KubeconfigOptions(Path(cluster.kubeconfig), None, Impersonation(user))

    async def run() -> None:
        async with ApiClient(load_connection(options, {})) as client:
            await use(client)

    asyncio.run(run())


def definition_in(cluster: ClusterUnderTest) -> Json | None:
    return cluster.api.find(f"{DEFINITIONS}/{NAME}")


@pytest.fixture(autouse=True)
def bare(cluster: ClusterUnderTest) -> Iterator[None]:
    """The kind is not there, neither before nor after."""

    def remove() -> None:
        if definition_in(cluster) is not None:
            cluster.api.delete(f"{DEFINITIONS}/{NAME}")
            until("PodMigration is gone", lambda: definition_in(cluster) is None)

    remove()
    yield
    remove()


def older() -> Json:
    """What an earlier version of ours might have installed."""
    found = copy.deepcopy(POD_MIGRATION)
    del found["metadata"]["annotations"]
    (version,) = found["spec"]["versions"]
    del version["selectableFields"]
    version["additionalPrinterColumns"] = version["additionalPrinterColumns"][:1]
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"]
    return found


def order_by_hand(space: Space, name: str = "m", **spec: object) -> Json:
    metadata = {"name": name, "namespace": space.name}
    body = {"apiVersion": "rescheduler.io/v1alpha1", "kind": "PodMigration", "metadata": metadata}
    return space.api.post(MIGRATIONS.format(space.name), body | {"spec": {"pod": {"name": "web"}, **spec}})


def discovered(space: Space) -> None:
    """kubectl finds the kind, which is a moment after it is served."""
    until("PodMigration is discovered", lambda: is_discovered(space.cluster, "rescheduler.io"))


def test_what_is_installed_serves_migrations_at_once(space: Space) -> None:
    async def use(client: ApiClient) -> None:
        await install_crd(client)
        migration_client = MigrationClient(client)
        added = await migration_client.create(pod_migration(space.name, "m", migration_spec("web")))
        stored = await migration_client.update_status(added, MigrationStatus(Phase.COMPLETED, message="done"))
        assert await migration_client.read(space.name, "m") == stored
        assert (stored.metadata.generation, {each.type: each.status for each in stored.status.conditions}) == (
            1,
            {"Progressing": "False", "Completed": "True", "Failed": "False"},
        )

    as_user(space.cluster, use)


def test_installing_again_changes_nothing(cluster: ClusterUnderTest) -> None:
    as_user(cluster, install_crd)
    before = definition_in(cluster)
    as_user(cluster, install_crd)
    after = definition_in(cluster)
    assert before is not None
    assert after is not None
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_an_older_kind_is_updated_and_keeps_its_objects(space: Space) -> None:
    space.api.post(DEFINITIONS, older())
    until("the older one is served", lambda: _is_served(space))
    order_by_hand(space, timeout="5m", reason="by hand")
    as_user(space.cluster, install_crd)
    found = definition_in(space.cluster)
    assert found is not None
    assert found["metadata"]["annotations"][VERSION_ANNOTATION] == __version__

    async def use(client: ApiClient) -> None:
        migration_client = MigrationClient(client)
        old = await migration_client.read(space.name, "m")
        assert old is not None
        assert (old.spec.timeout, old.spec.reason) == (300, "by hand")
        await migration_client.update_status(old, MigrationStatus(Phase.IN_PROGRESS, "Mark", source="a"))

    def selected() -> list[str]:
        path = MIGRATIONS.format(space.name)
        try:
            return names(space.api.get(f"{path}?fieldSelector=status.phase%3DInProgress")["items"])
        except ApiError as error:
            if error.code not in (400, 404, 429, 503):  # 400: the older one knows no such selector
                raise
            return []

    def used() -> list[str]:
        as_user(space.cluster, use)
        return selected()

    # An API server goes on with the definition that it has for a moment, and drops what that does not know.
    assert until("the new one is in use", used) == ["m"]


def _is_served(space: Space) -> bool:
    if condition(definition_in(space.cluster) or {}, "Established").get("status") != "True":
        return False  # what is served may still be the one of the test before
    try:
        space.api.get(MIGRATIONS.format(space.name))
    except ApiError as error:
        if error.code not in (404, 429, 503):
            raise
        return False
    return True


def test_a_newer_kind_is_left_as_it_is(cluster: ClusterUnderTest) -> None:
    newer = older()
    newer["metadata"]["annotations"] = {VERSION_ANNOTATION: "99.0"}
    cluster.api.post(DEFINITIONS, newer)
    with capture_logs() as logs:
        as_user(cluster, install_crd)
    found = definition_in(cluster)
    assert found is not None
    assert "selectableFields" not in found["spec"]["versions"][0]
    assert [each["installed"] for each in logs if each["event"] == "newer PodMigration CRD left unchanged"] == ["99.0"]


def test_a_kind_that_is_being_deleted_is_installed_anew(space: Space) -> None:
    as_user(space.cluster, install_crd)
    made = order_by_hand(space)
    path = MIGRATIONS.format(space.name) + f"/{made['metadata']['name']}"
    space.api.patch(path, {"metadata": {"finalizers": ["contract.test/hold"]}})
    space.api.delete(f"{DEFINITIONS}/{NAME}")
    before = definition_in(space.cluster)
    assert before is not None

    async def use(client: ApiClient) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(install_crd(client))
            patch = {"metadata": {"finalizers": None}}
            group.create_task(asyncio.to_thread(space.api.patch, path, patch))

    as_user(space.cluster, use)
    after = definition_in(space.cluster)
    assert after is not None
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


@REAL
def test_without_the_right_to_install_it_the_cure_is_named(cluster: ClusterUnderTest) -> None:
    with pytest.raises(ClusterError, match=r"may not install it.*rescheduler crds \| kubectl apply -f -"):
        as_user(cluster, install_crd, "somebody")
    assert definition_in(cluster) is None


@REAL
def test_without_the_right_to_install_it_what_is_served_will_do(cluster: ClusterUnderTest) -> None:
    as_user(cluster, install_crd)
    with capture_logs() as logs:
        as_user(cluster, install_crd, "somebody")
    assert "PodMigration CRD not updated, using the installed one" in [each["event"] for each in logs]


def without_approval() -> Json:
    """As it was before moves could wait for approval, and before anybody looked at what they came to."""
    found = copy.deepcopy(POD_MIGRATION)
    (version,) = found["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    for field in ("approvalRequired", "windowed", "plan", "expectedGain"):
        del properties["spec"]["properties"][field]
    del properties["status"]["properties"]["outcome"]
    for part in ("spec", "status"):
        properties[part]["properties"]["method"]["enum"].remove("remove")
    return found


def test_an_older_kind_that_cannot_tell_of_approval_takes_no_order_that_needs_it(space: Space) -> None:
    """It would drop the field, and the move would begin without anybody's approval."""
    space.api.post(DEFINITIONS, without_approval())
    until("the older one is served", lambda: _is_served(space))

    async def use(client: ApiClient) -> None:
        migration_client = MigrationClient(client)
        with pytest.raises(ClusterError, match=r"approvalRequired.*rescheduler crds"):
            await migration_client.create(
                pod_migration(space.name, "m", migration_spec("web", approval_required=True, plan="k4m9tz"))
            )
        with pytest.raises(ClusterError, match=r"has no time windows.*windowed.*rescheduler crds"):
            await migration_client.create(pod_migration(space.name, "m", migration_spec("web", windowed=True)))
        with pytest.raises(ClusterError, match=r"has no removals.*method.*rescheduler crds"):
            await migration_client.create(pod_migration(space.name, "m", migration_spec("web", method=Method.REMOVE)))
        assert await migration_client.read(space.name, "m") is None
        added = await migration_client.create(pod_migration(space.name, "n", migration_spec("web", expected_gain=12.0)))
        assert not added.spec.approval_required

    as_user(space.cluster, use)


@pytest.mark.cluster
def test_kubectl_shows_what_a_person_wants_to_know(space: Space) -> None:
    as_user(space.cluster, install_crd)
    order_by_hand(space)

    async def use(client: ApiClient) -> None:
        migration_client = MigrationClient(client)
        found = await migration_client.read(space.name, "m")
        assert found is not None
        await migration_client.update_status(
            found, MigrationStatus(Phase.IN_PROGRESS, "Mark", source="a", target="b", message="is marked")
        )

    as_user(space.cluster, use)
    discovered(space)
    space.cluster.kubectl("wait", "-n", space.name, "pmig/m", "--for=condition=Progressing", "--timeout=60s")
    header, row = space.cluster.kubectl("get", "pmig", "-n", space.name).splitlines()
    assert header.split() == ["NAME", "PHASE", "STEP", "FROM", "TO", "METHOD", "AGE", "MESSAGE"]
    assert row.split()[:5] == ["m", "InProgress", "Mark", "a", "b"]
    assert row.endswith("is marked")
    wide = space.cluster.kubectl("get", "pmig", "-n", space.name, "-o", "wide")
    assert {"POD", "REPLACEMENT", "STRATEGY", "ATTEMPTS"} <= set(wide.split())


def test_an_order_that_could_not_be_carried_out_is_refused(space: Space) -> None:
    as_user(space.cluster, install_crd)
    wrong: tuple[Json, ...] = (
        {"timeout": "soon"},
        {"timeout": "1.2.3s"},
        {"method": "teleport"},
        {"strategy": "not a label"},
        {"proposal": {"name": "p"}},
        {"pod": {}},
    )
    for spec in wrong:
        with refusal(422, "Invalid"):
            order_by_hand(space, **spec)
    with refusal(422, "Invalid"):
        order_by_hand(space, "m" * 64)  # it stands in a label


@REAL
def test_which_pod_is_moved_and_with_which_others_never_changes(space: Space) -> None:
    as_user(space.cluster, install_crd)
    order_by_hand(space, proposal={"name": "p", "members": 2})
    path = MIGRATIONS.format(space.name) + "/m"
    for change in ({"pod": {"name": "db"}}, {"proposal": {"members": 3}}):
        with refusal(422, "Invalid"):
            space.api.patch(path, {"spec": change})
    assert space.api.patch(path, {"spec": {"paused": True}})["metadata"]["generation"] == 2


@REAL
def test_a_migration_never_leaves_or_joins_a_proposal(space: Space) -> None:
    as_user(space.cluster, install_crd)
    order_by_hand(space, "alone")
    order_by_hand(space, "member", proposal={"name": "p", "members": 2})
    for name, proposal in (("alone", {"name": "p", "members": 2}), ("member", None)):
        with refusal(422, "Invalid"):
            space.api.patch(MIGRATIONS.format(space.name) + f"/{name}", {"spec": {"proposal": proposal}})


@pytest.mark.cluster
def test_the_printed_definition_is_installed_by_kubectl_and_taken_over(
    cluster: ClusterUnderTest, tmp_path: Path
) -> None:
    file = tmp_path / "crds.yaml"
    file.write_text(printed())
    cluster.kubectl("apply", "-f", str(file))
    as_user(cluster, install_crd)
    assert "unchanged" in cluster.kubectl("apply", "-f", str(file))


def printed() -> str:
    result = CliRunner().invoke(root, ["crds"])
    assert result.exit_code == 0
    return result.output
