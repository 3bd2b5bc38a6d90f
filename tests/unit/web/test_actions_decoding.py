"""What the page asks for is read strictly: every fault with its path, and nothing that could be more than a name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.migration import MigrationStatus, Phase
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.web import actions
from rescheduler.web.actions import ACTIONS, ApproveRequest, MaintenanceRequest, MigrationRef, MoveRequest, PauseRequest
from rescheduler.web.responses import HttpError
from tests.support.pod_migrations import migration_spec, pod_migration

STATE = ("ours", "kube-rescheduler-state")
Anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


def refusal(action: str, body: object) -> HttpError:
    with pytest.raises(HttpError) as caught:
        actions.decode_request(action, body if isinstance(body, bytes) else json.dumps(body).encode())
    return caught.value


@pytest.mark.parametrize(
    ("action", "body", "said"),
    [
        ("pause", {"reasons": ""}, "reasons: unknown field; allowed are: reason"),
        ("resume", {"reason": ""}, "reason: unknown field; allowed are: none"),
        ("migrate", {"namespace": "a", "pod": "b", "node": "c"},
         "node: unknown field; allowed are: namespace, pod, target, method"),
        ("approve", {"migrations": [{"namespace": "a", "name": "b"}, {"namespace": "a", "name": "b", "x": 1}]},
         "migrations[1].x: unknown field; allowed are: namespace, name"),
        ("approve", {"migrations": [{"namespace": "a"}]}, "migrations[0].name: is needed"),
        ("migrate", {"namespace": "a"}, "pod: is needed"),
        ("maintenance", {"node": "a", "on": "yes"}, "on: expected `bool`, got `str`"),
        ("maintenance", {"node": 7, "on": True}, "node: expected `str`, got `int`"),
        ("pause", [], "the body: expected `object`, got `array`"),
        ("approve", {"migrations": []}, "migrations: expected `array` of length >= 1"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_path(action: str, body: object, said: str) -> None:
    found = refusal(action, body)
    assert (found.status, found.message) == (422, said)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"{}{}", b'{"reason": "\xff"}', b"nan"])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    assert refusal("pause", body).status == 400


@pytest.mark.parametrize(
    "name", ["", "..", "a/b", "../b", "a b", "A", "a\n", "\na", "a\x00", "ü", "-a", "a-", "a" * 254, "a?x=1", "a%2f"]
)
def test_a_name_is_a_name_and_nothing_else(name: str) -> None:
    assert refusal("migrate", {"namespace": name, "pod": "web"}).status == 422
    assert refusal("migrate", {"namespace": "shop", "pod": name}).status == 422
    assert refusal("maintenance", {"node": name, "on": True}).status == 422
    assert refusal("approve", {"migrations": [{"namespace": "shop", "name": name}]}).status == 422
    if name:
        assert refusal("migrate", {"namespace": "shop", "pod": "web", "target": name}).status == 422


@pytest.mark.parametrize("reason", ["two\nlines", "\x1b[31m", "\x00", "a\u2028b", "x" * 501])
def test_a_reason_is_one_line(reason: str) -> None:
    assert refusal("pause", {"reason": reason}).status == 422


def test_too_many_migrations_are_refused() -> None:
    many = [{"namespace": "a", "name": f"m{number}"} for number in range(1001)]
    assert refusal("approve", {"migrations": many}).message == "migrations: expected `array` of length <= 1000"


@given(action=st.sampled_from(sorted(ACTIONS)), body=Anything | st.binary(max_size=50))
def test_whatever_is_sent_is_understood_or_refused(action: str, body: object) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    found: object
    try:
        found = actions.decode_request(action, raw)
    except HttpError as refused:
        found = refused
    assert isinstance(found, ACTIONS[action]) or (isinstance(found, HttpError) and found.status in (400, 422))


def test_each_demand_needs_its_own_right() -> None:
    def needed(*asked: object) -> list[str]:
        return [str(each) for demand in asked for each in actions.required_rights(demand, STATE)]  # type: ignore[arg-type]

    assert needed(PauseRequest()) == ["patch configmaps kube-rescheduler-state in namespace ours"]
    assert needed(MoveRequest("shop", "web")) == ["create podmigrations.rescheduler.io in namespace shop"]
    assert needed(MaintenanceRequest("n1", on=True)) == ["patch nodes n1"]
    several = ApproveRequest([MigrationRef("b", "1"), MigrationRef("a", "2"), MigrationRef("b", "3")])
    assert needed(several) == [f"patch podmigrations.rescheduler.io in namespace {name}" for name in ("a", "b")]


def test_what_stands_or_falls_together_is_asked_for_together() -> None:
    migrations = MigrationCache()
    for name, proposal, phase in (
        ("one", "swap", Phase.PENDING),
        ("two", "swap", Phase.PENDING),
        ("ended", "swap", Phase.FAILED),
        ("other", "else", Phase.PENDING),
    ):
        order = migration_spec("web", proposal=proposal, members=2, approval_required=True)
        migrations.put(pod_migration("shop", name, order, MigrationStatus(phase), uid=name, version="1"))
    asked = ApproveRequest([MigrationRef("shop", "one"), MigrationRef("shop", "gone")])
    found = actions.with_group_members(asked, migrations)
    assert [each.name for each in found.migrations] == ["one", "gone", "two"]
