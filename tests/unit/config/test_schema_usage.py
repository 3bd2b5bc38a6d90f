"""The section `usage` of a configuration: defaults, what it becomes, and how it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.config.errors import format_path
from rescheduler.config.schema import PrometheusAccess, PrometheusQueries, UsageSettings, UsageSource
from rescheduler.config.validate import fields_by_name, parse

URL = "http://prometheus.monitoring:9090"


def parsed(fields: dict[str, Any]) -> UsageSettings:
    found = parse(fields, UsageSettings, ())
    assert isinstance(found, UsageSettings), found
    return found


def refusal(**fields: Any) -> list[str]:
    found = parse(fields, UsageSettings, ("usage",))
    assert isinstance(found, list), found
    return [f"{format_path(finding.loc)}: {finding.message}" for finding in found]


def test_everything_said_is_what_sources_get() -> None:
    fields = parsed(
        {
            "source": "prometheus",
            "interval": "15s",
            "window": "10m",
            "maxAge": "1m",
            "prometheus": {
                "url": "https://prom:9090/prefix/",
                "bearerTokenFile": "/token",
                "caFile": "/ca",
                "certificateFile": "/crt",
                "keyFile": "/key",
                "timeout": "3s",
                "queries": {"nodeCpu": "up", "podMemory": "down"},
            },
        }
    )
    ready = PrometheusQueries()
    assert fields == UsageSettings(
        UsageSource.PROMETHEUS,
        15.0,
        600.0,
        60.0,
        PrometheusAccess(
            "https://prom:9090/prefix",
            "/token",
            "/ca",
            "/crt",
            "/key",
            timeout=3.0,
            queries=PrometheusQueries("up", ready.node_memory, ready.pod_cpu, "down"),
        ),
    )


@pytest.mark.parametrize(
    "url", [URL, "https://prom", "http://[fd00::7]:9090", "http://10.0.0.7:9090/a/b", "HTTP://prom"]
)
def test_an_address_may_look_like_this(url: str) -> None:
    fields = parsed({"source": "prometheus", "prometheus": {"url": url}})
    assert fields.prometheus.url == url


@pytest.mark.parametrize(
    "url", ["prom:9090", "ftp://prom", "http://", "http://prom:0", "http://prom:x", "http://p?q=1", "http://p q"]
)
def test_an_address_may_not_look_like_this(url: str) -> None:
    (said,) = refusal(prometheus={"url": url})
    assert said == f'usage.prometheus.url: "{url}" is not an address such as {URL}, without a query'


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    (said,) = refusal(prometheus={"url": "http://me:hunter2@prom"})
    assert said.startswith("usage.prometheus.url: has a user or a password in it: leave them out")
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"source": "metrics"}, 'usage.source: "metrics" is not one of'),
        ({"source": "prometheus"}, f"usage.prometheus: has no url, and source is prometheus: give one such as {URL}"),
        ({"window": "10s"}, "usage.window: 10s is shorter than interval (30s): make it as long at least"),
        ({"maxAge": "10s"}, "usage.maxAge: 10s is shorter than interval (30s): make it as long at least"),
        ({"interval": 30}, "usage.interval: 30 is a number, expected a duration such as 30s: write 30s for seconds"),
        ({"prometheus": {"keyFile": "/key"}}, "usage.prometheus.certificateFile: is needed too"),
        ({"prometheus": {"certificateFile": "/crt"}}, "usage.prometheus.keyFile: is needed too"),
        (
            {"prometheus": {"caFile": "/ca", "insecureSkipVerify": True}},
            "usage.prometheus.insecureSkipVerify: cannot be",
        ),
        (
            {"prometheus": {"url": URL, "caFile": "/ca"}},
            "usage.prometheus.caFile: is for https, but url begins with http",
        ),
        ({"prometheus": {"queries": {"nodeCpu": " "}}}, "usage.prometheus.queries.nodeCpu: is empty: give a query"),
        ({"prometheus": {"timeout": "0s"}}, "usage.prometheus.timeout: 0s is not at least 1s"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_cure(fields: dict[str, Any], said: str) -> None:
    (found,) = refusal(**fields)
    assert found.startswith(said), found


def test_every_field_is_described() -> None:
    def described(model: Any) -> bool:
        return all(field.description for field in fields_by_name(model).values())

    assert all(map(described, (UsageSettings, PrometheusAccess, PrometheusQueries)))


def test_an_unknown_field_is_refused() -> None:
    assert refusal(scource="prometheus") == ["usage.scource: is not a known field"]
