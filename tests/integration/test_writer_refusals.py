"""What the writer takes for an answer, and what for a server in trouble that is to be asked again."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError
from rescheduler.kube.objects import CommandSender
from rescheduler.migration import commands
from tests.support.api_server import api_server, status_answer
from tests.support.kubeconfigs import RecordedWaits, connection

POD = {"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": {}}
EVICTION = "/api/v1/namespaces/shop/pods/web/eviction"
TWO = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


async def test_an_eviction_that_two_budgets_forbid_is_refused_for_good(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script(EVICTION, status_answer(500, "", TWO))
        to = connection(tmp_path, {"server": server.url})
        async with ApiClient(to, backoff=RecordedWaits().backoff) as client:
            refused = await CommandSender(client).carry_out(commands.evict(POD, 30, "it shall go"))
    assert refused is not None
    assert (refused.code, refused.message) == (500, TWO)


async def test_any_other_500_to_an_eviction_is_trouble_that_passes(tmp_path: Path) -> None:
    async with api_server() as server:
        server.script(EVICTION, status_answer(500, "InternalError", "etcdserver: leader changed"))
        to = connection(tmp_path, {"server": server.url})
        async with ApiClient(to, backoff=RecordedWaits().backoff) as client:
            with pytest.raises(ApiError, match="leader changed"):
                await CommandSender(client).carry_out(commands.evict(POD, 30, "it shall go"))
