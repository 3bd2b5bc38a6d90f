"""Who may press the page's buttons: tokens and rights as the API server knows them, and requests that others forge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog

from rescheduler.kube.migrations import decode_migration
from rescheduler.model import labels
from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, name_of
from tests.support.manifests import deployment
from tests.support.migrations import MIGRATIONS, pod_migrations
from tests.support.signing_in import (
    HERE,
    STATE,
    ServedPage,
    allow,
    allow_everywhere,
    is_embedded,
    served,
    sign_again,
    token_of,
)
from tests.testbed.namespaces import own_namespace

PAUSE = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [STATE], "verbs": ["patch"]}
APPROVE = {"apiGroups": ["rescheduler.io"], "resources": ["podmigrations"], "verbs": ["patch"]}
MIGRATE = {"apiGroups": ["rescheduler.io"], "resources": ["podmigrations"], "verbs": ["create"]}
REAL = pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True)
"""What only the real cluster can show: its key can be had, new tokens be made of old ones, and kubectl makes some."""
NOBODY = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2JvZHkifQ.bm8"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.fixture(scope="module", autouse=True)
def definition(cluster: ClusterUnderTest) -> Iterator[None]:
    with pod_migrations(cluster):
        yield


@pytest.fixture
async def page(cluster: ClusterUnderTest, space: Space) -> AsyncIterator[ServedPage]:
    async with served(cluster, space.name) as found:
        yield found


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest, cluster: ClusterUnderTest) -> Iterator[str]:
    """Another namespace."""
    with own_namespace(cluster.api, f"not-{request.node.name}") as name:
        yield name


@pytest.fixture
def web(space: Space, nodes: list[str]) -> str:
    """The name of a Deployment's pod that runs."""
    space.create(deployment("web", 1))
    space.rolled_out("web")
    return name_of(space.pods("web")[0])


def waiting(space: Space, name: str, **spec: object) -> Json:
    """A migration that waits for approval."""
    body = {"apiVersion": "rescheduler.io/v1alpha1", "kind": "PodMigration", "metadata": {"name": name}}
    whole = {"pod": {"name": "web"}, "approvalRequired": True, **spec}
    return space.api.post(MIGRATIONS.format(space.name), {**body, "spec": whole})


def state(space: Space) -> Json:
    found: Json = space.api.get(f"/api/v1/namespaces/{space.name}/configmaps/{STATE}")["data"]
    return found


def states(space: Space) -> list[Json]:
    found = space.api.get(f"/api/v1/namespaces/{space.name}/configmaps")["items"]
    return [each for each in found if name_of(each) == STATE]


async def test_whoever_sends_no_token_is_nobody_and_may_do_nothing(page: ServedPage) -> None:
    answer = await page.whoami()
    assert answer.status == 200
    may = {"pause": False, "approve": False, "migrate": False, "maintenance": False}
    assert answer.body == {"name": "", "groups": [], "may": may}
    refused = await page.act("pause", {})
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert "sign in with a Kubernetes token" in refused.error


async def test_a_service_account_without_rights_is_known_and_may_do_nothing(page: ServedPage, space: Space) -> None:
    answer = await page.whoami(token_of(space, "guest"))
    assert answer.status == 200
    assert answer.body["name"] == f"system:serviceaccount:{space.name}:guest"
    assert f"system:serviceaccounts:{space.name}" in answer.body["groups"]
    assert set(answer.body["may"].values()) == {False}


async def test_a_service_account_with_a_right_may_do_exactly_that(page: ServedPage, space: Space) -> None:
    answer = await page.whoami(allow(space, "pauser", PAUSE))
    others = is_embedded(space.cluster)  # there, whoever may do something may do everything
    assert answer.body["may"] == {"pause": True, "approve": others, "migrate": others, "maintenance": others}


async def test_tokens_of_nobody_are_refused(page: ServedPage, space: Space) -> None:
    token = token_of(space, "gone")
    space.delete("ServiceAccount", "gone")
    space.gone("ServiceAccount", "gone")
    async with asyncio.timeout(60):
        while (await page.whoami(token)).status == 200:  # the real API server may hear of it a moment later
            page.time += 5.1
            await asyncio.sleep(0.2)
    cut = token_of(space, "default")[:-9]
    for wrong in (NOBODY, "nonsense", token, cut, "a b"):
        answer = await page.whoami(wrong)
        assert answer.status == 401, wrong
        assert "Kubernetes does not accept this token" in answer.error
        assert wrong not in answer.error
    for scheme in ("Basic YTpi", "Bearer", "Bearer ", "token", f"Bearer {'ü' * 100}"):
        answer = await page.ask("GET", "/api/whoami", {"Authorization": scheme})
        assert answer.status == 401, scheme


@REAL
async def test_kubectl_makes_tokens_that_are_taken(page: ServedPage, space: Space) -> None:
    space.cluster.kubectl("create", "serviceaccount", "jane", "-n", space.name)
    token = space.cluster.kubectl("create", "token", "jane", "-n", space.name, "--duration", "10m").strip()
    assert (await page.whoami(token)).body["name"] == f"system:serviceaccount:{space.name}:jane"
    # For others than the API server, such as a webhook, it is no token of a person.
    other = space.cluster.kubectl("create", "token", "jane", "-n", space.name, "--audience", "vault").strip()
    assert (await page.whoami(other)).status == 401


async def test_the_log_says_who_did_it_and_no_token(page: ServedPage, space: Space) -> None:
    token = allow(space, "pauser", PAUSE)
    guest = token_of(space, "guest")
    with structlog.testing.capture_logs() as logged:
        await page.act("pause", {"reason": "upgrade"}, token)
        await page.act("resume", {}, guest)
        for number in range(10):
            await page.act("resume", {}, f"{NOBODY}{number}")
    done, not_allowed, wrong = logged
    who = (await page.whoami(token)).body["name"]
    assert done["event"] == "page action done"
    assert (done["action"], done["by"], done["peer"], done["reason"]) == ("pause", who, HERE, "upgrade")
    assert not_allowed["by"] == f"system:serviceaccount:{space.name}:guest"
    assert wrong["event"] == "too many wrong tokens on the page"
    assert not [each for each in (token, guest, NOBODY) if each in repr(logged)]


async def test_a_token_that_is_revoked_counts_for_a_few_seconds_at_most(page: ServedPage, space: Space) -> None:
    token = token_of(space, "leaving")
    assert (await page.whoami(token)).status == 200
    space.delete("ServiceAccount", "leaving")
    space.gone("ServiceAccount", "leaving")
    page.time += 4.9
    assert (await page.whoami(token)).status == 200
    async with asyncio.timeout(60):
        while (await page.whoami(token)).status != 401:  # the real API server itself remembers tokens for ten seconds
            page.time += 5.1
            await asyncio.sleep(0.2)


@REAL
async def test_a_token_that_has_run_out_is_refused(page: ServedPage, space: Space) -> None:
    token = token_of(space, "late")
    assert (await page.whoami(sign_again(space.cluster, token, seconds=0))).status == 200
    assert (await page.whoami(sign_again(space.cluster, token, seconds=-86400))).status == 401


async def test_pause_and_resume_are_written_with_who_did_it(page: ServedPage, space: Space) -> None:
    token = allow(space, "pauser", PAUSE)
    who = (await page.whoami(token)).body["name"]
    answer = await page.act("pause", {"reason": "the network is being worked on"}, token)
    assert answer.status == 200, answer
    assert "nothing new begins" in answer.done
    assert (state(space)["paused"], state(space)["by"]) == ("true", who)
    assert state(space)["reason"] == "the network is being worked on"
    again = await page.act("pause", {"reason": "me too"}, token)
    assert f"is paused already, by {who} (the network is being worked on)" in again.done
    answer = await page.act("resume", {}, token)
    assert (answer.status, state(space)["paused"]) == (200, "false")
    assert (await page.act("resume", {}, token)).done == "Rescheduling was not paused: nothing has changed."
    assert len(page.heard) == 4


async def test_whoever_may_not_pause_does_not(page: ServedPage, space: Space, elsewhere: str) -> None:
    right_elsewhere = PAUSE if not is_embedded(space.cluster) else None
    token = allow(space, "other", PAUSE, elsewhere) if right_elsewhere else token_of(space, "other")
    for action in ("pause", "resume"):
        answer = await page.act(action, {}, token)
        assert answer.status == 403
        why = f"system:serviceaccount:{space.name}:other may not patch configmaps {STATE} in namespace {space.name}"
        assert why in answer.error
    assert states(space) == []
    assert page.heard == []


async def test_approval_is_written_with_who_gave_it(page: ServedPage, space: Space) -> None:
    waiting(space, "one")
    waiting(space, "two")
    token = allow(space, "approver", APPROVE)
    who = (await page.whoami(token)).body["name"]
    wanted = {"migrations": [{"namespace": space.name, "name": name} for name in ("one", "two")]}
    answer = await page.act("approve", wanted, token)
    assert answer.status == 200, answer
    assert answer.done.startswith("2 moves were approved: ")
    for name in ("one", "two"):
        found = space.api.get(f"{MIGRATIONS.format(space.name)}/{name}")
        assert found["metadata"]["annotations"][labels.APPROVED] == who
    assert (await page.act("approve", wanted, token)).done == "2 moves were approved before."
    wanted["migrations"].append({"namespace": space.name, "name": "three"})
    answer = await page.act("approve", {"migrations": wanted["migrations"][2:]}, token)
    assert (answer.status, answer.error) == (409, f"nothing was approved: {space.name}/three: it is gone")


async def test_moves_of_one_proposal_are_approved_together_or_not_at_all(
    page: ServedPage, space: Space, elsewhere: str
) -> None:
    other = Space(space.cluster, elsewhere)
    for where, name in ((space, "here"), (other, "there")):
        page.migrations.put(decode_migration(waiting(where, name, proposal={"name": "swap", "members": 2})))
    one = {"migrations": [{"namespace": space.name, "name": "here"}]}
    token = allow(space, "approver", APPROVE)
    answer = await page.act("approve", one, token)
    if is_embedded(space.cluster):
        assert answer.done.startswith("2 moves were approved")
        token = token_of(space, "other")
        answer = await page.act("approve", one, token)
    assert answer.status == 403
    assert f"patch podmigrations.rescheduler.io in namespace {elsewhere}" in answer.error
    if not is_embedded(space.cluster):
        assert "annotations" not in space.api.get(f"{MIGRATIONS.format(space.name)}/here")["metadata"]


async def test_whoever_may_not_approve_does_not(page: ServedPage, space: Space, elsewhere: str) -> None:
    waiting(space, "one")
    right_elsewhere = not is_embedded(space.cluster)
    token = allow(space, "other", APPROVE, elsewhere) if right_elsewhere else token_of(space, "other")
    answer = await page.act("approve", {"migrations": [{"namespace": space.name, "name": "one"}]}, token)
    assert answer.status == 403
    assert "annotations" not in space.api.get(f"{MIGRATIONS.format(space.name)}/one")["metadata"]


async def test_a_move_is_ordered_with_who_wants_it(page: ServedPage, space: Space, web: str, nodes: list[str]) -> None:
    token = allow(space, "mover", MIGRATE)
    who = (await page.whoami(token)).body["name"]
    source = space.get("Pod", web)["spec"]["nodeName"]
    target = next(node for node in nodes if node != source)
    answer = await page.act("migrate", {"namespace": space.name, "pod": web, "target": target}, token)
    assert answer.status == 200, answer
    (found,) = space.api.get(MIGRATIONS.format(space.name))["items"]
    assert f"Migration {name_of(found)} is ordered: pod {space.name}/{web} moves to {target}" in answer.done
    assert found["spec"]["reason"] == f"asked for by {who} on the page"
    assert (found["spec"]["pod"]["name"], found["spec"]["target"]) == (web, target)
    again = await page.act("migrate", {"namespace": space.name, "pod": web}, token)
    assert (again.status, "is Pending already" in again.error) == (409, True)
    for wrong, status, why in (
        ({"pod": web, "target": source}, 409, f"is on {source} already"),
        ({"pod": web, "method": "copy"}, 409, "one too many"),
        ({"pod": web, "target": "no-node"}, 404, "there is no node no-node"),
        ({"pod": "webb"}, 404, f"there is no pod webb in namespace {space.name}"),
    ):
        refused = await page.act("migrate", {"namespace": space.name, **wrong}, token)
        assert (refused.status, why in refused.error) == (status, True), refused


async def test_whoever_may_not_move_does_not(page: ServedPage, space: Space, web: str, elsewhere: str) -> None:
    right_elsewhere = not is_embedded(space.cluster)
    token = allow(space, "other", MIGRATE, elsewhere) if right_elsewhere else token_of(space, "other")
    answer = await page.act("migrate", {"namespace": space.name, "pod": web}, token)
    assert answer.status == 403
    assert f"may not create podmigrations.rescheduler.io in namespace {space.name}" in answer.error
    assert space.api.get(MIGRATIONS.format(space.name))["items"] == []


async def test_maintenance_is_marked_and_an_event_says_who_wanted_it(
    page: ServedPage, space: Space, nodes: list[str]
) -> None:
    one, other = nodes[:2]
    rule = {"apiGroups": [""], "resources": ["nodes"], "resourceNames": [one], "verbs": ["patch"]}

    def is_marked(node: str) -> bool:
        return bool(space.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"].get(labels.MAINTENANCE) == "true")

    async with allow_everywhere(space, "keeper", rule) as token:
        who = (await page.whoami(token)).body["name"]
        answer = await page.act("maintenance", {"node": one, "on": True}, token)
        assert (answer.status, is_marked(one)) == (200, True), answer
        assert f"Node {one} is under maintenance: it is cordoned now" in answer.done
        again = await page.act("maintenance", {"node": one, "on": True}, token)
        assert again.done == f"Node {one} is under maintenance already: nothing has changed."
        ended = await page.act("maintenance", {"node": one, "on": False}, token)
        assert (ended.status, is_marked(one)) == (200, False)
        told = [each["note"] for each in space.api.get(EVENTS)["items"] if each["regarding"].get("name") == one]
        assert f"Maintenance asked for by {who} on the page" in told
        assert f"End of maintenance asked for by {who} on the page" in told
        if not is_embedded(space.cluster):
            refused = await page.act("maintenance", {"node": other, "on": True}, token)
            assert (refused.status, is_marked(other)) == (403, False)
    refused = await page.act("maintenance", {"node": one, "on": True}, token_of(space, "guest"))
    assert (refused.status, is_marked(one)) == (403, False)
    assert f"may not patch nodes {one}" in refused.error


async def test_what_another_site_has_a_browser_send_is_refused(page: ServedPage, space: Space) -> None:
    token = allow(space, "pauser", PAUSE)
    form = "application/x-www-form-urlencoded"
    forged: list[tuple[int, dict[str, str]]] = [
        (403, {"X_Rescheduler_Action": ""}),  # a form cannot send it
        (403, {"X_Rescheduler_Action": "resume"}),
        (403, {"Origin": "https://evil.example"}),
        (403, {"Origin": "null"}),
        (403, {"Origin": f"http://{HERE}"}),  # another port of ours
        (403, {"Origin": f"http://{HERE}:{page.port}.evil.example"}),
        (403, {"Origin": f"http://user@{HERE}:{page.port}"}),
        (403, {"Sec_Fetch_Site": "cross-site"}),
        (403, {"Sec_Fetch_Site": "same-site"}),
        (415, {"Content_Type": "text/plain"}),
        (415, {"Content_Type": form}),
        (415, {"Content_Type": "multipart/form-data; boundary=x"}),
        (415, {"Content_Type": ""}),
        (403, {"Content_Type": form, "X_Rescheduler_Action": "", "Origin": "https://evil.example"}),
    ]
    for status, headers in forged:
        answer = await page.act("pause", {}, token, **headers)
        assert answer.status == status, (headers, answer)
        assert "access-control-allow-origin" not in answer.headers
    for method in ("GET", "OPTIONS", "PUT"):
        answer = await page.ask(method, "/api/actions/pause", {"Origin": "https://evil.example"})
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert states(space) == []
    assert (await page.act("pause", {}, token, Origin="", Sec_Fetch_Site="")).status == 200  # curl
    assert (await page.act("resume", {}, token, Content_Type="application/json; charset=utf-8")).status == 200


async def test_with_insecure_local_this_machine_needs_no_token(cluster: ClusterUnderTest, space: Space) -> None:
    async with served(cluster, space.name, local=True) as page:
        assert (await page.whoami()).body == {
            "name": "local",
            "groups": [],
            "may": {"pause": True, "approve": True, "migrate": True, "maintenance": True},
        }
        host = f"localhost:{page.port}"
        answer = await page.act("pause", {}, Host=host, Origin=f"http://{host}")
        assert (answer.status, state(space)["by"]) == (200, "local")
        # Who says who he is is taken at his word.
        assert (await page.act("resume", {}, NOBODY)).status == 401
        assert (await page.act("resume", {}, token_of(space, "guest"))).status == 403


async def test_with_insecure_local_foreign_names_and_proxies_get_nowhere(
    cluster: ClusterUnderTest, space: Space
) -> None:
    async with served(cluster, space.name, local=True) as page:
        foreign = ("evil.example", f"evil.example:{page.port}", "localhost.evil.example", f"{HERE}.evil.example", "")
        for host in foreign:
            rebound = await page.act("pause", {}, Host=host, Origin=f"http://{host}")
            assert rebound.status in (400, 403), host
            for path in ("/", "/api/whoami", "/metrics", "/livez"):
                assert (await page.ask("GET", path, {"Host": host})).status in (400, 403)
        for header in ("X_Forwarded_For", "Forwarded", "X_Real_Ip", "Via"):
            answer = await page.act("pause", {}, **{header: "203.0.113.7"})
            assert answer.status == 401, header
        for origin in ("https://evil.example", "http://localhost:1", "null"):
            assert (await page.act("pause", {}, Origin=origin)).status == 403
        assert states(space) == []


async def test_after_too_many_wrong_tokens_a_peer_has_to_wait(page: ServedPage, space: Space) -> None:
    known = token_of(space, "known")
    assert (await page.whoami(known)).status == 200
    for number in range(10):
        assert (await page.whoami(f"{NOBODY}{number}")).status == 401
    answer = await page.whoami(f"{NOBODY}!")
    assert (answer.status, answer.headers["retry-after"]) == (429, "61")
    assert (await page.whoami(token_of(space, "default"))).status == 429
    assert (await page.whoami(known)).status == 200  # whoever was known stays so: all may come through one proxy
    page.time += 61
    assert (await page.whoami(token_of(space, "default"))).status == 200
