"""Our webhook as the API server sees it: registered, asked, in force or not and why, and never in anybody's way."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from rescheduler.admission.certificates import new_authority
from rescheduler.admission.registration import Registration
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.webhook import WebhookProbe, WebhookSettings
from rescheduler.model.json import Json
from rescheduler.model.labels import MANAGED_BY, MANAGER, REGISTERED_BY
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.manifests import deployment, gated
from tests.support.webhook_serving import (
    ASKED,
    CONFIGURATIONS,
    Creation,
    Replica,
    leader,
    process,
    removed,
    replica,
    settings_of,
)
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import free_port, until

REAL = pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True)


@pytest.fixture
def home(cluster: ClusterUnderTest) -> Iterator[str]:
    """The namespace that the webhook runs in."""
    with own_namespace(cluster.api, "home-of-the-webhook") as name:
        yield name


@pytest.fixture
def settings(home: str) -> WebhookSettings:
    return settings_of(home)


def asked(pod: Json) -> bool:
    return (pod["metadata"].get("annotations") or {}).get(ASKED) == "yes"


def probed(ours: Replica) -> str:
    """What the probe says, and nobody puts anything right."""
    return ours.call(lambda: WebhookProbe(ours.client, ours.settings).ask())


def configuration(space: Space, settings: WebhookSettings) -> str:
    return f"{CONFIGURATIONS}/{settings.name}"


def with_bundle(space: Space, settings: WebhookSettings, bundle: bytes) -> None:
    """Somebody gives the configuration another caBundle."""
    value = base64.b64encode(bundle).decode()
    steps = [{"op": "add", "path": f"/webhooks/{each}/clientConfig/caBundle", "value": value} for each in (0, 1)]
    space.api.patch(configuration(space, settings), steps, "json")


def test_a_registered_webhook_is_asked_and_its_answer_is_taken(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings) as ours:
        assert (ours.registration.in_force, ours.registration.why) == (True, "")
        assert asked(space.create(gated("new")))
    assert set(ours.reviews.asked) == {"new"}


def test_pods_of_a_deployment_are_asked_about(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings):
        space.create(deployment("web", 3))
        made = until("three pods are there", lambda: found if len(found := space.pods("web")) == 3 else None)
    assert all(asked(each) for each in made)


def test_once_all_is_well_nothing_is_written_any_more(space: Space, settings: WebhookSettings) -> None:
    def versions() -> list[str]:
        secret = f"/api/v1/namespaces/{settings.namespace}/secrets/{settings.secret}"
        found = [space.api.get(path) for path in (configuration(space, settings), secret)]
        return [each["metadata"]["resourceVersion"] for each in found]

    with leader(space, settings) as ours:
        before = versions()
        assert [ours.keep() for _ in range(3)] == ["", "", ""]
        assert versions() == before


def test_excluded_namespaces_are_not_asked_about(space: Space, home: str) -> None:
    settings = settings_of(home, excluded_namespaces=(space.name, home))
    own = Space(space.cluster, home)
    with leader(space, settings) as ours:
        assert not asked(space.create(gated("excluded")))
        assert not asked(own.create(gated("own")))
        assert ours.keep() == ""  # the probe is in our own namespace, and is answered
    assert ours.reviews.asked == []


def test_our_own_namespace_is_not_asked_about_where_our_pods_are_in_it(home: str) -> None:
    outside = settings_of(home)
    inside = replace(outside, url="")
    assert inside.all_excluded_namespaces == {*outside.excluded_namespaces, home}
    assert outside.all_excluded_namespaces == {*outside.excluded_namespaces}
    assert not replace(outside, excluded_namespaces=()).all_excluded_namespaces


def test_with_no_namespace_excluded_all_are_asked_about(space: Space, home: str) -> None:
    with leader(space, settings_of(home, excluded_namespaces=())):
        assert asked(space.create(gated("asked")))
        assert asked(Space(space.cluster, home).create(gated("asked")))


def test_what_somebody_else_changed_is_put_right(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings) as ours:
        path = configuration(space, settings)
        before = space.api.get(path)["webhooks"]
        steps: list[Json] = [
            {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"},
            {"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["DELETE"]},
            {"op": "remove", "path": "/webhooks/1/objectSelector"},
        ]
        space.api.patch(path, steps, "json")
        ours.in_force()
        assert space.api.get(path)["webhooks"] == before
        space.api.delete(path)
        ours.in_force()
        assert space.api.get(path)["webhooks"] == before


def test_what_others_added_stays(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings) as ours:
        path = configuration(space, settings)
        space.api.patch(path, {"metadata": {"annotations": {"example.com/team": "a"}}})
        assert ours.keep() == ""
        with_bundle(space, settings, new_authority("another", 0.0).certificate)
        ours.in_force()
        assert space.api.get(path)["metadata"]["annotations"]["example.com/team"] == "a"


OF_A_PROVIDER = (
    {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
    {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
)
"""What AKS adds to the selector of every webhook, again and again until it is there."""


def with_theirs(space: Space, path: str) -> None:
    """As a provider's enforcer does: what is missing is added, on both webhooks."""
    hooks = space.api.get(path)["webhooks"]
    for each in hooks:
        there = each["namespaceSelector"].setdefault("matchExpressions", [])
        there += [theirs for theirs in OF_A_PROVIDER if theirs not in there]
    space.api.patch(path, [{"op": "replace", "path": "/webhooks", "value": hooks}], "json")


def test_a_provider_that_adds_to_the_selectors_is_not_fought(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings) as ours:
        path = configuration(space, settings)
        with_theirs(space, path)
        version = space.api.get(path)["metadata"]["resourceVersion"]
        assert [ours.keep() for _ in range(3)] == ["", "", ""]
        assert space.api.get(path)["metadata"]["resourceVersion"] == version


def test_what_a_provider_added_is_still_there_when_ours_is_put_right(space: Space, settings: WebhookSettings) -> None:
    def selected() -> list[Json]:
        return [dict(each["namespaceSelector"]) for each in space.api.get(path)["webhooks"]]

    with leader(space, settings) as ours:
        path = configuration(space, settings)
        with_theirs(space, path)
        labels = {"op": "add", "path": "/webhooks/0/namespaceSelector/matchLabels", "value": {"a": "b"}}
        space.api.patch(path, [labels], "json")
        before = selected()
        space.api.patch(path, [{"op": "remove", "path": "/webhooks/0/namespaceSelector/matchExpressions/0"}], "json")
        ours.in_force()
        assert selected() == before


def test_namespaces_that_are_excluded_no_longer_are_asked_about_again(space: Space, home: str) -> None:
    """Also when none is excluded any more, so that nothing of ours is wanted in the selector."""
    with leader(space, settings_of(home, excluded_namespaces=(space.name,))) as ours:
        with_theirs(space, configuration(space, ours.settings))
        assert not asked(space.create(gated("excluded")))
        ours.call(lambda: _excluding(ours, ()))
        ours.in_force()
        names = (f"again-{number}" for number in itertools.count())
        until("pods are asked about", lambda: asked(space.create(gated(next(names)))))
        (pods, _) = space.api.get(configuration(space, ours.settings))["webhooks"]
        assert pods["namespaceSelector"]["matchExpressions"] == list(OF_A_PROVIDER)


async def _excluding(ours: Replica, namespaces: tuple[str, ...]) -> None:
    ours.registration.exclude(namespaces)


def test_what_was_registered_from_another_namespace_is_not_taken_away(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings) as ours:
        elsewhere = replace(settings, namespace="elsewhere", url="")
        ours.call(lambda: Registration(ours.client, elsewhere, str, ours.now).remove())
        assert space.api.get(configuration(space, settings))["webhooks"]
        changed = replace(settings, url="", service="another")
        ours.call(lambda: Registration(ours.client, changed, str, ours.now).remove())
        assert not space.api.get(configuration(space, settings)).get("webhooks")


def test_only_what_was_registered_is_said_to_be_removed(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings) as ours:
        said = []
        for wanted in (replace(settings, name="never-registered"), settings, settings):
            with capture_logs() as logs:
                ours.call(Registration(ours.client, wanted, str, ours.now).remove)
            said.append([each["event"] for each in logs if each["event"] == "webhook unregistered"])
        assert said == [[], ["webhook unregistered"], []]


def test_the_probe_says_that_the_configuration_is_gone(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings) as ours:
        space.api.delete(configuration(space, settings))
        why = until("the API server asks no more", lambda: probed(ours))
        assert why.endswith(f"MutatingWebhookConfiguration {settings.name} does not exist")
        ours.in_force()


def test_the_probe_says_that_the_authority_is_wrong(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings) as ours:
        other = new_authority("another", ours.now()).certificate
        with_bundle(space, settings, other)
        why = until("the API server asks no more", lambda: probed(ours))
        assert "its certificate is not trusted by the configuration's caBundle" in why
        ours.in_force()


def test_the_probe_says_that_nobody_listens(space: Space, settings: WebhookSettings) -> None:
    with removed(space, settings):
        with replica(space, settings) as first:
            first.in_force()
        # The next one leads, but serves elsewhere.
        port = free_port()
        elsewhere = settings_of(settings.namespace, name=settings.name, url=settings.url, bind=("127.0.0.1", port))
        with replica(space, elsewhere) as ours:
            why = ours.keep()
            assert why.startswith(f"the API server gets no answer from our webhook: {settings.url}: no connection: ")
            assert ours.keep() == why  # word for word, so that it is told once
            assert not ours.registration.in_force
            assert not asked(space.create(gated("while-down")))


@pytest.mark.real_only  # it needs a ResourceQuota
def test_the_probe_says_what_keeps_its_pod_out(space: Space, settings: WebhookSettings) -> None:
    with leader(space, settings) as ours:
        own = Space(space.cluster, settings.namespace)
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
        own.create(quota | {"spec": {"hard": {"pods": "0"}}})
        own.reaches("ResourceQuota", "none", "is counted", lambda found: "hard" in found.get("status", {}))
        why = until("the quota counts", ours.keep)
        assert f"the quota of namespace {settings.namespace} has no room for one more pod" in why
        assert ours.keep() == why
        assert not ours.registration.in_force
        own.delete("ResourceQuota", "none")
        ours.in_force()


def test_a_namespace_that_is_not_there_is_named(space: Space) -> None:
    settings = settings_of("nowhere-at-all")
    with removed(space, settings), replica(space, settings) as ours:
        assert "namespace nowhere-at-all does not exist" in probed(ours)
        with pytest.raises(ClusterError, match="nowhere-at-all"):
            ours.keep()
        assert not ours.registration.in_force
        assert "nowhere-at-all" in ours.registration.why


@REAL
def test_a_namespace_for_restricted_pods_lets_the_probe_in(space: Space, settings: WebhookSettings) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    space.api.patch(f"/api/v1/namespaces/{settings.namespace}", {"metadata": {"labels": labels}})
    with leader(space, settings) as ours:
        assert ours.keep() == ""


@REAL
def test_without_the_right_to_make_pods_the_probe_says_so(space: Space, settings: WebhookSettings) -> None:
    with replica(space, settings, user="nobody-in-particular") as ours:
        assert f"allow `create pods` in namespace {settings.namespace}" in probed(ours)


@REAL
def test_these_rights_are_enough(space: Space, settings: WebhookSettings) -> None:
    group, user = "rbac.authorization.k8s.io", f"leader-{settings.name}"
    ours = {"resourceNames": [settings.secret]}
    core: Json = {"apiGroups": [""]}
    hooks = {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"]}
    wide = [hooks | {"verbs": ["get", "patch"], "resourceNames": [settings.name]}]
    narrow = [
        core | {"resources": ["secrets"], "verbs": ["create"]},
        core | {"resources": ["secrets"], "verbs": ["get", "update", "delete"]} | ours,
        core | {"resources": ["pods"], "verbs": ["create"]},
    ]
    inside = f"/apis/{group}/v1/namespaces/{settings.namespace}"
    for path, kind, rules in ((f"/apis/{group}/v1/cluster", "ClusterRole", wide), (f"{inside}/", "Role", narrow)):
        meta = {"metadata": {"name": user}}
        space.api.post(f"{path}roles", meta | {"rules": rules})
        who = {"subjects": [{"kind": "User", "name": user, "apiGroup": group}]}
        space.api.post(f"{path}rolebindings", meta | who | {"roleRef": {"apiGroup": group, "kind": kind, "name": user}})
    with removed(space, settings), replica(space, settings, user) as leading:
        cure = "does not exist, and the controller may not create it; install it"
        until("only the configuration is missing", lambda: cure in said_by(leading))
        installed(space, settings)
        leading.in_force()
        space.api.patch(
            f"/api/v1/namespaces/{settings.namespace}/secrets/{settings.secret}", {"data": {"tls.crt": "AAAA"}}
        )
        leading.in_force()
        leading.call(leading.registration.remove)
        assert not space.api.get(configuration(space, settings)).get("webhooks")
    for path in ("clusterroles", "clusterrolebindings"):
        space.api.delete(f"/apis/{group}/v1/{path}/{user}")


def said_by(leading: Replica) -> str:
    """Why a round of the leader fails; API servers hear of rights in their own time."""
    try:
        return leading.keep()
    except ClusterError as error:
        return str(error)


def installed(space: Space, settings: WebhookSettings) -> Json:
    """The configuration as the chart installs it: it asks nobody."""
    notes, labels = {REGISTERED_BY: settings.namespace}, {MANAGED_BY: "Helm"}
    return space.api.post(CONFIGURATIONS, {"metadata": {"name": settings.name, "annotations": notes, "labels": labels}})


def test_an_installed_configuration_is_filled_and_emptied_and_still_belongs_to_whoever_installed_it(
    space: Space, settings: WebhookSettings
) -> None:
    with removed(space, settings):
        before = installed(space, settings)["metadata"]
        with replica(space, settings) as ours:
            for _ in range(2):
                ours.in_force()
                assert [ours.keep() for _ in range(2)] == ["", ""]
                assert len(space.api.get(configuration(space, settings))["webhooks"]) == 2
                ours.call(ours.registration.remove)
                after = space.api.get(configuration(space, settings))
                assert not after.get("webhooks")
                for key in ("uid", "labels", "annotations"):
                    assert after["metadata"][key] == before[key]


def test_what_others_have_in_our_configuration_stays_when_it_is_emptied(
    space: Space, settings: WebhookSettings
) -> None:
    with leader(space, settings) as ours:
        path = configuration(space, settings)
        theirs = space.api.get(path)["webhooks"][1] | {"name": "theirs.example.com"}
        space.api.patch(path, [{"op": "add", "path": "/webhooks/0", "value": theirs}], "json")
        ours.call(ours.registration.remove)
        assert space.api.get(path)["webhooks"] == [theirs]


def test_nobody_is_asked_until_somebody_would_answer(space: Space, settings: WebhookSettings) -> None:
    with removed(space, settings), replica(space, settings) as ours:
        installed(space, settings)
        waiting = Registration(ours.client, settings, lambda: "it does not listen yet", ours.now)
        ours.call(waiting.keep)
        assert (waiting.in_force, waiting.why) == (False, "it does not listen yet")
        assert not space.api.get(configuration(space, settings)).get("webhooks")


def test_a_configuration_that_is_not_ours_is_left_alone(space: Space, settings: WebhookSettings) -> None:
    with removed(space, settings), replica(space, settings) as ours:
        space.api.post(CONFIGURATIONS, {"metadata": {"name": settings.name}, "webhooks": []})
        with pytest.raises(ClusterError, match="is not ours, and is left alone; delete it"):
            ours.keep()
        assert space.api.get(configuration(space, settings)).get("webhooks") is None
        labels = {MANAGED_BY: MANAGER}
        space.api.patch(configuration(space, settings), {"metadata": {"labels": labels}})
        ours.in_force()


def test_a_webhook_that_is_not_wanted_asks_nobody_and_keeps_no_certificate(
    space: Space, settings: WebhookSettings
) -> None:
    with leader(space, settings) as ours:
        ours.call(ours.registration.remove)
        assert not space.api.get(configuration(space, settings)).get("webhooks")
        found = space.api.get(f"/api/v1/namespaces/{settings.namespace}/secrets")["items"]
        assert settings.secret not in [each["metadata"]["name"] for each in found]
        ours.call(ours.registration.remove)  # again: nothing to do


def test_pods_are_made_while_the_webhook_is_down(space: Space, settings: WebhookSettings) -> None:
    with removed(space, settings):
        with replica(space, settings) as ours:
            ours.in_force()
        assert not asked(space.create(gated("while-down")))
        with replica(space, settings) as ours:
            ours.in_force()
            assert asked(space.create(gated("up-again")))


def test_no_pod_is_lost_when_the_webhook_is_killed(space: Space, settings: WebhookSettings) -> None:
    with removed(space, settings):
        with replica(space, settings) as first:
            first.in_force()
        with process(space, settings) as serving:
            until("it is asked", lambda: asked(space.create(gated("first"), dryRun="All")))
            with Creation(space, 60) as creation:
                creation.goes_on(60)
                serving.kill()
                serving.wait()
                creation.goes_on()
    made = creation.made
    assert len(space.list("Pod")) == len(made) >= 90
    assert 60 <= sum(asked(each) for each in made) < len(made)
