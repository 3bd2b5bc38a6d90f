"""Rollouts: what counts as one, and that the planner's rows and a migration's own look say the same of each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.decode.reader import ObjectReader
from rescheduler.migration.observation import Observation, StepContext
from rescheduler.migration.steps.common import rollout_reason
from rescheduler.model.json import Json
from rescheduler.model.objects import Workload
from tests.support.pod_migrations import migration_spec, pod_migration

BUSY, UNSEEN = "is being rolled out or scaled", "has changes that its controller has not seen yet"
CALM: Json = {
    "observedGeneration": 3,
    "replicas": 4,
    "updatedReplicas": 4,
    "currentRevision": "a",
    "updateRevision": "a",
}


def workload(kind: str, status: Json | None = None, **spec: Any) -> Json:
    """At rest, with four replicas, but for what is given."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "generation": 3},
        "spec": {"replicas": 4, "template": {}, **spec},
        "status": {key: value for key, value in (CALM | (status or {})).items() if value is not None},
    }


def planners(body: Json) -> str:
    """What the planner reads of it."""
    row = ObjectReader().read(body["kind"], msgspec.json.encode(body), "test").row
    assert isinstance(row, Workload)
    return row.changing


def migrations(body: Json) -> str:
    """What a migration says of it just before it begins."""
    seen = Observation(
        controller=workload("ReplicaSet") if body["kind"] == "Deployment" else body,
        deployment=body if body["kind"] == "Deployment" else None,
    )
    found = rollout_reason(StepContext(pod_migration("shop", "m", migration_spec("web-a")), seen, 0.0))
    return found.removeprefix(f"{body['kind']} web ")


def partition(kept: int) -> Json:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": kept}}}


REVISED = {"updateRevision": "b", "updatedReplicas": 1}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(workload("Deployment"), "", id="a Deployment at rest"),
        pytest.param(workload("Deployment", {"observedGeneration": 2}), UNSEEN, id="changed a moment ago"),
        pytest.param(workload("Deployment", {"observedGeneration": None}), UNSEEN, id="made a moment ago"),
        pytest.param(workload("Deployment", {"updatedReplicas": 2}), BUSY, id="half updated"),
        pytest.param(workload("Deployment", {"replicas": 5, "updatedReplicas": 5}), BUSY, id="one over"),
        pytest.param(workload("Deployment", {"replicas": 3, "updatedReplicas": 3}), BUSY, id="one short"),
        pytest.param(
            workload("Deployment", {"replicas": None, "updatedReplicas": None}, replicas=0), "", id="scaled to nothing"
        ),
        pytest.param(workload("Deployment", paused=True), "", id="paused, and all of one template"),
        pytest.param(workload("Deployment", {"updatedReplicas": 2}, paused=True), BUSY, id="paused in a rollout"),
        pytest.param(workload("ReplicaSet", {"observedGeneration": 2}), UNSEEN, id="a ReplicaSet that was changed"),
        pytest.param(workload("ReplicaSet", {"replicas": 9}), "", id="a ReplicaSet's Deployment tells more"),
        pytest.param(workload("StatefulSet"), "", id="a StatefulSet at rest"),
        pytest.param(workload("StatefulSet", {"replicas": 3}), BUSY, id="a StatefulSet that grows"),
        pytest.param(workload("StatefulSet", REVISED), BUSY, id="a StatefulSet with a new revision"),
        pytest.param(workload("StatefulSet", REVISED, **partition(3)), "", id="as far as its partition lets it"),
        pytest.param(workload("StatefulSet", REVISED, **partition(2)), BUSY, id="not as far as its partition lets it"),
        pytest.param(
            workload("StatefulSet", REVISED, updateStrategy={"type": "OnDelete"}), "", id="people replace pods"
        ),
    ],
)
def test_a_rollout_is_told_alike_by_planner_and_migration(body: Json, said: str) -> None:
    assert (planners(body), migrations(body)) == (said, said)


COUNTS = st.one_of(st.none(), st.integers(0, 4))


@given(
    st.sampled_from(["Deployment", "StatefulSet", "ReplicaSet"]),
    st.fixed_dictionaries({"observedGeneration": st.integers(1, 3), "replicas": COUNTS, "updatedReplicas": COUNTS}),
    st.integers(0, 4),
    st.one_of(st.integers(0, 3).map(partition), st.just({"updateStrategy": {"type": "OnDelete"}}), st.just({})),
    st.booleans(),
)
def test_whatever_the_numbers_both_agree(kind: str, status: Json, wanted: int, how: Json, revised: bool) -> None:
    revision = {"updateRevision": "b" if revised else "a"}
    body = workload(kind, status | revision, replicas=wanted, **how)
    assert planners(body) == migrations(body)


def test_of_an_object_without_a_status_nothing_is_said() -> None:
    body = workload("Deployment")
    del body["status"]
    assert planners(body) == ""
