"""The webhook's configuration where the API server refuses or is too late: what is said, and what counts as done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.webhook import PODS_WEBHOOK, WebhookConfiguration, WebhookSettings
from rescheduler.model.labels import REGISTERED_BY
from tests.support.api_server import Answer, api_server
from tests.support.kubeconfigs import connection

CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kube-rescheduler"
NOTES = {REGISTERED_BY: "kube-rescheduler"}
EMPTY: dict[str, Any] = {"metadata": {"annotations": NOTES, "resourceVersion": "7"}}
FILLED = EMPTY | {"webhooks": [{"name": PODS_WEBHOOK}]}


def refused(code: int, message: str) -> Answer:
    return Answer(code, msgspec.json.encode({"kind": "Status", "code": code, "message": message}))


async def test_where_it_is_not_there_and_may_not_be_made_the_cure_is_told(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script(CONFIGURATION, refused(404, "not found"), refused(403, "cannot create resource"))
        async with ApiClient(connection(tmp_path, {"server": server.url})) as client:
            ours = WebhookConfiguration(client, WebhookSettings())
            cure = "the controller may not create it; install it, by `helm upgrade`"
            told = f"kube-rescheduler does not exist, and {cure}"
            with pytest.raises(ClusterError, match=told) as caught:
                await ours.keep(await ours.read(), b"")
            assert "cannot create resource" in str(caught.value)


async def test_one_that_is_there_and_may_not_be_changed_is_told_in_the_servers_words(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script(CONFIGURATION, refused(403, "cannot patch resource"))
        async with ApiClient(connection(tmp_path, {"server": server.url})) as client:
            ours = WebhookConfiguration(client, WebhookSettings())
            for change in (ours.keep(EMPTY, b""), ours.empty(FILLED)):
                with pytest.raises(ApiError, match="cannot patch resource"):
                    await change


@pytest.mark.parametrize(("found", "answer"), [(EMPTY, Answer()), (FILLED, refused(404, "not found"))])
async def test_what_is_empty_or_gone_is_not_said_to_be_emptied(
    tmp_path: Path, found: dict[str, Any], answer: Answer
) -> None:
    async with api_server() as server:
        server.script(CONFIGURATION, answer)
        async with ApiClient(connection(tmp_path, {"server": server.url})) as client:
            assert not await WebhookConfiguration(client, WebhookSettings()).empty(found)
