"""Who is who in the embedded cluster: its own token, those of service accounts, and the reviews that ask about them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.errors import Json, StatusError
from kubemini.kinds import NAMESPACE, SUBJECT_REVIEW, TOKEN_REVIEW, Kind
from kubemini.reviews import Authenticator

ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
JANE = Target(ACCOUNT, "shop", "jane")
OURS = "known to few"


async def accounts() -> Authenticator:
    """Of a cluster with the account shop/jane."""
    api = Api()
    await api.create(Target(NAMESPACE, name="shop"), {"metadata": {"name": "shop"}})
    await api.create(JANE, {"metadata": {"name": "jane"}})
    return Authenticator(api, OURS)


def granted(found: Authenticator, **spec: object) -> str:
    token: str = found.token_of(JANE, {"spec": spec})["status"]["token"]
    return token


def reviewed(found: Authenticator, token: str, **spec: object) -> Json:
    status: Json = found.reviews[TOKEN_REVIEW]({"spec": {"token": token, **spec}})["status"]
    return status


def may(found: Authenticator, **spec: object) -> bool:
    asked = {"verb": "patch", "resource": "nodes"}
    answer = found.reviews[SUBJECT_REVIEW]({"spec": {"resourceAttributes": asked, **spec}})
    allowed: bool = answer["status"]["allowed"]
    return allowed


async def test_the_clusters_own_token_may_do_everything() -> None:
    found = await accounts()
    status = reviewed(found, OURS)
    assert status["authenticated"]
    assert "system:masters" in status["user"]["groups"]
    assert may(found, user="kubernetes-admin", groups=status["user"]["groups"])


async def test_a_service_account_is_known_and_may_do_nothing() -> None:
    found = await accounts()
    user = reviewed(found, granted(found))["user"]
    assert user["username"] == "system:serviceaccount:shop:jane"
    assert "system:serviceaccounts:shop" in user["groups"]
    assert not may(found, user=user["username"], groups=user["groups"])
    assert not may(found, user="system:masters")  # that is the name of a group


async def test_a_token_holds_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found, now = await accounts(), clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    token = granted(found, expirationSeconds=600)
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=590))
    assert reviewed(found, token)["authenticated"]
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(seconds=601))
    assert "authenticated" not in reviewed(found, token)


async def test_a_token_holds_as_long_as_its_account() -> None:
    found = await accounts()
    token = granted(found)
    await found._api.delete(JANE)
    assert found.user(token) is None
    await found._api.create(JANE, {"metadata": {"name": "jane"}})
    assert found.user(token) is None


async def test_a_token_for_others_is_none_for_the_api_server() -> None:
    found = await accounts()
    token = granted(found, audiences=["vault"])
    assert "authenticated" not in reviewed(found, token)
    assert reviewed(found, token, audiences=["vault", "other"])["audiences"] == ["vault"]


@pytest.mark.parametrize("token", ["x", "a.b.c", "..", ".", "ü", OURS + " ", "eyJhbGciOiJub25lIn0.e30."])
async def test_whatever_we_did_not_give_is_nobodys(token: str) -> None:
    found = await accounts()
    assert reviewed(found, token) == {"user": {}, "error": "[invalid bearer token]"}
    good = granted(found)
    assert found.user(good[:-1]) is None
    assert found.user("x" + good) is None


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (TOKEN_REVIEW, {"spec": {"token": 7}}),
        (TOKEN_REVIEW, {"spec": []}),
        (SUBJECT_REVIEW, {"spec": {"groups": 7}}),
    ],
)
async def test_questions_without_sense_are_refused(kind: Kind, body: Json) -> None:
    found = await accounts()
    with pytest.raises(StatusError) as caught:
        found.reviews[kind](body)
    assert caught.value.code == 400


async def test_tokens_are_not_made_for_nobody() -> None:
    found = await accounts()
    with pytest.raises(StatusError, match="not found"):
        found.token_of(Target(ACCOUNT, "shop", "nobody"), {"spec": {}})
