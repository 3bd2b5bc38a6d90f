"""Mutating webhooks: what the contract tests, which run on both clusters, leave out."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubemini.admission import AdmissionChain
from kubemini.api import Api
from kubemini.errors import Json
from kubemini.kinds import MUTATING_WEBHOOKS, POD
from tests.testbed.pki import Authority
from tests.unit.kubemini.rule_cases import at, cluster, create, pod, refused, running
from tests.unit.kubemini.webhook_stage import allow, hook, labelling, patching, serving

RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    api = await cluster(admission=True)
    yield api
    assert isinstance(api.admission, AdmissionChain)
    await api.admission.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "pki")


async def register(api: Api, name: str, *hooks: Json) -> None:
    await create(api, MUTATING_WEBHOOKS, {"metadata": {"name": name}, "webhooks": list(hooks)})


def denying(**status: Any) -> Any:
    return lambda request: {"uid": request["uid"], "allowed": False, "status": status}


async def test_configurations_are_asked_in_the_order_of_their_names(api: Api, authority: Authority) -> None:
    seconds = patching({"op": "add", "path": "/metadata/labels/touched", "value": "second"})
    async with serving(authority, one=labelling("touched", "first"), two=seconds) as stage:
        await register(api, "b", hook(stage, "/two"))
        await register(api, "a", hook(stage, "/one"))
        made = await create(api, POD, pod())
    assert [path for path, _ in stage.asked] == ["/one", "/two"]
    assert stage.requests("/two")[0]["object"]["metadata"]["labels"]["touched"] == "first"
    assert made["metadata"]["labels"]["touched"] == "second"


def _without_uid(request: Json) -> Json:
    return {"allowed": True}


def _half_a_patch(request: Json) -> Json:
    return allow(request) | {"patch": base64.b64encode(b"[]").decode()}


def _no_patch(request: Json) -> Json:
    return allow(request) | {"patchType": "JSONPatch", "patch": "!!!"}


def _unknown_patch(request: Json) -> Json:
    return allow(request) | {"patchType": "Magic", "patch": base64.b64encode(b"[]").decode()}


BROKEN = {
    "answers with an error": lambda _: web.Response(status=500, text="boom"),
    "answers with no JSON": lambda _: web.Response(text="{{{"),
    "answers with no review": lambda _: web.json_response({"kind": "Pod"}),
    "answers about something else": _without_uid,
    "does not say what its patch is": _half_a_patch,
    "has a patch that can't be decoded": _no_patch,
    "has a patch of an unknown sort": _unknown_patch,
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_what_a_failure_does_is_for_the_policy_to_say(api: Api, authority: Authority, broken: str) -> None:
    async with serving(authority, root=BROKEN[broken]) as stage:
        await register(api, "a", hook(stage))
        refusal = await refused(create(api, POD, pod()))
        assert (refusal.code, refusal.reason) == (500, "InternalError")
        assert refusal.message.startswith('Internal error occurred: failed calling webhook "hook.example.com": ')
        await api.edit(
            at(MUTATING_WEBHOOKS, "a"), lambda body: body | {"webhooks": [hook(stage, failurePolicy="Ignore")]}
        )
        await create(api, POD, pod())


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "remove", "path": "/nope/x"}],
        [{"op": "add", "path": "/spec", "value": 5}],
        [{"op": "remove", "path": "/metadata"}],
    ],
)
async def test_a_patch_that_does_not_fit_is_an_error_whatever_the_policy(
    api: Api, authority: Authority, patch: list[Json]
) -> None:
    async with serving(authority, root=patching(*patch)) as stage:
        await register(api, "a", hook(stage, failurePolicy="Ignore"))
        assert (await refused(create(api, POD, pod()))).code == 500


async def test_a_certificate_of_another_authority_is_not_trusted(
    api: Api, authority: Authority, tmp_path: Path
) -> None:
    stranger = base64.b64encode(Authority(tmp_path / "pki").certificate.read_bytes()).decode()
    async with serving(authority, root=allow) as stage:
        for number, bundle in enumerate((stranger, "")):
            config = hook(stage)
            config["clientConfig"]["caBundle"] = bundle
            await register(api, f"config-{number}", config)
            refusal = await refused(create(api, POD, pod()))
            assert "certificate" in refusal.message.lower()
            await api.delete(at(MUTATING_WEBHOOKS, f"config-{number}"))
    assert stage.asked == []


async def test_webhooks_are_not_asked_about_webhooks_nor_about_changes_and_deletions(
    api: Api, authority: Authority
) -> None:
    await running(api)
    async with serving(authority, root=denying(message="stay")) as stage:
        await register(api, "a", hook(stage, rules=[RULE]))
        await api.edit(at(POD, "a"), lambda body: body | {"metadata": body["metadata"] | {"labels": {"b": "c"}}})
        await api.delete(at(POD, "a"))
        await api.delete(at(MUTATING_WEBHOOKS, "a"))
    assert stage.asked == []
