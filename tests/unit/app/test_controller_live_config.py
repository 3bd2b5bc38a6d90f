"""The parts of a controller use the active configuration: planning, steering, and the objects of Events."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from rescheduler.app import planning as app
from rescheduler.app.admission import AdmissionServices
from rescheduler.app.context import AppContext, UsageMonitor
from rescheduler.app.controller import PlanningLoop, find_own_object
from rescheduler.config.live import LiveConfig
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Connection
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.observer import MigrationObserver
from rescheduler.kube.pause_state import PauseDetails, PauseStore
from rescheduler.kube.webhook import WebhookConfiguration, WebhookSettings
from rescheduler.migration.events import Subject
from rescheduler.migration.observation import SteeringMethod
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from rescheduler.model.plan import Plan
from rescheduler.planning.thresholds import HotStreaks
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_cache import MigrationStore
from rescheduler.runtime.starting.holds import PauseWatcher
from rescheduler.runtime.starting.windows import TimeWindows
from rescheduler.web.metrics import Metrics
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.support.showing import NOW, Read, Stage, _Client


def live_config(**overrides: object) -> LiveConfig:
    """One with these flags over the default configuration."""
    return LiveConfig(configured(**overrides), NOW)


def configured(**overrides: object) -> Any:
    return app.load_configuration(None, {"minPodAge": "0s", "enabledStrategies": ["ResourceOptimization"], **overrides})


def context_of(held: LiveConfig, informers: Informers, cycles: Cycles | None = None) -> AppContext:
    client = cast("ApiClient", _Client(lambda: NOW))
    return AppContext(
        live=held,
        own=client,
        client=client,
        connection=cast("Connection", SimpleNamespace(source="test")),
        namespace="ours",
        identity="replica-1",
        informers=informers,
        election=None,
        pause_store=cast("PauseStore", None),
        pauses=cast("PauseWatcher", cycles),
        metrics=Metrics(),
        usage=cast("UsageMonitor", cycles),
    )


@dataclass
class Cycles:
    """A hot node, and all that a cycle needs; `meanwhile` happens when the plan has been made."""

    meanwhile: Callable[[LiveConfig], object] = lambda _: None
    polled: Callable[[LiveConfig], object] = lambda _: None
    ordered: list[PodMigration] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    def __post_init__(self) -> None:
        stage = Stage()
        for name in ("a", "b"):
            stage.node(name)
        for number in range(2):
            stage.pod(f"web-{number}", "a", cpu="1800m")
        self.live_config = live_config()
        self.informers = stage.watching
        hours = TimeWindows(self.informers.migrations, self.live_config, lambda: NOW)
        stage.watching.stale = lambda: ""  # type: ignore[method-assign] # nothing is watched that could be
        context = context_of(self.live_config, stage.watching, self)
        self.cycling = PlanningLoop(context, cast("MigrationStore", self), hours, HotStreaks(), self._planned)

    def _planned(self, plan: Plan, at: float, seconds: float) -> None:
        self.plans.append(plan)
        self.meanwhile(self.live_config)

    async def create(self, migration: PodMigration) -> PodMigration:
        self.ordered.append(migration)
        return migration

    async def refresh(self) -> bool:
        return True

    async def wait_until_polled(self) -> None:
        self.polled(self.live_config)

    def current(self) -> PauseDetails | None:
        return None

    def once(self) -> None:
        """One cycle."""

        async def cycle() -> None:
            planning, _ = self.cycling.tasks(None, asyncio.Event())
            assert await planning.run_once()

        asyncio.run(cycle())


def test_a_cycle_plans_and_orders_by_what_is_in_force() -> None:
    cycles = Cycles()
    cycles.once()
    assert len(cycles.ordered) == 1
    cycles.live_config.swap(configured(cpuThreshold=95.0), (), NOW)
    cycles.once()
    assert [len(plan.moves) for plan in cycles.plans] == [1, 0]


def test_a_plan_is_not_ordered_whose_configuration_is_no_longer_in_force() -> None:
    cycles = Cycles(lambda live_config: live_config.swap(configured(approval="required"), (), NOW))
    cycles.once()
    assert (len(cycles.plans), cycles.ordered) == (1, [])


def test_a_plan_goes_by_the_hour_of_each_namespace_as_it_is_in_force() -> None:
    cycles = Cycles()
    wanted = migration_spec("web-9", strategy="LoadBalancing", windowed=True)
    before = pod_migration("shop", "before", wanted, MigrationStatus(Phase.COMPLETED, start_time=NOW - 60, attempts=1))
    cycles.informers.migrations.put(before)
    for most in (1, 2):
        cycles.live_config.swap(configured(**{"when.movesPerHourPerNamespace": most}), (), NOW)
        cycles.once()
    assert [len(plan.moves) for plan in cycles.plans] == [0, 1]
    assert {each.guard for each in cycles.plans[0].rejections} == {"MovesPerHourPerNamespace"}
    assert [each.spec.windowed for each in cycles.ordered] == [True]


def test_a_plan_waits_for_what_is_used_and_goes_by_what_is_in_force_then() -> None:
    cycles = Cycles(polled=lambda live_config: live_config.swap(configured(cpuThreshold=95.0), (), NOW))
    cycles.once()
    assert [len(plan.moves) for plan in cycles.plans] == [0]


def test_a_change_calls_for_a_plan_at_once_and_its_interval_is_the_new_one() -> None:
    cycles = Cycles()

    async def story() -> None:
        planning, _ = cycles.cycling.tasks(None, asyncio.Event())
        cycles.live_config.swap(configured(reschedulingInterval="7s"), (), NOW)
        assert planning.wake.is_set()
        assert callable(planning.interval)
        assert planning.interval() == 7.0

    asyncio.run(story())


def steering(held: LiveConfig) -> AdmissionServices:
    return AdmissionServices(context_of(held, Read(lambda: NOW)))


async def test_the_webhook_leaves_namespaces_alone_that_were_excluded_meanwhile() -> None:
    held = live_config(**{"webhook.enabled": True})
    found = steering(held)
    found._registration.in_force = True
    assert found.steering("shop") is SteeringMethod.WEBHOOK
    held.swap(configured(**{"webhook.enabled": True, "excludedNamespaces": ["shop"]}), (), NOW)
    assert found.steering("shop") is SteeringMethod.TEMPLATE
    assert found._webhook_task.wake.is_set(), "the API server is told at once"
    wanted = found._registration._configuration.wanted(None)
    assert wanted["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"] == ["ours", "shop"]


def test_a_webhook_configuration_wants_what_it_was_told_last() -> None:
    made = WebhookConfiguration(cast("ApiClient", None), WebhookSettings(excluded_namespaces=("a",)))
    made.exclude(("b",))
    values = made.wanted(None)["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"]
    assert values == ["b", "kube-rescheduler"]


async def test_nodes_are_avoided_by_the_settings_in_force() -> None:
    held = live_config()
    found = steering(held)
    assert found._advisor._recovery().enabled
    held.swap(configured(**{"recovery.enabled": False, "recovery.forgetAfter": "5s"}), (), NOW)
    assert (found._advisor._recovery().enabled, found._advisor._recovery().forget_after) == (False, 5.0)


@dataclass
class Reads:
    """An API server with one Lease, or without an answer."""

    lease: Json | None = None
    answers: bool = True

    async def find(self, kind: str, namespace: str, name: str) -> Json | None:
        assert (kind, namespace, name) == ("Lease", "leases", "kube-rescheduler")
        if not self.answers:
            raise ClusterError("no answer")
        return self.lease


def known_as(stage: Stage, reads: Reads) -> Subject:
    context = replace(
        context_of(live_config(), stage.watching),
        namespace="leases",
        connection=cast("Connection", SimpleNamespace(source="test", namespace="ours")),
    )
    return asyncio.run(find_own_object(context, cast("MigrationObserver", reads)))


def test_events_are_about_our_pod_where_we_run_in_the_cluster() -> None:
    stage = Stage()
    stage.pod(platform.node(), "a", namespace="ours")
    assert known_as(stage, Reads()) == Subject("Pod", "ours", platform.node(), f"ours-{platform.node()}")


def test_events_are_about_our_lease_elsewhere_be_it_there_or_not() -> None:
    stage = Stage()
    stage.pod(platform.node(), "a", namespace="another")
    lease = {"metadata": {"uid": "u"}}
    assert known_as(stage, Reads(lease)) == Subject("Lease", "leases", "kube-rescheduler", "u")
    assert known_as(stage, Reads()).uid == ""
    assert known_as(stage, Reads(answers=False)).uid == ""


def test_what_is_in_force_is_worked_out_once_and_hooks_hear_of_each_change() -> None:
    held, heard = live_config(), list[float]()
    held.listen(lambda: heard.append(held.policy().cool_down))
    assert held.policy() is held.policy()
    assert held.lifecycle() is held.lifecycle()
    before = held.lifecycle()
    assert not held.swap(configured(), (), NOW)
    assert held.swap(configured(coolDown="5s"), (), NOW)
    assert (heard, held.lifecycle() is before) == ([5.0], False)
