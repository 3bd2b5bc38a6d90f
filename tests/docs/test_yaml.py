"""Every YAML and JSON of the documentation is accepted by what would read it; see `fragments`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.fragments import Judge
from tests.docs.pages import PAGES, blocks, name_of
from tests.docs.shell import command_lines
from tests.docs.skipped import is_of_reader
from tests.support.migrations import pod_migrations
from tests.testbed.cluster import ControlPlane

pytestmark = pytest.mark.cluster  # a real API server validates


@pytest.fixture(scope="module")
def judge(control_plane: ControlPlane) -> Iterator[Judge]:
    """With a cluster that serves PodMigration."""
    with pod_migrations(control_plane):
        yield Judge(control_plane)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_yaml_and_json_is_sound(page: Path, judge: Judge) -> None:
    texts = [(each.place, each.text) for each in blocks(page) if each.language in ("yaml", "json")]
    lines = [line for each in blocks(page) if each.language in ("bash", "sh") for line in command_lines(each)]
    texts += [(line.place, line.fed) for line in lines if line.fed]
    own = [(place, text) for place, text in texts if not is_of_reader(place, text)]
    assert [f"{place}: {fault}" for place, text in own for fault in judge.faults(text)] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kind: ReschedulerConfiguration\napiVersion: rescheduler.io/v1alpha1\ncpuTreshold: 1", "cpuTreshold"),
        ("cpuThreshold: 180", "180"),
        ("web:\n  prot: 80", "prot"),
        ("config:\n  web: {prot: 80}", "prot"),
        ("replicas: 2\nimage: {tga: x}", "image.tga"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}", "containers"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: b}], x: 1}", "x"),
        ("metadata: {labels: {a b: c}}", "a b"),
        ("apiVersion: rescheduler.io/v1alpha1\nkind: PodMigration\nmetadata: {name: a}\nspec: {pod: {}}", "name"),
        ("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nspec: {podselector: {}}", "podselector"),
        ("- {apiGroups: [''], resources: [secrets], verbs: [list]}", "does not grant"),
        ("apiVersion: v1\nkind: Pood\nmetadata: {name: a}", "does not know this kind"),
        ("a: [", "does not parse"),
        ("", "is empty"),
    ],
)
def test_what_is_wrong_is_found(judge: Judge, text: str, why: str) -> None:
    faults = list(judge.faults(text))
    assert faults
    assert why in faults[0]


@pytest.mark.parametrize(
    "text",
    [
        "cpuThreshold: 70\n---\nweb: {port: 80}",
        "replicas: 3\nconfig:\n  cpuThreshold: 70\nimage: {tag: x}",
        "metadata:\n  labels: {a: b}",
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {podSelector: {}}",
        "- {apiGroups: [''], resources: [pods], verbs: [list]}",
    ],
)
def test_what_is_right_is_left_alone(judge: Judge, text: str) -> None:
    assert list(judge.faults(text)) == []
