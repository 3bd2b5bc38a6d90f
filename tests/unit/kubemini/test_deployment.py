"""Deployments of the embedded cluster: rollouts, revisions, pauses, and what the status tells of them."""

from datetime import timedelta
from typing import Any

import pytest

from kubemini import clock
from kubemini.api import NoAdmission, Review, Target
from kubemini.controllers.deployment import DeploymentController
from kubemini.kinds import REPLICA_SET
from kubemini.refusals import Json, forbidden
from kubemini.store import Change
from tests.support.manifests import deployment, prefers
from tests.support.workloads import SPACE, Workloads, condition, name_of, names, unready

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
HASH = "pod-template-hash"


async def rolled_out(cluster: Workloads, body: Json) -> Json:
    await cluster.create(body)
    return await cluster.rolled_out(name_of(body))


async def set_template(cluster: Workloads, version: str | None) -> None:
    """Another template, told apart by an annotation; None takes it out."""

    def changed(body: Json) -> None:
        metadata = body["spec"]["template"]["metadata"]
        metadata.pop("annotations", None)
        if version is not None:
            metadata["annotations"] = {"version": version}

    await cluster.edit("Deployment", "web", changed)


def version_of(body: Json) -> str:
    metadata = body["metadata"] if body["kind"] == "Pod" else body["spec"]["template"]["metadata"]
    return str(metadata.get("annotations", {}).get("version", ""))


def replica_set(cluster: Workloads, version: str = "") -> Json:
    (found,) = [each for each in cluster.all("ReplicaSet") if version_of(each) == version]
    return found


def annotations(body: Json) -> dict[str, str]:
    found: dict[str, str] = body["metadata"].get("annotations", {})
    return found


async def test_a_deployment_makes_a_replica_set_of_its_template() -> None:
    body = deployment("web", 3, minReadySeconds=0)
    body["metadata"]["annotations"] = {"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    async with Workloads() as cluster:
        made = await rolled_out(cluster, body)
        (found,) = cluster.all("ReplicaSet")
        hashed = found["metadata"]["labels"][HASH]
        assert name_of(found) == f"web-{hashed}"
        assert set(hashed) <= set("bcdf456789")
        assert len(hashed) <= 10
        assert found["spec"]["selector"]["matchLabels"] == {"app": "web", HASH: hashed}
        assert found["spec"]["template"]["metadata"]["labels"] == {"app": "web", HASH: hashed}
        assert annotations(found) == {"note": "x", REVISION: "1", DESIRED: "3", MOST: "4"}
        assert found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert annotations(made)[REVISION] == "1"
        assert cluster.events("web") == [("ScalingReplicaSet", f"Scaled up replica set web-{hashed} from 0 to 3")]


async def test_the_status_of_a_deployment_that_is_rolled_out() -> None:
    async with Workloads() as cluster:
        made = await rolled_out(cluster, deployment("web", 3))
        status = made["status"]
        (found,) = names(cluster.all("ReplicaSet"))
        conditions = [(each["type"], each["status"], each["reason"], each["message"]) for each in status["conditions"]]
        assert conditions == [
            ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
            ("Progressing", "True", "NewReplicaSetAvailable", f'ReplicaSet "{found}" has successfully progressed.'),
        ]
        assert {key: value for key, value in status.items() if key != "conditions"} == {
            "observedGeneration": 1,
            "replicas": 3,
            "updatedReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "terminatingReplicas": 0,
        }


async def test_the_conditions_go_through_the_steps_of_a_first_rollout() -> None:
    seen: list[tuple[str, str]] = []
    async with Workloads() as cluster:

        def told(change: Change) -> None:
            body = change.entry.object()
            found = (condition(body, "Progressing").get("reason", ""), condition(body, "Available").get("reason", ""))
            if not seen or seen[-1] != found:
                seen.append(found)

        cluster.watch("Deployment", told)
        cluster.kubelet.starts = lambda _: False
        await cluster.create(deployment("web", 2))
        await cluster.until("the pods are there", lambda: seen[-1][0] == "ReplicaSetUpdated")
        cluster.kubelet.starts = lambda _: True
        cluster.kubelet.look_again()
        await cluster.rolled_out("web")
    assert seen == [
        ("", ""),
        ("NewReplicaSetCreated", ""),
        ("NewReplicaSetCreated", "MinimumReplicasUnavailable"),
        ("ReplicaSetUpdated", "MinimumReplicasUnavailable"),
        ("NewReplicaSetAvailable", "MinimumReplicasAvailable"),
    ]


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable"),
    [(3, "25%", "25%"), (10, 3, 2), (4, 0, 1), (4, "100%", 0), (5, 0, "100%"), (1, 1, 0), (1, 0, 1)],
)
async def test_a_rollout_keeps_within_its_bounds(replicas: int, surge: Any, unavailable: Any) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    most, fewest = [0], [replicas]
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", replicas, strategy=strategy))

        def count(_: Change) -> None:
            pods = cluster.pods("web")
            most.append(len(pods))
            fewest.append(sum(condition(pod, "Ready").get("status") == "True" for pod in pods))

        cluster.watch("Pod", count)
        await set_template(cluster, "2")
        await cluster.rolled_out("web")
        assert {version_of(pod) for pod in cluster.pods("web")} == {"2"}
        old = replica_set(cluster)
        assert (old["spec"]["replicas"], old["status"]["replicas"]) == (0, 0)

    def scaled(value: Any, up: bool) -> int:
        exact = int(str(value).removesuffix("%")) * replicas
        return value if isinstance(value, int) else -(-exact // 100) if up else exact // 100

    assert max(most) <= replicas + scaled(surge, up=True)
    assert min(fewest) >= replicas - scaled(unavailable, up=False)


async def test_a_rollout_stops_when_the_new_pods_do_not_become_ready() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 4))
        cluster.kubelet.starts = lambda pod: version_of(pod) != "bad"
        await set_template(cluster, "bad")
        await cluster.until("it has begun", lambda: len(cluster.pods("web")) == 5)
        await cluster.settled()
        versions = sorted(version_of(pod) for pod in cluster.pods("web"))
        assert versions == ["", "", "", "bad", "bad"]
        status = cluster.get("Deployment", "web")["status"]
        assert (status["updatedReplicas"], status["availableReplicas"], status["unavailableReplicas"]) == (2, 3, 2)
        assert condition(cluster.get("Deployment", "web"), "Available")["status"] == "True"

        await set_template(cluster, None)
        await cluster.rolled_out("web")
        assert [version_of(pod) for pod in cluster.pods("web")] == [""] * 4


async def test_going_back_to_an_old_template_uses_its_replica_set_and_renumbers_it() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 2))
        first = replica_set(cluster)
        await set_template(cluster, "2")
        await cluster.rolled_out("web")
        assert annotations(cluster.get("Deployment", "web"))[REVISION] == "2"
        await set_template(cluster, None)
        made = await cluster.rolled_out("web")
        again = replica_set(cluster)
        assert again["metadata"]["uid"] == first["metadata"]["uid"]
        assert (annotations(again)[REVISION], annotations(again)[HISTORY]) == ("3", "1")
        assert annotations(made)[REVISION] == "3"
        await set_template(cluster, "2")
        await cluster.rolled_out("web")
        await set_template(cluster, None)
        await cluster.rolled_out("web")
        assert annotations(replica_set(cluster))[HISTORY] == "1,3"
        assert len(cluster.all("ReplicaSet")) == 2


async def test_a_change_that_is_none_for_the_pods_rolls_out_nothing() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 2))
        before = names(cluster.pods("web"))
        await cluster.edit(
            "Deployment", "web", lambda body: body["metadata"].setdefault("annotations", {}).update(who="me")
        )
        await cluster.set("Deployment", "web", minReadySeconds=0, revisionHistoryLimit=3, progressDeadlineSeconds=100)
        await cluster.until("the note is copied", lambda: annotations(replica_set(cluster)).get("who") == "me")
        await cluster.rolled_out("web")
        assert names(cluster.pods("web")) == before
        assert annotations(cluster.get("Deployment", "web"))[REVISION] == "1"


async def test_min_ready_seconds_are_passed_on_without_a_rollout() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 2))
        before = names(cluster.pods("web"))
        await cluster.set("Deployment", "web", minReadySeconds=500)
        await cluster.until("it is passed on", lambda: replica_set(cluster)["spec"].get("minReadySeconds") == 500)
        await cluster.until(
            "none is available", lambda: not cluster.get("Deployment", "web")["status"].get("availableReplicas")
        )
        assert names(cluster.pods("web")) == before
        await cluster.set("Deployment", "web", minReadySeconds=0)
        await cluster.rolled_out("web")
        assert not replica_set(cluster)["spec"].get("minReadySeconds")


async def test_recreating_waits_until_the_last_old_pod_is_gone() -> None:
    together: list[set[str]] = []
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 3, strategy={"type": "Recreate"}))
        cluster.watch("Pod", lambda _: together.append({version_of(pod) for pod in cluster.all("Pod")}))
        cluster.kubelet.ends = lambda _: False
        await set_template(cluster, "2")
        await cluster.until("all are deleted", lambda: not cluster.pods("web"))
        await cluster.settled()
        assert {version_of(pod) for pod in cluster.all("Pod")} <= {""}
        cluster.kubelet.ends = lambda _: True
        cluster.kubelet.look_again()
        await cluster.rolled_out("web")
        assert [version_of(pod) for pod in cluster.pods("web")] == ["2"] * 3
    assert {"", "2"} not in together


async def test_a_paused_deployment_is_scaled_but_not_rolled_out() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 2))
        await cluster.set("Deployment", "web", paused=True)
        await set_template(cluster, "2")
        await cluster.set("Deployment", "web", replicas=4)
        await cluster.until(
            "it is scaled", lambda: replica_set(cluster).get("status", {}).get("availableReplicas") == 4
        )
        await cluster.settled()
        made = cluster.get("Deployment", "web")
        assert len(cluster.all("ReplicaSet")) == 1
        assert condition(made, "Progressing")["reason"] == "DeploymentPaused"
        assert condition(made, "Progressing")["status"] == "Unknown"
        assert "updatedReplicas" not in made["status"]
        assert made["status"]["availableReplicas"] == 4

        await cluster.set("Deployment", "web", paused=False)
        made = await cluster.rolled_out("web")
        assert {version_of(pod) for pod in cluster.pods("web")} == {"2"}
        assert condition(made, "Progressing")["reason"] == "NewReplicaSetAvailable"
        assert annotations(made)[REVISION] == "2"


async def test_a_paused_deployment_in_the_middle_of_a_rollout_is_scaled_in_proportion() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 10, strategy=strategy))
        cluster.kubelet.starts = lambda pod: version_of(pod) != "bad"
        await set_template(cluster, "bad")
        await cluster.until("it is stuck", lambda: len(cluster.pods("web")) == 13)
        await cluster.settled()
        assert [replica_set(cluster, version)["spec"]["replicas"] for version in ("", "bad")] == [8, 5]
        await cluster.set("Deployment", "web", paused=True, replicas=15)
        await cluster.until("it is scaled", lambda: len(cluster.pods("web")) == 18)
        await cluster.settled()
        assert [replica_set(cluster, version)["spec"]["replicas"] for version in ("", "bad")] == [11, 7]
        for version in ("", "bad"):
            found = annotations(replica_set(cluster, version))
            assert (found[DESIRED], found[MOST]) == ("15", "18")


async def test_the_template_of_a_paused_deployments_replica_set_may_be_changed_for_a_while() -> None:
    """DESIGN §2, fact 4: a preference for one recreated pod, without a rollout and without a new revision."""
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 3))
        name = name_of(replica_set(cluster))
        await cluster.set("Deployment", "web", paused=True)
        affinity = prefers("NotIn", "node-1")
        await cluster.edit("ReplicaSet", name, lambda body: body["spec"]["template"]["spec"].update(affinity=affinity))
        await cluster.until(
            "the status tells of it", lambda: "updatedReplicas" not in cluster.get("Deployment", "web")["status"]
        )
        before = names(cluster.pods("web"))
        await cluster.delete("Pod", before[0])
        new = await cluster.until("a new one is there", lambda: set(names(cluster.pods("web"))) - set(before))
        assert cluster.get("Pod", new.pop())["spec"]["affinity"] == affinity
        await cluster.settled()
        assert cluster.get("ReplicaSet", name)["spec"]["template"]["spec"]["affinity"] == affinity

        await cluster.edit("ReplicaSet", name, lambda body: body["spec"]["template"]["spec"].pop("affinity"))
        after = sorted(names(cluster.pods("web")))
        await cluster.set("Deployment", "web", paused=False)
        made = await cluster.rolled_out("web")
        assert sorted(names(cluster.pods("web"))) == after
        assert names(cluster.all("ReplicaSet")) == [name]
        assert annotations(made)[REVISION] == "1"
        assert condition(made, "Progressing")["reason"] == "NewReplicaSetAvailable"


async def test_resuming_while_the_replica_sets_template_is_another_rolls_out() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 2))
        name = name_of(replica_set(cluster))
        affinity = prefers("NotIn", "node-1")
        await cluster.edit("ReplicaSet", name, lambda body: body["spec"]["template"]["spec"].update(affinity=affinity))
        await cluster.until("there is another", lambda: len(cluster.all("ReplicaSet")) == 2)
        made = await cluster.rolled_out("web")
        assert annotations(made)[REVISION] == "2"
        assert not cluster.owned("Pod", name)


async def test_only_so_many_old_replica_sets_are_kept() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 1, revisionHistoryLimit=2))
        for version in "23456":
            await set_template(cluster, version)
            await cluster.rolled_out("web")
        await cluster.until("old ones are gone", lambda: len(cluster.all("ReplicaSet")) == 3)
        kept = {annotations(each)[REVISION]: version_of(each) for each in cluster.all("ReplicaSet")}
        assert kept == {"4": "4", "5": "5", "6": "6"}


async def test_a_rollout_without_progress_is_told_after_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    start = clock.now()
    monkeypatch.setattr(clock, "now", lambda: start)
    async with Workloads() as cluster:
        cluster.kubelet.starts = lambda _: False
        await cluster.create(deployment("web", 1, progressDeadlineSeconds=60))
        await cluster.until("it has begun", lambda: len(cluster.pods("web")) == 1)
        await cluster.settled()
        controller = DeploymentController(cluster.api)
        wait = await controller.reconcile((SPACE, "web"))
        assert wait is not None
        assert 60 <= wait <= 61
        monkeypatch.setattr(clock, "now", lambda: start + timedelta(seconds=wait))
        assert await controller.reconcile((SPACE, "web")) is None
        stuck = condition(cluster.get("Deployment", "web"), "Progressing")
        assert (stuck["status"], stuck["reason"]) == ("False", "ProgressDeadlineExceeded")
        assert stuck["message"].endswith("has timed out progressing.")

        cluster.kubelet.starts = lambda _: True
        cluster.kubelet.look_again()
        made = await cluster.rolled_out("web")
        assert condition(made, "Progressing")["reason"] == "NewReplicaSetAvailable"


async def test_a_deployment_without_a_deadline_says_nothing_of_progress() -> None:
    async with Workloads() as cluster:
        made = await rolled_out(cluster, deployment("web", 1, progressDeadlineSeconds=2**31 - 1))
        assert condition(made, "Progressing") == {}
        assert condition(made, "Available")["status"] == "True"


async def test_pods_that_become_unready_later_count_against_availability_and_not_against_progress() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 2))
        for name in names(cluster.pods("web")):
            cluster.kubelet.write(name, unready)
        await cluster.until(
            "it is told", lambda: condition(cluster.get("Deployment", "web"), "Available")["status"] == "False"
        )
        await cluster.settled()
        made = cluster.get("Deployment", "web")
        assert made["status"]["unavailableReplicas"] == 2
        assert condition(made, "Progressing")["reason"] == "NewReplicaSetAvailable"


async def test_an_orphaned_replica_set_is_adopted_by_its_template() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 2))
        found = replica_set(cluster)
        orphan: Json = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": found["spec"]}
        labels = dict(found["metadata"]["labels"])
        orphan["metadata"] = {"name": "kept", "labels": labels}
        body = cluster.get("Deployment", "web")
        await cluster.delete("Deployment", "web")
        await cluster.delete("ReplicaSet", name_of(found))
        await cluster.create(orphan)
        await cluster.until("it has pods", lambda: len(cluster.owned("Pod", "kept")) == 2)
        fresh = {key: body[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": "web"}}
        made = await rolled_out(cluster, fresh)
        assert names(cluster.all("ReplicaSet")) == ["kept"]
        assert cluster.get("ReplicaSet", "kept")["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        assert annotations(made)[REVISION] == "1"


async def test_a_replica_set_whose_labels_no_longer_match_is_released() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 1))
        name = name_of(replica_set(cluster))
        await cluster.edit("ReplicaSet", name, lambda body: body["metadata"].update(labels={"app": "other"}))
        await cluster.until(
            "it is released", lambda: "ownerReferences" not in cluster.get("ReplicaSet", name)["metadata"]
        )


async def test_a_name_that_another_replica_set_has_is_avoided() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 1))
        found = replica_set(cluster)
        body = cluster.get("Deployment", "web")
        await cluster.delete("Deployment", "web")
        await cluster.edit("ReplicaSet", name_of(found), _orphaned)
        fresh = {key: body[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": {"name": "web"}}
        made = await rolled_out(cluster, fresh)
        assert made["status"]["collisionCount"] == 1
        (mine,) = [each for each in cluster.all("ReplicaSet") if each["metadata"].get("ownerReferences")]
        assert name_of(mine) != name_of(found)


def _orphaned(body: Json) -> None:
    """Nobody's, and by its labels nobody's who could adopt it."""
    body["metadata"].pop("ownerReferences")
    body["metadata"]["labels"] = {"other": "x"}


async def test_a_replica_set_that_is_refused_is_told() -> None:
    class Quota(NoAdmission):
        allowed = False

        async def admit(self, review: Review) -> Json:
            if review.target.kind == REPLICA_SET and review.operation == "CREATE" and not self.allowed:
                raise forbidden(REPLICA_SET, review.body["metadata"]["name"], "exceeded quota")
            return review.body

    quota = Quota()
    async with Workloads(quota) as cluster:
        await cluster.create(deployment("web", 1))
        await cluster.until("it is told", lambda: condition(cluster.get("Deployment", "web"), "Progressing"))
        told = condition(cluster.get("Deployment", "web"), "Progressing")
        assert (told["status"], told["reason"]) == ("False", "ReplicaSetCreateError")
        await cluster.until("it is said", lambda: cluster.events("web"))
        reason, message = cluster.events("web")[0]
        assert reason == "ReplicaSetCreateError"
        assert message.startswith('Failed to create new replica set "web-')
        quota.allowed = True
        made = await cluster.rolled_out("web")
        assert condition(made, "Progressing")["reason"] == "NewReplicaSetAvailable"


async def test_pods_that_are_refused_are_told_by_the_deployment_too() -> None:
    class Quota(NoAdmission):
        allowed = False

        async def admit(self, review: Review) -> Json:
            if review.target.kind.name == "Pod" and review.operation == "CREATE" and not self.allowed:
                raise forbidden(review.target.kind, review.body["metadata"]["name"], "exceeded quota")
            return review.body

    quota = Quota()
    async with Workloads(quota) as cluster:
        await cluster.create(deployment("web", 1))
        await cluster.until("it is told", lambda: condition(cluster.get("Deployment", "web"), "ReplicaFailure"))
        quota.allowed = True
        made = await cluster.rolled_out("web")
        assert condition(made, "ReplicaFailure") == {}


async def test_a_deployment_that_is_being_deleted_rolls_out_nothing() -> None:
    body = deployment("web", 1)
    body["metadata"]["finalizers"] = ["test/hold"]
    async with Workloads() as cluster:
        await rolled_out(cluster, body)
        await cluster.delete("Deployment", "web")
        await set_template(cluster, "2")
        await cluster.set("Deployment", "web", replicas=3)

        def observed() -> bool:
            found = cluster.get("Deployment", "web")
            return bool(found["status"]["observedGeneration"] == found["metadata"]["generation"])

        await cluster.until("it was looked at", observed)
        await cluster.settled()
        assert len(cluster.all("ReplicaSet")) == 1
        assert len(cluster.pods("web")) == 1


async def test_a_new_template_in_the_middle_of_a_rollout_rolls_over() -> None:
    async with Workloads() as cluster:
        await rolled_out(cluster, deployment("web", 4))
        cluster.kubelet.starts = lambda pod: version_of(pod) != "bad"
        await set_template(cluster, "bad")
        await cluster.until("it has begun", lambda: "bad" in {version_of(pod) for pod in cluster.pods("web")})
        await set_template(cluster, "good")
        made = await cluster.rolled_out("web")
        assert [version_of(pod) for pod in cluster.pods("web")] == ["good"] * 4
        assert annotations(made)[REVISION] == "3"


async def test_deployments_of_one_namespace_do_not_get_into_each_others_way() -> None:
    async with Workloads() as cluster:
        bodies = [deployment(f"web-{number}", 3) for number in range(20)]
        for body in bodies:
            await cluster.create(body)
        for body in bodies:
            await cluster.rolled_out(name_of(body))
        assert len(cluster.all("Pod")) == 60
        assert await cluster.api.delete(Target(REPLICA_SET, SPACE, name_of(cluster.all("ReplicaSet")[0])))
        await cluster.until("it is made again", lambda: len(cluster.all("ReplicaSet")) == 20)
