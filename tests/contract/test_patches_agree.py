"""The embedded cluster patches as the real one does, on random patches.

The real API server patches a Deployment in a dry run. Our functions patch the same Deployment, and the result goes to
the real API server as a replacement, also in a dry run: so defaults and rules are the same, and what is left to differ
is the patching alone. Where the real one refuses, we must refuse with the same code, there or here.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from kubemini.kinds import DEPLOYMENT
from kubemini.patches import patched
from kubemini.refusals import Refusal
from tests.support.random_patches import NAMES, RandomPatches, deployment
from tests.testbed.api import PATCHES, Api, ApiError, Json
from tests.testbed.cluster import ControlPlane
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until

CASES = 150
pytestmark = pytest.mark.cluster

Answer = tuple[int, Any]


@pytest.fixture
def path(control_plane: ControlPlane) -> Iterator[str]:
    """A Deployment that no controller touches any more."""
    api = control_plane.api
    with own_namespace(api, "patches-agree") as namespace:
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        owners = [api.post(maps, {"metadata": {"name": name}})["metadata"]["uid"] for name in NAMES[:2]]
        deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        api.post(deployments, deployment("web", owners))
        path = f"{deployments}/web"
        until("it is observed", lambda: api.get(path)["status"].get("observedGeneration") == 1)
        yield path
        api.patch(path, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("form", ["merge", "json", "strategic"])
def test_a_random_patch_does_the_same_on_both_clusters(control_plane: ControlPlane, path: str, form: str) -> None:
    owners = [each["uid"] for each in control_plane.api.get(path)["metadata"]["ownerReferences"]]
    patches = RandomPatches(20261115, owners)
    make: dict[str, Callable[[], Json | list[Json]]] = {
        "merge": patches.merge,
        "json": patches.operations,
        "strategic": patches.strategic,
    }
    codes: Counter[int] = Counter()
    for number in range(CASES):
        patch = make[form]()
        real, ours = both_answers(control_plane.api, path, patch, form)
        codes[real[0]] += 1
        assert ours == real, f"case {number} of {form}: {json.dumps(patch)}"
    print(f"{form}: {CASES} patches, the answers by code: {dict(codes)}")
    assert codes[200] > CASES / 5
    assert len(codes) > 1


def both_answers(api: Api, path: str, patch: Json | list[Json], form: str) -> tuple[Answer, Answer]:
    """What the real one says, and what we say, to the same version."""
    while True:
        before = api.get(path)
        real = answer(partial(api.patch, f"{path}?dryRun=All", patch, form))
        ours = answer(partial(replaced, api, path, copy.deepcopy(before), patch, form))
        if api.get(path)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]:
            return real, ours  # else a controller was faster


def replaced(api: Api, path: str, before: Json, patch: Json | list[Json], form: str) -> Json:
    """What our functions make of it, as the real API server would keep it."""
    untouched = copy.deepcopy(before)
    after = patched(DEPLOYMENT, PATCHES[form], json.dumps(patch).encode(), before)
    assert before == untouched
    return api.put(f"{path}?dryRun=All", after)


def answer(ask: Callable[[], Json]) -> Answer:
    """The code, and the object as far as patches may reach it."""
    try:
        found = ask()
    except (ApiError, Refusal) as refused:
        # Of two things that are wrong the API server tells any one: 500 and 400 are both a patch without sense.
        return 400 if refused.code == 500 else refused.code, None
    for key in ("managedFields", "generation"):
        found["metadata"].pop(key, None)
    return 200, found
