"""Deployments of the embedded cluster: rollouts, revisions, pauses, and what the status tells of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kubemini.controllers.deployment import Goal, Size, rolling_step
from kubemini.errors import Json
from kubemini.store import Change
from tests.support.manifests import deployment, prefers
from tests.support.workloads import Workloads, condition, name_of, names, unready

REVISION = "deployment.kubernetes.io/revision"


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


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable"),
    [(3, "25%", "25%"), (10, 3, 2), (4, 0, 1), (5, 0, "100%"), (1, 1, 0)],
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


@given(
    replicas=some.integers(0, 12),
    surge=some.integers(0, 5),
    unavailable=some.integers(0, 5),
    olds=some.lists(some.tuples(some.integers(0, 12), some.integers(0, 12)), max_size=3),
    new=some.tuples(some.integers(0, 12), some.integers(0, 12)),
)
def test_no_step_goes_beyond_the_limit_or_gives_up_what_must_stay_available(
    replicas: int, surge: int, unavailable: int, olds: list[tuple[int, int]], new: tuple[int, int]
) -> None:
    allowed = min(unavailable, replicas) if surge else max(min(unavailable, replicas), 1)
    goal = Goal(replicas, replicas + surge, replicas - allowed)
    before = [Size(size, min(ready, size)) for size, ready in (new, *olds)]
    size, sizes = rolling_step(goal, before[0], before[1:])
    after = [size, *sizes]
    available = sum(min(size, each.available) for size, each in zip(after, before, strict=True))
    had = sum(each.available for each in before)
    assert sum(after) <= max(goal.limit, sum(each.replicas for each in before))
    assert size <= replicas
    if new[0] <= replicas:
        assert available >= min(had, goal.min_available)
