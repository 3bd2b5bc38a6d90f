"""Metrics and health: what is counted is shown, and who is not ready says why."""

from __future__ import annotations

import aiohttp
import pytest

from rescheduler.kube.errors import ClusterError
from rescheduler.web.metrics import Metrics
from rescheduler.web.server import WebApp, serve

HERE = "127.0.0.1"


async def fetched(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{HERE}:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_what_was_counted_is_read_as_prometheus_wants_it() -> None:
    metrics = Metrics()
    metrics.count_recovery("exhausted")
    metrics.count_recovery("exhausted")
    metrics.requests.observe_answer("/mutate", 200, 0.002)
    metrics.webhook_in_force = True
    async with serve(WebApp(metrics), HERE, 0) as port:
        status, text = await fetched(port, "/metrics")
    assert status == 200
    assert 'rescheduler_recoveries_total{outcome="exhausted"} 2.0' in text
    assert 'rescheduler_admission_requests_total{code="200",path="/mutate"} 1.0' in text
    assert 'rescheduler_admission_request_duration_seconds_bucket{le="0.0025",path="/mutate"} 1.0' in text
    assert "rescheduler_webhook_in_force 1.0" in text


async def test_whoever_is_not_ready_says_why() -> None:
    lacking = {"caches": "pods: being read"}
    async with serve(WebApp(Metrics(), {"caches": lambda: lacking["caches"], "lease": str}), HERE, 0) as port:
        assert await fetched(port, "/livez") == (200, "ok")
        status, text = await fetched(port, "/readyz")
        assert status == 503
        assert text == "[-]caches failed: pods: being read\n[+]lease ok\nreadyz check failed\n"
        lacking["caches"] = ""
        assert await fetched(port, "/readyz") == (200, "ok")
        assert "[+]caches ok" in (await fetched(port, "/readyz?verbose"))[1]
        assert (await fetched(port, "/nothing"))[0] == 404


async def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    async with serve(WebApp(Metrics()), HERE, 0) as port:
        with pytest.raises(ClusterError, match=rf"web: cannot listen on {HERE}:{port}: "):
            async with serve(WebApp(Metrics()), HERE, port):
                raise AssertionError("it was listened on twice")
