"""What holds for nodes, namespaces, storage, services and the other kinds, as far as the product leans on it."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.api import Api
from kubemini.kinds import (
    CLAIM,
    EVENT,
    LEASE,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    NODE,
    PRIORITY_CLASS,
    QUOTA,
    SERVICE,
    STORAGE_CLASS,
    VOLUME,
    Kind,
)
from kubemini.refusals import Json
from kubemini.rules import names
from kubemini.rules.base import Rules
from kubemini.rules.table import rules_of
from kubemini.rules.typed import TypedRules
from tests.unit.kubemini.rule_cases import ACCOUNT, at, cluster, create, fields_of, refused

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
SECRET = Kind("", "v1", "Secret", "secrets")
WEBHOOK: Json = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://127.0.0.1:9/"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
CLAIMED: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
async def api() -> Api:
    return await cluster()


def named(name: str = "a", **fields: Any) -> Json:
    return {"metadata": {"name": name}, **fields}


def test_kinds_without_rules_of_their_own_are_read_and_others_are_not() -> None:
    assert type(rules_of(ACCOUNT)) is TypedRules
    assert type(rules_of(Kind("example.com", "v1", "Thing", "things"))) is Rules


async def test_a_node_comes_with_its_status_and_all_of_it_can_be_given_away(api: Api) -> None:
    made = await create(api, NODE, named(status={"capacity": {"cpu": "4000m"}}))
    assert made["status"]["allocatable"] == {"cpu": "4"}


async def test_cordoning_and_tainting_do_not_reach_the_status(api: Api) -> None:
    await create(api, NODE, named(status={"capacity": {"cpu": "4"}}))
    spec = {"unschedulable": True, "taints": [{"key": "a", "effect": "NoExecute"}]}
    made = await api.edit(at(NODE, "a"), lambda body: body | {"spec": spec, "status": {}})
    assert (made["spec"], made["status"]["capacity"]) == (spec, {"cpu": "4"})


async def test_a_bad_taint_is_refused(api: Api) -> None:
    body = named(spec={"taints": [{"key": "a b", "effect": "Never"}]})
    assert fields_of(await refused(create(api, NODE, body))) == ["metadata.taints[0].key", "metadata.taints[0].effect"]


async def test_a_namespace_is_active_labelled_and_held(api: Api) -> None:
    made = await create(api, NAMESPACE, named("other"))
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "other"}
    assert (made["spec"], made["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


async def test_a_namespace_ends_in_two_steps(api: Api) -> None:
    await create(api, NAMESPACE, named("other"))
    going = await api.delete(at(NAMESPACE, "other"))
    assert going["status"]["phase"] == "Terminating"
    await api.edit(at(NAMESPACE, "other"), lambda body: body | {"spec": {}})
    assert api.get(at(NAMESPACE, "other"))["spec"] == {"finalizers": ["kubernetes"]}
    await api.edit(at(NAMESPACE, "other", "finalize"), lambda body: body | {"spec": {}})
    assert api.find(NAMESPACE, ("", "other")) is None


async def test_a_claim_is_bound_once_and_otherwise_fixed(api: Api) -> None:
    made = await create(api, CLAIM, named(spec=CLAIMED))
    assert (made["spec"]["volumeMode"], made["status"]["phase"]) == ("Filesystem", "Pending")
    await api.edit(at(CLAIM, "a"), lambda body: body | {"spec": body["spec"] | {"volumeName": "v"}})
    refusal = await refused(api.edit(at(CLAIM, "a"), lambda body: body | {"spec": body["spec"] | {"volumeName": "w"}}))
    assert fields_of(refusal) == ["spec"]


async def test_the_source_of_a_volume_is_fixed_and_its_phase_has_a_time(api: Api) -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    made = await create(api, VOLUME, named(spec=spec))
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert made["status"]["lastPhaseTransitionTime"]
    moved = made["spec"] | {"hostPath": {"path": "/y", "type": ""}}
    refusal = await refused(api.edit(at(VOLUME, "a"), lambda body: body | {"spec": moved}))
    assert fields_of(refusal) == ["spec.persistentvolumesource"]


async def test_a_class_of_storage_binds_at_once_unless_it_says_otherwise(api: Api) -> None:
    made = await create(api, STORAGE_CLASS, named(provisioner="example.com/x"))
    assert (made["volumeBindingMode"], made["reclaimPolicy"]) == ("Immediate", "Delete")


async def test_a_service_is_filled_in(api: Api) -> None:
    made = await create(api, SERVICE, named(spec={"ports": [{"port": 80}]}))
    assert made["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (made["spec"]["type"], made["spec"]["sessionAffinity"]) == ("ClusterIP", "None")


@pytest.mark.parametrize(
    ("kind", "fields", "faults"),
    [
        (LEASE, {"spec": {"leaseDurationSeconds": 0}}, ["spec.leaseDurationSeconds"]),
        (PRIORITY_CLASS, {"value": 2_000_000_000}, ["value"]),
        (QUOTA, {"spec": {"hard": {"gold": "1"}}}, ["spec.hard[gold]", "spec.hard[gold]"]),
        (CONFIG_MAP, {"data": {"a b": "c"}}, ["data[a b]"]),
        (SECRET, {"type": "kubernetes.io/tls"}, ["data[tls.crt]", "data[tls.key]"]),
        (MUTATING_WEBHOOKS, {"webhooks": [WEBHOOK | {"name": "short"}]}, ["webhooks[0].name"]),
        (
            MUTATING_WEBHOOKS,
            {"webhooks": [WEBHOOK | {"matchConditions": [{"name": "a", "expression": "true"}]}]},
            ["webhooks[0].matchConditions"],
        ),
    ],
)
async def test_what_makes_no_sense_is_refused(api: Api, kind: Kind, fields: Json, faults: list[str]) -> None:
    assert fields_of(await refused(create(api, kind, named(**fields)))) == faults


async def test_a_secret_given_in_plain_text_is_kept_encoded(api: Api) -> None:
    made = await create(api, SECRET, named(stringData={"a": "b"}))
    assert (made["data"], made["type"], "stringData" in made) == ({"a": "Yg=="}, "Opaque", False)


async def test_a_locked_map_stays_as_it_is(api: Api) -> None:
    await create(api, CONFIG_MAP, named(data={"a": "b"}, immutable=True))
    refusal = await refused(api.edit(at(CONFIG_MAP, "a"), lambda body: body | {"data": {}}))
    assert fields_of(refusal) == ["data"]


async def test_a_new_event_must_say_who_did_what(api: Api) -> None:
    event = named(eventTime="2026-01-02T03:04:05.000000Z", type="Normal", regarding={"namespace": "default"})
    refusal = await refused(api.create(at(EVENT), event))
    assert {"reportingController", "reportingInstance", "action", "reason"} <= set(fields_of(refusal))


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (names.subdomain, "a.b-c", "A"), (names.label, "a-b", "a.b"), (names.label_1035, "a1", "1a"),
        (names.label_key, "example.com/A_b.c", "a/b/c"), (names.label_value, "", "-a"),
        (names.port_name, "http", "a--b"), (names.percent, "5%", "5"), (names.address, "2001:db8::1", "1.2.3"),
        (names.network, "10.0.0.0/8", "10.0.0.0"), (names.data_key, "a.b", "..a"), (names.variable, "a b", "a=b"),
        (names.header, "X-A", "X A"), (names.fully_qualified, "a.b.c", "a.b"),
    ],
)  # fmt: skip
def test_names_are_judged(rule: Any, good: str, bad: str) -> None:
    assert not rule(good)
    assert rule(bad)
