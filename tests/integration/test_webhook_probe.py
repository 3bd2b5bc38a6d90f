"""The probe's own call of the webhook, where the API server does not ask it: whom it trusts, and what it says then."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rescheduler.kube.client import ApiClient
from rescheduler.kube.webhook import PROBE_WEBHOOK, WebhookProbe, WebhookSettings
from rescheduler.model.labels import MANAGED_BY, MANAGER
from tests.support.api_server import Answer, Issued, api_server
from tests.support.kubeconfigs import b64, connection
from tests.support.tls import strict_by_default
from tests.testbed.pki import Authority

CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kube-rescheduler"
PODS = "/api/v1/namespaces/kube-rescheduler/pods"


async def probed(folder: Path, signs: Authority, trusted: Authority) -> str:
    """What is said of a webhook with a certificate that one authority signs, and a configuration that trusts another.

    The API server makes the probe's pod without asking the webhook.
    """
    pair = signs.server("webhook")
    issued = Issued(pair.certificate.read_bytes(), pair.key.read_bytes())
    async with api_server(issued=issued) as webhook, api_server() as server:
        webhook.script("/healthz", Answer())
        server.script(PODS, Answer(body=msgspec.json.encode({"kind": "Pod", "metadata": {}})))
        client = {"url": f"{webhook.url}/mutate", "caBundle": b64(trusted.certificate.read_bytes())}
        hooks = [{"name": PROBE_WEBHOOK, "clientConfig": client}]
        found = {"metadata": {"labels": {MANAGED_BY: MANAGER}, "uid": "u", "resourceVersion": "7"}, "webhooks": hooks}
        server.script(CONFIGURATION, Answer(body=msgspec.json.encode(found)))
        async with ApiClient(connection(folder, {"server": server.url})) as asking:
            return await WebhookProbe(asking, WebhookSettings()).ask()


async def test_the_authority_of_an_old_installer_is_trusted_on_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict_by_default(monkeypatch)
    old = Authority(tmp_path / "pki", bare=True)
    assert ", but the API server has not seen the configuration yet" in await probed(tmp_path, old, old)


async def test_another_authority_is_not_trusted(tmp_path: Path) -> None:
    signs, trusted = Authority(tmp_path / "one"), Authority(tmp_path / "other")
    assert "is not trusted by the configuration's caBundle" in await probed(tmp_path, signs, trusted)
