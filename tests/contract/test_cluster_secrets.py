"""Secrets, as we keep ours: what they hold, and how two writers meet."""

from __future__ import annotations

import base64

from tests.support.both_clusters import Space, refusal


def test_a_secret_keeps_what_it_is_given_in_base64_and_hides_nothing(space: Space) -> None:
    plain = {"tls.crt": "certificate", "tls.key": "key"}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
    metadata = {"name": "pair"}
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "kubernetes.io/tls",
        "data": encoded,
    }
    assert space.create(body)["data"] == encoded
    since = space.version("Secret")
    changed = space.patch("Secret", "pair", {"data": {"ca.crt": encoded["tls.crt"]}})
    assert changed["data"] == encoded | {"ca.crt": encoded["tls.crt"]}
    space.delete("Secret", "pair")
    seen = space.events("Secret", since, lambda event: event["type"] == "DELETED")
    assert [event["type"] for event in seen] == ["MODIFIED", "DELETED"]


def test_of_two_who_change_a_secret_at_once_one_is_told_so(space: Space) -> None:
    made = space.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shared"}})
    space.patch("Secret", "shared", {"data": {"a": "Zmlyc3Q="}})
    with refusal(409, "Conflict"):
        space.api.put(space.path("Secret", "shared"), made | {"data": {"a": "c2Vjb25k"}})
