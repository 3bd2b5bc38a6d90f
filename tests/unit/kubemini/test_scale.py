"""The `scale` view of workloads."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.kinds import DEPLOYMENT
from kubemini.refusals import Json, Refusal
from kubemini.scale import rescaled, scale_of


def deployment(**spec: Any) -> Json:
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}
    metadata = {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "5", "labels": {"app": "a"}}
    return {"metadata": metadata, "spec": {"replicas": 3, "selector": selector} | spec, "status": {"replicas": 2}}


def test_a_scale_says_how_many_are_wanted_and_there() -> None:
    assert scale_of(DEPLOYMENT, deployment()) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "5"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "app=a,b"},
    }


def test_nothing_wanted_is_an_empty_spec() -> None:
    assert scale_of(DEPLOYMENT, deployment(replicas=0))["spec"] == {}


def test_a_changed_scale_changes_the_workload() -> None:
    assert rescaled(DEPLOYMENT, deployment(), {"spec": {"replicas": 7}})["spec"]["replicas"] == 7
    assert rescaled(DEPLOYMENT, deployment(), {"spec": {}})["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("scale", "code"),
    [
        ({"metadata": {"resourceVersion": "4"}, "spec": {"replicas": 7}}, 409),
        ({"metadata": {"uid": "other"}, "spec": {"replicas": 7}}, 409),
        ({"spec": {"replicas": -1}}, 422),
        ({"spec": {"replicas": "7"}}, 422),
    ],
)
def test_a_scale_of_something_else_or_of_nonsense_is_refused(scale: Json, code: int) -> None:
    with pytest.raises(Refusal) as refused:
        rescaled(DEPLOYMENT, deployment(), scale)
    assert refused.value.code == code
