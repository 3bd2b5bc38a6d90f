"""Scenario: the webhook is away for a time, comes back, changes its certificates, and is switched off.

The API server ignores a webhook that does not answer: so no pod waits for us, and whether it calls shows only in the
pods. Here all pods are of a Deployment that failed on one node: every replica that is called keeps them off it.
"""

from __future__ import annotations

import base64
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from rescheduler.model.json import Json
from rescheduler.recovery.avoidance import avoided_nodes
from tests.e2e.test_recovery import crashing
from tests.support.both_clusters import Space, is_ready, name_of, nodes_fixture
from tests.support.examples import examples
from tests.support.failure_records import record, retried
from tests.support.fault_proxy import FaultProxy, Odds, Upstream
from tests.support.manifests import deployment
from tests.support.recovering import CONFIGURATION, Recovering, Replica, is_in_force, wait_until_elsewhere
from tests.support.switch import Switch
from tests.testbed.processes import free_port, until

MANY = examples(few=60, many=200)
SLOW_TO_READ = Odds(requests={"slow": 1.0}, watches={"error 503": 1.0}, slow=(6.0, 6.0))
"""Every request takes so long that nothing is known when it is looked at, and nothing can be watched."""


nodes = nodes_fixture(4, prefix="outage")


@pytest.fixture
def ours(space: Space, tmp_path: Path) -> Iterator[Recovering]:
    found = Recovering(space, tmp_path, webhook=True, extender=False)
    with found.at_home():
        yield found


@contextlib.contextmanager
def in_force(ours: Recovering) -> Iterator[Replica]:
    with ours.replica() as found:
        until("the webhook is in force", lambda: is_in_force(found.controller), [found.controller])
        yield found


def failed_once(space: Space, nodes: list[str]) -> str:
    """A Deployment of one pod that has failed on a node and is healthy on another; the node. A controller runs.

    The pod only prefers that node. Were the others cordoned, the controller might find no other node for it.
    """
    bad = nodes[0]
    body = crashing(bad).of(retried(deployment("web", 1, cpu="10m")))
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [bad]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    body["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": preferred}
    space.create(body)
    until("its failure is recorded", lambda: bad in record(space, "Deployment", "web").get("nodes", {}))
    wait_until_elsewhere(space, "web", 1, bad)
    return bad


def scale_to(space: Space, replicas: int) -> list[Json]:
    """The Deployment's pods, when there are so many and all are Ready."""
    space.patch("Deployment", "web", {"spec": {"replicas": replicas}})

    def all_ready() -> list[Json] | None:
        found = space.pods("web")
        return found if len(found) == replicas and all(map(is_ready, found)) else None

    return until(f"{replicas} pods are Ready", all_ready, seconds=120)


def find_unreviewed(pods: list[Json], bad: str) -> set[str]:
    """Those that the webhook was not asked about, or whose answer was not taken."""
    return {name_of(each) for each in pods if bad not in avoided_nodes(each["spec"].get("affinity"))}


def secret_of(ours: Recovering) -> str:
    return f"/api/v1/namespaces/{ours.home}/secrets/kube-rescheduler-webhook"


def test_pods_are_made_while_nobody_answers_and_steered_when_somebody_does_until_it_is_switched_off(
    space: Space, nodes: list[str], ours: Recovering, tmp_path: Path
) -> None:
    with in_force(ours) as first:
        bad = failed_once(space, nodes)
        first.controller.kill()
    assert space.api.get(CONFIGURATION)["webhooks"]
    with space.cordoned(bad):
        made = scale_to(space, 3)
    assert len(find_unreviewed(made, bad)) == 2, "there was no replica to call"
    with FaultProxy(Upstream.of(space.cluster.kubeconfig), 1, SLOW_TO_READ) as proxy:
        proxy.faulty = True
        with ours.replica(proxy.kubeconfig(tmp_path / "slow")) as second:
            status, text = until("it answers", lambda: said_of_readiness(second), [second.controller])
            assert status == 503
            assert "[-]caches failed: being read: " in text
            assert "[-]webhook failed: the webhook has no certificate yet" in text
            assert second.page("/livez") == (200, "ok")
            proxy.faulty = False
            until("the webhook is in force again", lambda: is_in_force(second.controller), [second.controller])
            until("it is ready", lambda: second.page("/readyz") == (200, "ok"), [second.controller])
            until("it has counted it", lambda: second.counted("rescheduler_webhook_in_force") == 1)
            assert find_unreviewed(scale_to(space, 6), bad) == find_unreviewed(made, bad), "new ones are kept off"
            assert second.controller.stop() == 0
    assert space.api.get(CONFIGURATION)["webhooks"], "another replica may answer in a moment"
    with ours.replica(webhook={"enabled": False}) as third:
        until("no webhook is registered", lambda: not space.api.get(CONFIGURATION).get("webhooks"), [third.controller])
        until("no certificate is left", lambda: space.api.find(secret_of(ours)) is None, [third.controller])
        assert third.counted("rescheduler_webhook_in_force") == 0


def said_of_readiness(replica: Replica) -> tuple[int, str] | None:
    status, text = replica.page("/readyz")
    return (status, text) if status else None


def test_of_many_pods_none_is_lost_when_the_controller_is_killed_and_comes_back_in_the_middle(
    space: Space, nodes: list[str], ours: Recovering
) -> None:
    with in_force(ours) as first:
        space.create(deployment("many", MANY, cpu="10m"))
        until("some are there", lambda: len(space.pods("many")) > MANY // 5)
        first.controller.kill()
    with in_force(ours):
        until("all are Ready", lambda: sum(map(is_ready, space.pods("many"))) == MANY, seconds=120)
        assert len(space.exactly("many", MANY, "Running")) == MANY


def test_certificates_are_made_anew_while_many_pods_are_made_and_each_is_asked_about(
    space: Space, nodes: list[str], tmp_path: Path
) -> None:
    with Switch() as switch:
        ours = Recovering(space, tmp_path, webhook=True, extender=False, webhook_port=switch.port)
        with ours.at_home(), ours.replica(webhook={"port": free_port(), "timeout": "20s"}) as found:
            switch.to(found.port)
            until("the webhook is in force", lambda: is_in_force(found.controller), [found.controller])
            bad, before = failed_once(space, nodes), serving_certificate(found)
            space.api.delete(secret_of(ours))
            rehearsed: list[Json] = []
            for replicas, what, reached in (
                (MANY // 2, "a new CA is announced", lambda: trusted_authority(space).count("BEGIN") == 2),
                (3 * MANY // 4, "the new certificate is served", lambda: serving_certificate(found) != before),
                (MANY, "the webhook is in force", lambda: is_in_force(found.controller)),
            ):
                with Rehearsal(space) as rehearsal:
                    made = scale_to(space, replicas)
                    until(what, reached, [found.controller], 90)
                    rehearsal.goes_on(20)
                rehearsed += rehearsal.made
                switch.to(found.port)  # API servers keep their connections; new ones meet what is served now
            assert trusted_authority(space).startswith(base64.b64decode(secret_data(space, ours)["ca.crt"]).decode())
    assert find_unreviewed(made, bad) == set()
    assert find_unreviewed(rehearsed, bad) == set(), f"of {len(rehearsed)}"


def serving_certificate(replica: Replica) -> str:
    """The certificate that a new connection is shown."""
    return ssl.get_server_certificate(("127.0.0.1", replica.port), timeout=30)


def secret_data(space: Space, ours: Recovering) -> Json:
    found: Json = space.api.get(secret_of(ours))["data"]
    return found


def trusted_authority(space: Space) -> str:
    """The CA that the API server trusts."""
    hooks = space.api.get(CONFIGURATION)["webhooks"]
    return base64.b64decode(hooks[0]["clientConfig"]["caBundle"]).decode()


class Rehearsal:
    """Pods of the Deployment that are made in a dry run, one after another, for the block: a steady load of calls."""

    def __init__(self, space: Space) -> None:
        self._space = space
        replica_set = space.replica_set("web")
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
        owner |= {key: replica_set["metadata"][key] for key in ("name", "uid")}
        template = replica_set["spec"]["template"]
        metadata = template["metadata"] | {"generateName": "rehearsed-", "ownerReferences": [owner]}
        self._body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        self._over = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._create, name="rehearsal")
        self.made: list[Json] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._failed is not None and error is None:
            raise self._failed

    def goes_on(self, count: int) -> None:
        """Wait until so many more are made."""
        goal = len(self.made) + count
        until(f"{count} more are made", lambda: len(self.made) >= goal or self._failed)

    def _create(self) -> None:
        try:
            with contextlib.closing(self._space.api.another()) as api:
                while not self._over.wait(0.05):  # a steady load, not as much as can be
                    self.made.append(api.post(self._space.path("Pod", dryRun="All"), self._body))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._failed = error
