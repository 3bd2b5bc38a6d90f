"""Bodies in protobuf, as Go's typed clients send them: read into the same objects as JSON, or refused, never half."""

from __future__ import annotations

import pytest

from kubemini.server.protobuf import MEDIA_TYPE, ProtobufError, UnknownMessageError, object_from
from tests.unit.kubemini.served import MAPS, PODS, pod, served

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def varint(number: int) -> bytes:
    number %= 2**64
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    about = message((1, api_version), (2, kind))
    return b"k8s\0" + message((1, about), (2, raw), (3, ""), (4, ""))


def entry(key: str, value: str | bytes) -> bytes:
    return message((1, key), (2, value))


def metadata(name: str) -> bytes:
    """As Go writes it: with the empty fields that are no pointers."""
    empty_time = b""
    return message((1, name), (2, ""), (3, "default"), (4, ""), (5, ""), (6, ""), (7, 0), (8, empty_time))


def test_texts_maps_bytes_and_switches_are_read() -> None:
    raw = message((1, metadata("a")), (2, entry("x", "y")), (2, entry("z", "")), (3, entry("b", b"\0\1")), (4, 1))
    assert object_from(envelope("v1", "ConfigMap", raw)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "a",
            "generateName": "",
            "namespace": "default",
            "uid": "",
            "resourceVersion": "",
            "generation": 0,
            "creationTimestamp": None,
        },
        "data": {"x": "y", "z": ""},
        "binaryData": {"b": "AAE="},
        "immutable": True,
    }


def test_numbers_quantities_and_what_is_either_are_read() -> None:
    either = message((1, 1), (2, 0), (3, "50%"))
    spec = message((1, either), (3, message((1, 0), (2, 3), (3, ""))))
    budget = object_from(envelope("policy/v1", "PodDisruptionBudget", message((2, spec))))
    assert budget["spec"] == {"minAvailable": "50%", "maxUnavailable": 3}
    hard = message((2, message((1, entry("cpu", message((1, "1500m")))))))
    assert object_from(envelope("v1", "ResourceQuota", hard))["spec"] == {"hard": {"cpu": "1500m"}}
    priority = object_from(envelope("scheduling.k8s.io/v1", "PriorityClass", message((2, -5), (3, 0))))
    assert (priority["value"], priority["globalDefault"]) == (-5, False)


def test_parts_that_json_has_in_the_outer_object_are_put_there() -> None:
    given = message((1, "given"), (2, message((19, message((1, message((1, "map"))), (3, 420))))))
    scratch = message((1, "scratch"), (2, message((2, b""))))
    pod = message((2, message((1, given), (1, scratch))))
    job = message((2, message((5, message((2, message((6, pod))))), (1, "@daily"))))
    made = object_from(envelope("batch/v1", "CronJob", job))["spec"]
    assert made["schedule"] == "@daily"
    assert made["jobTemplate"]["spec"]["template"]["spec"]["volumes"] == [
        {"name": "given", "configMap": {"name": "map", "defaultMode": 420}},
        {"name": "scratch", "emptyDir": {}},
    ]


def test_times_are_read() -> None:
    moment = message((1, 1_700_000_000), (2, 5_000))
    spec = message((1, "me"), (2, 15), (4, moment))
    lease = object_from(envelope("coordination.k8s.io/v1", "Lease", message((2, spec))))
    assert lease["spec"]["renewTime"] == "2023-11-14T22:13:20.000005Z"
    event = object_from(envelope("v1", "Event", message((6, moment))))
    assert event["firstTimestamp"] == "2023-11-14T22:13:20Z"


def test_lists_of_messages_and_of_packed_numbers_are_read() -> None:
    security = message((4, varint(1) + varint(300)))
    container = message((1, "c"), (2, "i"), (3, "sh"), (3, "-c"), (15, b""))
    template = message((2, message((2, container), (14, security))))
    raw = message((2, message((1, 0), (3, template))))
    spec = object_from(envelope("apps/v1", "Deployment", raw))["spec"]
    assert spec["replicas"] == 0
    assert spec["template"]["spec"]["containers"] == [
        {"name": "c", "image": "i", "command": ["sh", "-c"], "securityContext": {}}
    ]
    assert spec["template"]["spec"]["securityContext"] == {"supplementalGroups": [1, 300]}


def test_what_is_not_known_may_be_empty_but_never_hold_anything() -> None:
    empty_status = message((1, 0), (2, message((1, 0), (2, ""))))
    assert "status" not in object_from(envelope("apps/v1", "Deployment", message((3, empty_status))))
    with pytest.raises(UnknownMessageError, match="field 3 of Deployment is not read"):
        object_from(envelope("apps/v1", "Deployment", message((3, message((1, 7))))))
    for api_version, kind in (("v1", "Pod"), ("events.k8s.io/v1", "Event"), ("", "")):
        with pytest.raises(UnknownMessageError):
            object_from(envelope(api_version, kind, b""))


@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", b"k8s\0\xff", b"k8s\0\x0a\x05ab", b"k8s\0\x0b", envelope("v1", "ConfigMap", field(1, 5))],
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtobufError):
        object_from(raw)


async def test_objects_are_made_and_deleted_with_protobuf() -> None:
    sort = {"Content-Type": MEDIA_TYPE, "Accept": f"{MEDIA_TYPE},application/json"}
    async with served() as client:
        raw = message((1, metadata("a")), (2, entry("x", "y")))
        made = await client.send("POST", f"{MAPS}?fieldValidation=Strict", envelope("v1", "ConfigMap", raw), sort)
        assert (made.status, made.json["data"]) == (201, {"x": "y"})
        template = message((1, message((11, entry("a", "b")))), (2, message((2, message((1, "c"), (2, "i"))))))
        spec = message((1, 2), (2, message((1, entry("a", "b")))), (3, template), (4, message((1, ""))), (5, 0), (7, 0))
        raw = envelope("apps/v1", "Deployment", message((1, metadata("d")), (2, spec), (3, message((1, 0)))))
        deployed = await client.send("POST", f"{DEPLOYMENTS}?fieldValidation=Strict", raw, sort)
        assert (deployed.status, deployed.json["spec"]["replicas"]) == (201, 2)
        await client.post(PODS, pod("p", spec={"nodeName": "n"}))
        options = envelope("policy/v1", "DeleteOptions", message((1, 7)))
        deleted = await client.send("DELETE", f"{PODS}/p", options, sort)
        assert deleted.json["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_protobuf_that_cannot_be_read_is_refused() -> None:
    sort = {"Content-Type": MEDIA_TYPE}
    async with served() as client:
        unknown = await client.send("POST", PODS, envelope("v1", "Pod", b""), sort)
        assert (unknown.status, unknown.json["reason"]) == (415, "UnsupportedMediaType")
        assert "v1 Pod is not read as protobuf here" in unknown.message
        garbage = await client.send("POST", MAPS, b"garbage", sort)
        assert (garbage.status, garbage.json["reason"]) == (400, "BadRequest")
