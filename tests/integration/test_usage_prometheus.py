"""Usage from a real Prometheus that scrapes generated series: the ready queries, a certificate, a token, and a plan.

Prometheus itself asks for a client certificate. A proxy of the tests stands before it and asks for a token instead, as
proxies in clusters do, since Prometheus knows no tokens.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from rescheduler.app.planning import with_measured_usage
from rescheduler.config.schema import PrometheusAccess, PrometheusQueries, UsageSettings, UsageSource
from rescheduler.model.policy import Utilization
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.usage.history import UsageHistory
from rescheduler.usage.prometheus import Prometheus
from rescheduler.usage.samples import UsageError
from tests.support.builders import cluster, node, pod
from tests.support.measured_series import Consumer, Guarded, exporter, guarded_prometheus
from tests.testbed.processes import until

pytestmark = pytest.mark.release

MIB = 2**20
CONSUMERS = (
    Consumer('id="/",node="a",instance="10.0.0.1:10250"', 1.5, 1024 * MIB),
    Consumer('id="/",instance="b:10250"', 0.5, 512 * MIB),
    Consumer('id="/kubepods/x/1",node="a",namespace="shop",pod="web",container="main"', 0.2, 100 * MIB),
    Consumer('id="/kubepods/x/2",node="a",namespace="shop",pod="web",container="sidecar"', 0.05, 20 * MIB),
    Consumer('id="/kubepods/x/3",node="a",namespace="shop",pod="web",container="POD"', 0.7, 700 * MIB),
    Consumer('id="/kubepods/x",node="a",namespace="shop",pod="web",container=""', 0.95, 820 * MIB),
    Consumer('id="/kubepods/y/1",node="b",namespace="shop",pod="db",container="main"', 0.4, 300 * MIB),
)
TOKEN = "let-me-in"


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """It scrapes every kubelet twice, as many do, and has seen each counter grow."""
    folder = tmp_path_factory.mktemp("usage")
    with ExitStack() as stack:
        port = stack.enter_context(exporter(lambda: CONSUMERS))
        running = stack.enter_context(guarded_prometheus({"kubelet": [port], "cadvisor": [port]}, folder))
        until("all counters have grown", lambda: asyncio.run(all_known(access_to(running))), [running.child])
        yield running


async def all_known(access: PrometheusAccess) -> bool:
    found: list[object] = []
    source = Prometheus(access)
    try:
        warnings = await source.read(found.extend)
    except UsageError:
        return False
    return len(found) == 4 and not warnings


def access_to(prometheus: Guarded, **fields: object) -> PrometheusAccess:
    pair = prometheus.client
    whole = PrometheusAccess(
        prometheus.url,
        ca_file=str(prometheus.authority),
        certificate_file=str(pair.certificate),
        key_file=str(pair.key),
    )
    return replace(whole, **fields)  # type: ignore[arg-type]


def near(found: Requests, cores: float, memory: int) -> bool:
    """Times are whole milliseconds to Prometheus, so that a rate may be off by a thousandth of it or two."""
    return abs(dict(found)["cpu"] - cores * 1000) <= 2 + cores * 5 and dict(found)["memory"] == memory


def now() -> ClusterSnapshot:
    """A cluster as it is now, by the clock of this machine, with pods from long ago."""
    web, db = (pod(name, on=at, namespace="shop", age=1e9) for name, at in (("web", "a"), ("db", "b")))
    return replace(cluster(node("a"), node("b"), web, db), taken_at=time.time())


async def test_nodes_and_pods_are_measured_by_the_ready_queries(prometheus: Guarded) -> None:
    history = UsageHistory(UsageSettings())
    loop = UsagePoller(Prometheus(access_to(prometheus)), history, 0.5, time.time)
    running = asyncio.create_task(loop.run())
    try:
        await loop.polled.wait()
    finally:
        running.cancel()
        await asyncio.wait([running])
    found = loop.with_usage(now()).measured
    assert loop.failure == ""
    assert found is not None
    assert found.warnings == ()
    assert near(found.nodes["a"], 1.5, 1024 * MIB)
    assert near(found.nodes["b"], 0.5, 512 * MIB)
    assert near(found.pods["shop", "web"], 0.25, 120 * MIB)
    assert near(found.pods["shop", "db"], 0.4, 300 * MIB)


def test_a_plan_that_is_made_once_asks_once(prometheus: Guarded) -> None:
    settings = UsageSettings(source=UsageSource.PROMETHEUS, prometheus=access_to(prometheus))
    found = with_measured_usage(now(), Utilization.USAGE, settings, live=True).measured
    assert found is not None
    assert found.warnings == ()
    assert near(found.nodes["a"], 1.5, 1024 * MIB)


async def test_who_shows_no_certificate_is_turned_away(prometheus: Guarded) -> None:
    source = Prometheus(access_to(prometheus, certificate_file="", key_file=""))
    with pytest.raises(UsageError, match=prometheus.url):
        await source.read(lambda rows: None)


async def test_a_query_that_is_no_query_is_refused_in_prometheus_own_words(prometheus: Guarded) -> None:
    bad = PrometheusQueries(*["sum by ("] * 4)
    source = Prometheus(access_to(prometheus, queries=bad))
    with pytest.raises(UsageError, match=r"queries\.nodeCpu: invalid parameter \"query\": 1:9: parse error"):
        await source.read(lambda rows: None)


@pytest.mark.parametrize(
    ("query", "kind"), [("scalar(vector(1))", "scalar"), ('"text"', "string"), ("up[1m]", "matrix")]
)
async def test_a_query_that_gives_no_vector_is_refused(prometheus: Guarded, query: str, kind: str) -> None:
    source = Prometheus(access_to(prometheus, queries=PrometheusQueries(*[query] * 4)))
    with pytest.raises(UsageError, match=f"gives a {kind}, not an instant vector"):
        await source.read(lambda rows: None)


async def test_a_query_of_one_s_own_counts_and_nan_does_not(prometheus: Guarded) -> None:
    own = PrometheusQueries(
        'label_replace(vector(2), "node", "a", "", "")', 'label_replace(vector(NaN), "node", "a", "", "")'
    )
    history = UsageHistory(UsageSettings())
    history.begin(time.time())
    source = Prometheus(access_to(prometheus, queries=own))
    warnings = await source.read(history.take)
    history.end(warnings)
    found = history.measured(now())
    assert found.nodes == {"a": (("cpu", 2000),)}
    assert warnings == (
        "usage: the answer to nodeMemory has 1 values that are no amounts, which are ignored: a (NaN)",
        f"usage: {prometheus.url} has no data for nodeMemory; check usage.prometheus.queries.nodeMemory",
    )


@dataclass(frozen=True)
class Proxy:
    url: str
    tokens: list[str]


@asynccontextmanager
async def token_proxy(prometheus: Guarded) -> AsyncIterator[Proxy]:
    """Lets those with the token through to Prometheus."""
    context = ssl.create_default_context(cafile=str(prometheus.authority))
    context.load_cert_chain(prometheus.client.certificate, prometheus.client.key)
    tokens: list[str] = []

    async def pass_on(request: web.Request) -> web.Response:
        tokens.append(request.headers.get("Authorization", ""))
        if tokens[-1] != f"Bearer {TOKEN}":
            return web.Response(status=401)
        async with session.get(f"{prometheus.url}{request.rel_url}", ssl=context) as answer:
            return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

    application = web.Application()
    application.router.add_get("/{path:.*}", pass_on)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    async with aiohttp.ClientSession() as session:
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield Proxy(f"http://127.0.0.1:{runner.addresses[0][1]}", tokens)
        finally:
            await runner.cleanup()


async def test_a_token_from_a_file_opens_the_door_and_a_wrong_one_does_not(prometheus: Guarded, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("wrong")
    async with token_proxy(prometheus) as proxy:
        source = Prometheus(PrometheusAccess(proxy.url, bearer_token_file=str(file)))
        with pytest.raises(UsageError, match="answers 401 Unauthorized; check bearerTokenFile"):
            await source.read(lambda rows: None)
        file.write_text(f"{TOKEN}\n")
        found: list[object] = []
        assert await source.read(found.extend) == ()
    assert len(found) == 4
    assert proxy.tokens == ["Bearer wrong", *[f"Bearer {TOKEN}"] * 4]
