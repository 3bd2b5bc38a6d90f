"""The embedded cluster applies as the real one does, in random stories of several managers.

Each step goes to the real API server and to our functions: somebody applies, forces, patches in another way, or has
it forgotten who owns what. After each, both must have answered with the same code and the same conflicts, and both
must have the same object and the same owners of every field.
"""

from __future__ import annotations

import contextlib
import copy
import json
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kubemini.api import Api as EmbeddedApi
from kubemini.api import Target
from kubemini.apply import ApplyOptions, apply
from kubemini.custom_kind import kinds_of
from kubemini.field_sets import Fields, from_tree
from kubemini.kinds import NAMESPACE, REPLICA_SET, Kind
from kubemini.managed_fields import BEFORE_FIRST_APPLY
from kubemini.patches import MERGE, patched
from kubemini.refusals import Refusal
from tests.support.random_applies import DEFINITION, RandomApplies, Step
from tests.testbed.api import Api, ApiError, Json
from tests.testbed.cluster import ControlPlane
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until

STORIES, STEPS = 30, 10
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
pytestmark = pytest.mark.cluster


@dataclass(frozen=True)
class Answer:
    """What is said to a step, as far as both clusters must say the same."""

    code: int
    conflicts: tuple[tuple[str, str], ...] = ()
    body: Any = None
    owners: Any = None


@pytest.fixture(autouse=True)
def not_too_old(control_plane: ControlPlane) -> None:
    """v1.34 differed in one story about who owns a status after a forced apply; v1.36 and v1.37 agree with us."""
    if control_plane.version.startswith("v1.34."):
        pytest.skip("the embedded apply is that of v1.36 and later")


async def test_a_story_of_a_replica_set_goes_the_same_way_on_both(control_plane: ControlPlane) -> None:
    with own_namespace(control_plane.api, "applies-agree") as namespace:
        path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
        stories = RandomApplies(20261115)
        told = [stories.replica_set_steps(f"web-{number}", STEPS) for number in range(STORIES)]
        await tell(control_plane.api, path, REPLICA_SET, told)


async def test_a_story_of_a_custom_resource_goes_the_same_way_on_both(control_plane: ControlPlane) -> None:
    api = control_plane.api
    with own_namespace(api, "applies-agree") as namespace, defined(api) as definition:
        kind = kinds_of(definition)[0]
        path = f"/apis/{kind.api_version}/namespaces/{namespace}/stories"
        stories = RandomApplies(20261115)
        told = [stories.story_steps(f"story-{number}", STEPS, kind.group) for number in range(STORIES)]
        await tell(api, path, kind, told)


async def tell(api: Api, path: str, kind: Kind, stories: list[list[Step]]) -> None:
    codes: Counter[int] = Counter()
    for steps in stories:
        embedded = EmbeddedApi()
        await embedded.create(Target(NAMESPACE, name="default"), {"metadata": {"name": "default"}})
        name = next(step.body["metadata"]["name"] for step in steps if "name" in step.body["metadata"])
        for number, step in enumerate(steps):
            real = really(api, f"{path}/{name}", step)
            codes[real.code] += 1
            if real.code == 0:
                break
            ours = await in_process(embedded, Target(kind, "default", name, step.subresource, step.manager), step)
            assert ours == real, f"step {number}: {step}"
        with contextlib.suppress(ApiError):
            api.patch(f"{path}/{name}", {"metadata": {"finalizers": None}})
    print(f"{kind.name}: {len(stories)} stories, the answers by code: {dict(codes)}")
    assert codes[200] > sum(codes.values()) / 2
    assert codes[409] > STORIES


def really(api: Api, path: str, step: Step) -> Answer:
    """What the real API server says; code 0 where it trips over what it has itself made null."""
    subresource = f"/{step.subresource}" if step.subresource else ""
    query = f"?fieldManager={step.manager}" + ("&force=true" if step.force else "")
    try:
        found = api.patch(f"{path}{subresource}{query}", step.body, "apply" if step.apply else "merge")
    except ApiError as error:
        if 'must be of type object: "null"' in error.message or 'must be of type array: "null"' in error.message:
            return Answer(0)
        return Answer(error.code, conflicts_in(error.causes))
    return answer(found)


async def in_process(api: EmbeddedApi, target: Target, step: Step) -> Answer:
    """What our own functions say."""
    body = copy.deepcopy(step.body)
    try:
        if step.apply:
            found, _ = await apply(api, target, body, ApplyOptions(step.manager, step.force))
        else:
            patch = json.dumps(body).encode()
            found = await api.edit(target, lambda before: patched(target.kind, MERGE, patch, before))
    except Refusal as refusal:
        return Answer(refusal.code, conflicts_in(refusal.details.get("causes", [])))
    return answer(found)


def answer(found: Json) -> Answer:
    metadata = found["metadata"]
    owners: dict[tuple[str, ...], Fields] = {}
    for entry in metadata.get("managedFields", ()):
        if entry["manager"] != "kube-controller-manager":
            who = (in_our_words(entry["manager"]), entry["operation"], entry.get("subresource", ""))
            owners[who] = from_tree(entry["fieldsV1"])
    body = {key: metadata[key] for key in ("labels", "finalizers") if key in metadata} | {"spec": found.get("spec")}
    if found["kind"] == "Story":  # that of a ReplicaSet is its controller's
        body["status"] = found.get("status")
    return Answer(200, (), body, owners)


def conflicts_in(causes: list[Json]) -> tuple[tuple[str, str], ...]:
    wanted = (cause for cause in causes if cause["reason"] == "FieldManagerConflict")
    return tuple(sorted((in_our_words(cause["message"]), cause["field"]) for cause in wanted))


def in_our_words(text: str) -> str:
    """Whoever wrote before the first apply has another name here: kubectl would take the real one for its own."""
    return text.replace("before-first-apply", BEFORE_FIRST_APPLY)


@contextlib.contextmanager
def defined(api: Api) -> Iterator[Json]:
    """The stories' definition, in a group that no other run uses."""
    definition = copy.deepcopy(DEFINITION)
    group = f"{secrets.token_hex(4)}.{definition['spec']['group']}"
    definition["spec"]["group"] = group
    definition["metadata"]["name"] = f"stories.{group}"
    api.post(DEFINITIONS, definition)
    path = f"{DEFINITIONS}/stories.{group}"
    until("it is served", lambda: is_served(api, group))
    yield definition
    api.delete(path)


def is_served(api: Api, group: str) -> bool:
    try:
        return bool(api.get(f"/apis/{group}/v1/stories")["items"] == [])
    except ApiError:
        return False
