"""Every fenced block says what it is, and is sound: YAML and JSON by who reads them, Python by running it.

What is neither checked here nor a command is in the list of `skipped`, with the test that is about it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.fragments import Judge
from tests.docs.pages import PAGES, ROOT, blocks, name_of
from tests.docs.shell import command_lines
from tests.docs.skipped import CHECKED, SKIPPED, is_of_reader, is_skipped
from tests.support.embedded import EmbeddedControlPlane
from tests.support.migrations import pod_migrations

PYTHON = {
    "CONTRIBUTING.md": "tests/unit/test_docs.py",
    "docs/writing-a-strategy.md": "tests/docs/test_writing_a_strategy.py",
    "docs/embedded.md": "tests/docs/test_blocks.py",
}
"""Pages that show Python, and the test that runs it."""

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """With an embedded cluster that serves PodMigration."""
    with EmbeddedControlPlane() as cluster, pod_migrations(cluster):
        yield Judge(cluster)


@every_page
def test_every_block_says_its_language_and_is_checked_or_has_a_reason_not_to_be(page: Path) -> None:
    found = blocks(page)
    assert [each.place for each in found if not each.language] == [], "say which language it is"
    left = [each for each in found if each.language and each.language not in CHECKED and not is_skipped(each)]
    assert [f"{each.place}: {each.language}" for each in left] == [], "name its test in tests/docs/skipped.py"


@every_page
def test_no_block_stands_in_a_list(page: Path) -> None:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    found = [f"{name_of(page)}:{number}" for number, line in lines if re.match(r" +```", line)]
    assert found == [], "the site's Markdown takes a block only at the beginning of a line: put it below the list"


def test_every_reason_to_skip_a_block_is_needed() -> None:
    found = [block for page in PAGES for block in blocks(page) if block.language not in CHECKED]
    assert [each for each in SKIPPED if not any(each.means(block) for block in found)] == []


def test_every_block_that_is_no_code_has_a_test_or_a_reason() -> None:
    for each in SKIPPED:
        file, _, name = each.test.partition("::")
        assert bool(each.reason) != bool(name), each
        assert not name or f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), each


@every_page
def test_every_yaml_and_json_is_sound(page: Path, judge: Judge) -> None:
    texts = [(each.place, each.text) for each in blocks(page) if each.language in ("yaml", "json")]
    lines = [line for each in blocks(page) if each.language in ("bash", "sh") for line in command_lines(each)]
    texts += [(line.place, line.fed) for line in lines if line.fed]
    own = [(place, text) for place, text in texts if not is_of_reader(place, text)]
    assert [f"{place}: {fault}" for place, text in own for fault in judge.faults(text)] == []


def test_every_python_is_run_by_a_test() -> None:
    pages = {name_of(page) for page in PAGES for block in blocks(page) if block.language == "python"}
    assert pages == set(PYTHON), "have a test run it, and name that test here"
    for test in PYTHON.values():
        assert (ROOT / test).is_file()


async def test_the_embedded_cluster_is_used_as_its_page_says() -> None:
    (block,) = [each for each in blocks(ROOT / "docs" / "embedded.md") if each.language == "python"]
    code = compile(block.text, block.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, object] = {}
    await eval(code, names)
    assert "cluster" in names


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
        ("apiVersion: v1\nkind: Pood\nmetadata: {name: a}", "knows this kind"),
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
