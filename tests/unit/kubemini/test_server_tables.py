"""Tables: what `kubectl get` prints of each kind, cell by cell, as the real API server makes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubemini import clock, kinds
from kubemini.kinds import Kind
from kubemini.server import ages
from kubemini.server.columns_custom import custom_printer
from kubemini.server.jsonpath import PathError, parse_path
from kubemini.server.tables import printer_of
from tests.unit.kubemini.served import MAPS, TABLE, Json, served

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)


def ago(**span: float) -> str:
    return clock.stamp(NOW - timedelta(**span))


def cells(kind: Kind, body: Json, **metadata: Any) -> list[Any]:
    head = {"name": "x", "creationTimestamp": ago(minutes=5)} | metadata
    return printer_of(kind).row({"metadata": head} | body)


def pod_cells(status: Json, spec: Json | None = None, metadata: Json | None = None) -> list[Any]:
    body = {"spec": {"containers": [{"name": "a"}]} | (spec or {}), "status": status}
    return cells(kinds.POD, body, **(metadata or {}))[1:4]


def container(name: str = "a", **fields: Any) -> Json:
    return {"name": name, "ready": False, "restartCount": 0} | fields


RUNNING: Json = {"state": {"running": {}}, "ready": True}
READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400 + 3600, "8d"),
        (2 * 365 * 86400 - 1, "729d"),
        (2 * 365 * 86400, "2y"),
        (2 * 365 * 86400 + 86400, "2y1d"),
        (8 * 365 * 86400 + 86400, "8y"),
    ],
)
def test_ages_are_coarser_the_longer_they_are(seconds: float, shown: str) -> None:
    assert ages.human(seconds) == shown


def test_an_age_of_nothing_is_unknown() -> None:
    assert ages.age(None) == "<unknown>"
    assert ages.age("yesterday") == "<invalid>"
    assert ages.between(None, None) == ""
    assert ages.between(ago(seconds=30), None) == "30s"
    assert ages.between(ago(seconds=30), ago(seconds=10)) == "20s"


def test_a_pod_shows_its_phase_until_its_containers_say_more() -> None:
    assert pod_cells({"phase": "Pending"}) == ["0/1", "Pending", "0"]
    assert pod_cells({"phase": "Failed", "reason": "Evicted"}) == ["0/1", "Evicted", "0"]
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    assert pod_cells({"phase": "Pending", "conditions": [gated]}) == ["0/1", "SchedulingGated", "0"]
    running = {"phase": "Running", "conditions": [READY], "containerStatuses": [container(**RUNNING)]}
    assert pod_cells(running) == ["1/1", "Running", "0"]


def test_a_crashing_pod_shows_why_and_when_it_last_restarted() -> None:
    crashed = container(
        restartCount=3,
        state={"waiting": {"reason": "CrashLoopBackOff"}},
        lastState={"terminated": {"exitCode": 1, "finishedAt": ago(seconds=42)}},
    )
    status = {"phase": "Running", "containerStatuses": [crashed]}
    assert pod_cells(status) == ["0/1", "CrashLoopBackOff", "3 (42s ago)"]


@pytest.mark.parametrize(
    ("terminated", "shown"),
    [
        ({"exitCode": 0, "reason": "Completed"}, "Completed"),
        ({"exitCode": 1, "reason": "Error"}, "Error"),
        ({"exitCode": 2}, "ExitCode:2"),
        ({"exitCode": 137, "signal": 9}, "Signal:9"),
    ],
)
def test_a_pod_that_has_ended_shows_how(terminated: Json, shown: str) -> None:
    status = {"phase": "Succeeded", "containerStatuses": [container(state={"terminated": terminated})]}
    assert pod_cells(status) == ["0/1", shown, "0"]


def test_a_pod_of_which_one_container_is_done_shows_what_the_others_are_at() -> None:
    done = container("a", state={"terminated": {"exitCode": 0, "reason": "Completed"}})
    failed = container("b", state={"terminated": {"exitCode": 1, "reason": "Error"}})
    spec = {"containers": [{"name": "a"}, {"name": "b"}]}
    both = {"phase": "Running", "containerStatuses": [done, container("b", **RUNNING)]}
    assert pod_cells(both, spec) == ["1/2", "NotReady", "0"]
    assert pod_cells(both | {"conditions": [READY]}, spec) == ["1/2", "Running", "0"]
    assert pod_cells({"phase": "Failed", "containerStatuses": [done, failed]}, spec) == ["0/2", "Error", "0"]


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ({"waiting": {"reason": "PodInitializing"}}, "Init:0/2"),
        ({"waiting": {"reason": "ImagePullBackOff"}}, "Init:ImagePullBackOff"),
        ({"running": {}}, "Init:0/2"),
        ({"terminated": {"exitCode": 1, "reason": "Error"}}, "Init:Error"),
        ({"terminated": {"exitCode": 3}}, "Init:ExitCode:3"),
        ({"terminated": {"exitCode": 0, "reason": "Completed"}}, "Init:1/2"),
    ],
)
def test_a_pod_that_is_being_initialized_shows_how_far_it_is(state: Json, shown: str) -> None:
    spec = {"initContainers": [{"name": "i"}, {"name": "j"}]}
    inits = [container("i", state=state), container("j", state={"waiting": {"reason": "PodInitializing"}})]
    waiting = container(state={"waiting": {"reason": "PodInitializing"}})
    status = {"phase": "Pending", "initContainerStatuses": inits, "containerStatuses": [waiting]}
    assert pod_cells(status, spec) == ["0/1", shown, "0"]


def test_sidecars_count_among_the_containers() -> None:
    spec = {"initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]}
    sidecar = container("s", started=True, restartCount=2, **RUNNING)
    done = container("i", restartCount=5, state={"terminated": {"exitCode": 0}})
    status = {
        "phase": "Running",
        "initContainerStatuses": [sidecar, done],
        "containerStatuses": [container(restartCount=1, **RUNNING)],
    }
    assert pod_cells(status, spec) == ["2/2", "Running", "3"]
    waiting = {"phase": "Pending", "initContainerStatuses": [sidecar, container("i", restartCount=5, state={})]}
    assert pod_cells(waiting, spec) == ["1/2", "Init:1/2", "7"]


def test_a_pod_that_is_deleted_is_terminating_unless_it_has_ended() -> None:
    gone = {"deletionTimestamp": ago(seconds=1)}
    assert pod_cells({"phase": "Running"}, metadata=gone)[1] == "Terminating"
    assert pod_cells({"phase": "Succeeded"}, metadata=gone)[1] == "Succeeded"
    assert pod_cells({"phase": "Running", "reason": "NodeLost"}, metadata=gone)[1] == "Unknown"


def test_a_pod_shows_more_when_there_is_room() -> None:
    gates = [{"conditionType": "a"}, {"conditionType": "b"}]
    status = {
        "podIPs": [{"ip": "10.0.0.1"}],
        "nominatedNodeName": "m",
        "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
    }
    body = {"spec": {"nodeName": "n", "readinessGates": gates}, "status": status}
    assert cells(kinds.POD, body)[5:] == ["10.0.0.1", "n", "m", "1/2"]
    assert cells(kinds.POD, {})[5:] == ["<none>"] * 4


def test_a_node_shows_its_state_and_roles() -> None:
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "ingress", "node-role.kubernetes.io/": ""}
    info = {"kubeletVersion": "v1.37.1", "osImage": "Linux", "kernelVersion": "6.1", "architecture": "amd64"}
    addresses = [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"}]
    status = {"conditions": [READY], "nodeInfo": info, "addresses": addresses}
    assert cells(kinds.NODE, {"spec": {"unschedulable": True}, "status": status}, labels=labels) == [
        *("x", "Ready,SchedulingDisabled", "ingress,worker", "5m", "v1.37.1"),
        *("10.0.0.1", "<none>", "Linux", "6.1 (amd64)", "<unknown>"),
    ]
    assert cells(kinds.NODE, {})[1:3] == ["Unknown", "<none>"]
    assert cells(kinds.NODE, {"status": {"conditions": [READY | {"status": "Unknown"}]}})[1] == "NotReady"


TEMPLATE = {
    "spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}], "nodeSelector": {"d": "s"}}
}
SELECTOR = {
    "matchLabels": {"b": "2", "a": "1"},
    "matchExpressions": [
        {"key": "aa", "operator": "In", "values": ["y", "x"]},
        {"key": "c", "operator": "DoesNotExist"},
    ],
}
SELECTED = "a=1,aa in (x,y),b=2,!c"


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        (
            kinds.DEPLOYMENT,
            {
                "spec": {"replicas": 3, "template": TEMPLATE, "selector": SELECTOR},
                "status": {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2},
            },
            ["x", "2/3", 1, 2, "5m", "a,b", "i:1,j", SELECTED],
        ),
        (
            kinds.REPLICA_SET,
            {"spec": {"replicas": 3, "template": TEMPLATE}, "status": {"replicas": 2, "readyReplicas": 1}},
            ["x", 3, 2, 1, "5m", "a,b", "i:1,j", "<none>"],
        ),
        (
            kinds.STATEFUL_SET,
            {"spec": {"replicas": 3, "template": TEMPLATE}, "status": {"readyReplicas": 1}},
            ["x", "1/3", "5m", "a,b", "i:1,j"],
        ),
        (
            kinds.DAEMON_SET,
            {"spec": {"template": TEMPLATE, "selector": SELECTOR}, "status": {"desiredNumberScheduled": 4}},
            ["x", 4, 0, 0, 0, 0, "d=s", "5m", "a,b", "i:1,j", SELECTED],
        ),
        (
            kinds.JOB,
            {"spec": {"completions": 3}, "status": {"succeeded": 1, "startTime": ago(seconds=20)}},
            ["x", "Running", "1/3", "20s", "5m", "", "", "<none>"],
        ),
        (kinds.JOB, {"spec": {"parallelism": 2}}, ["x", "Running", "0/1 of 2", "", "5m", "", "", "<none>"]),
        (
            kinds.JOB,
            {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
            ["x", "Complete", "0/1", "", "5m", "", "", "<none>"],
        ),
        (
            kinds.BUDGET,
            {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}},
            ["x", "50%", "N/A", 1, "5m"],
        ),
        (kinds.BUDGET, {"spec": {"maxUnavailable": 0}}, ["x", "N/A", "0", 0, "5m"]),
        (kinds.NAMESPACE, {"status": {"phase": "Active"}}, ["x", "Active", "5m"]),
        (kinds.LEASE, {"spec": {"holderIdentity": "me"}}, ["x", "me", "5m"]),
        (kinds.PRIORITY_CLASS, {"value": 7, "preemptionPolicy": "Never"}, ["x", 7, False, "5m", "Never"]),
        (kinds.CSI_NODE, {"spec": {"drivers": [{}]}}, ["x", 1, "5m"]),
        (kinds.MUTATING_WEBHOOKS, {"webhooks": [{}, {}]}, ["x", 2, "5m"]),
        (
            kinds.VOLUME,
            {
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"namespace": "n", "name": "c"},
                    "storageClassName": "s",
                    "volumeMode": "Filesystem",
                },
                "status": {"phase": "Bound"},
            },
            ["x", "1Gi", "RWO,RWX", "Retain", "Bound", "n/c", "s", "<unset>", "", "5m", "Filesystem"],
        ),
        (
            kinds.CLAIM,
            {
                "spec": {"volumeName": "v", "storageClassName": "s"},
                "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
            },
            ["x", "Bound", "v", "1Gi", "RWO", "s", "<unset>", "5m", "<unset>"],
        ),
        (
            kinds.CLAIM,
            {"spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}},
            ["x", "Pending", "", "", "", "", "<unset>", "5m", "<unset>"],
        ),
        (
            kinds.SERVICE,
            {
                "spec": {
                    "type": "NodePort",
                    "clusterIPs": ["10.0.0.1"],
                    "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                    "selector": {"a": "b"},
                }
            },
            ["x", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP,53/UDP", "5m", "a=b"],
        ),
        (
            kinds.SERVICE,
            {"spec": {"type": "LoadBalancer", "clusterIPs": ["None"]}},
            ["x", "LoadBalancer", "None", "<pending>", "<none>", "5m", "<none>"],
        ),
        (
            kinds.CORE_EVENT,
            {
                "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
                "type": "Normal",
                "reason": "Scheduled",
                "message": " done\n",
                "source": {"component": "scheduler", "host": "h"},
                "firstTimestamp": ago(minutes=3),
                "lastTimestamp": ago(seconds=3),
                "count": 4,
            },
            ["3s", "Normal", "Scheduled", "pod/p", "spec", "scheduler, h", "done", "3m", 4, "x"],
        ),
        (
            kinds.EVENT,
            {
                "regarding": {"kind": "Node"},
                "type": "Warning",
                "reason": "Bad",
                "note": "very",
                "reportingController": "me",
                "eventTime": "2026-11-15T11:59:00.000000Z",
                "series": {"count": 2, "lastObservedTime": "2026-11-15T11:59:50.000000Z"},
            },
            ["10s", "Warning", "Bad", "node", "", "me", "very", "60s", 2, "x"],
        ),
        (
            kinds.CONTROLLER_REVISION,
            {"revision": 3},
            ["x", "<none>", 3, "5m"],
        ),
        (
            kinds.DEFINITION,
            {
                "spec": {
                    "scope": "Namespaced",
                    "group": "example.io",
                    "names": {"kind": "Thing", "shortNames": ["th", "t"]},
                    "versions": [
                        {"name": "v2", "served": True, "storage": True},
                        {"name": "v1", "served": True},
                        {"name": "v0", "served": False},
                    ],
                },
                "status": {"conditions": [{"type": "Established", "status": "True"}]},
            },
            ["x", "Namespaced", "v1,v2(storage)", ago(minutes=5), "example.io", "Thing", "th,t", True],
        ),
        (Kind("", "v1", "ServiceAccount", "serviceaccounts"), {}, ["x", "5m"]),
        (Kind("", "v1", "Secret", "secrets"), {"type": "Opaque", "data": {"a": "b"}}, ["x", "Opaque", 1, "5m"]),
        (Kind("", "v1", "ConfigMap", "configmaps"), {"data": {"a": ""}, "binaryData": {"b": ""}}, ["x", 2, "5m"]),
    ],
)
def test_each_kind_has_its_cells(kind: Kind, body: Json, shown: list[Any]) -> None:
    assert cells(kind, body) == shown
    assert len(printer_of(kind).columns) == len(shown)


@pytest.mark.parametrize(
    "kind", [*kinds.Kinds(), Kind("autoscaling", "v1", "Scale", "scales")], ids=lambda k: k.resource
)
def test_an_empty_object_has_all_cells(kind: Kind) -> None:
    printer = printer_of(kind)
    assert len(printer.row({"metadata": {}})) == len(printer.columns)


def test_the_newest_of_several_default_storage_classes_is_marked() -> None:
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    classes = [
        {"metadata": {"name": name, "creationTimestamp": made} | extra}
        for name, made, extra in (
            ("old", ago(days=9), default),
            ("new-b", ago(days=1), default),
            ("new-a", ago(days=1), default),
            ("newest", ago(days=0), {}),
        )
    ]
    printer = printer_of(kinds.STORAGE_CLASS)
    assert printer.among is not None
    row = printer.among(classes)
    assert [row(each)[0] for each in classes] == ["old", "new-b", "new-a (default)", "newest"]
    assert printer.row(classes[2])[:5] == ["new-a", "", "Delete", "Immediate", False]


BODY = {
    "spec": {
        "size": 3,
        "list": [{"name": "a", "n": 1}, {"name": "b", "n": 2}],
        "when": ago(minutes=22),
        "ok": True,
        "number": 1.5,
        "object": {"a": 1},
        "text": "3",
        "a.b/c": "dotted",
    }
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        ("spec.size", [3]),
        ("$.spec.size", [3]),
        (".spec.list[*].name", ["a", "b"]),
        (".spec.list[0].name", ["a"]),
        (".spec.list[-1].name", ["b"]),
        (".spec.list[5].name", []),
        (".spec.list[0:1].name", ["a"]),
        (".spec.list[1:].name", ["b"]),
        ('.spec.list[?(@.name=="b")].n', [2]),
        (".spec.list[?(@.n>=2)].name", ["b"]),
        (".spec.list[?(@.n!=2)].name", ["a"]),
        (".spec.list[?(@.missing)].name", []),
        (".spec.list[?(@.name)].name", ["a", "b"]),
        (".spec.list[?(@.name==1)].name", []),
        (r".spec.a\.b/c", ["dotted"]),
        (".spec['a.b/c']", ["dotted"]),
        ('.spec["a.b/c"]', ["dotted"]),
        (".spec.object.*", [1]),
        (".spec.nope.deeper", []),
        (".spec.size.deeper", []),
    ],
)
def test_json_paths_lead_where_they_say(path: str, found: list[Any]) -> None:
    assert parse_path(path).find(BODY) == found


@pytest.mark.parametrize("path", [".spec[]", ".spec[?(nope)]", ".spec[?(@.a==b)]", ".spec[", ".."])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(PathError):
        parse_path(path)


@pytest.mark.parametrize(
    ("sort", "path", "shown"),
    [
        ("integer", ".spec.size", 3),
        ("integer", ".spec.number", 1),
        ("integer", ".spec.text", None),
        ("integer", ".spec.ok", None),
        ("number", ".spec.number", 1.5),
        ("number", ".spec.text", None),
        ("boolean", ".spec.ok", True),
        ("boolean", ".spec.text", None),
        ("string", ".spec.text", "3"),
        ("string", ".spec.size", "3"),
        ("string", ".spec.ok", "true"),
        ("string", ".spec.object", '{"a":1}'),
        ("string", ".spec.list[*].name", "a"),
        ("string", ".spec.missing", None),
        ("string", "[", None),
        ("date", ".spec.when", "22m"),
        ("date", ".spec.text", "<invalid>"),
        ("date", ".spec.size", None),
    ],
)
def test_cells_of_custom_columns_are_of_their_type(sort: str, path: str, shown: Any) -> None:
    printer = custom_printer([{"name": "C", "type": sort, "jsonPath": path}])
    assert printer.row({"metadata": {"name": "x"}} | BODY) == ["x", shown]


def test_a_custom_kind_without_columns_has_name_and_age() -> None:
    printer = custom_printer([])
    assert [column.name for column in printer.columns] == ["Name", "Age"]
    assert printer.row({"metadata": {"name": "x", "creationTimestamp": ago(minutes=1)}}) == ["x", "60s"]


def test_custom_columns_are_described() -> None:
    described = {"name": "A", "type": "date", "jsonPath": ".a", "priority": 1, "description": "an a"}
    printer = custom_printer([described, {"name": "B", "type": "string", "jsonPath": ".b"}])
    assert printer.columns[1].definition == {
        "name": "A",
        "type": "date",
        "format": "",
        "description": "an a",
        "priority": 1,
    }
    assert printer.columns[2].description == "Custom resource definition column (in JSONPath format): .b"


async def test_a_table_has_with_each_row_what_the_client_wants() -> None:
    async with served() as client:
        await client.make("a", data={"x": "y"})
        whole = (await client.get(f"{MAPS}/a")).json
        for query, shown in {
            "": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": whole["metadata"]},
            "?includeObject=Object": whole,
            "?includeObject=None": None,
        }.items():
            for path in (f"{MAPS}/a", MAPS):
                table = (await client.get(f"{path}{query}", TABLE)).json
                assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
                assert [row["object"] for row in table["rows"]] == [shown]
        refused = await client.get(f"{MAPS}?includeObject=Foo", TABLE)
        assert refused.status == 400
        assert "must be 'Metadata', 'Object', 'None', or empty" in refused.message


async def test_tables_come_in_pages_too() -> None:
    async with served() as client:
        for number in range(3):
            await client.make(f"m{number}")
        table = (await client.get(f"{MAPS}?limit=2", TABLE)).json
        assert [row["cells"][0] for row in table["rows"]] == ["m0", "m1"]
        assert table["metadata"]["remainingItemCount"] == 1
        rest = (await client.get(f"{MAPS}?limit=2&continue={table['metadata']['continue']}", TABLE)).json
        assert [row["cells"][0] for row in rest["rows"]] == ["m2"]
