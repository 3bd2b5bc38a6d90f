"""Every fenced block says what it is, and is checked: YAML and JSON by `test_yaml.py`, Python by running it.

What is neither checked here nor a command is in the list of `skipped`, with the test that is about it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks, name_of
from tests.docs.skipped import CHECKED, SKIPPED, is_skipped

PYTHON = {
    "CONTRIBUTING.md": "tests/unit/test_docs.py",
    "docs/writing-a-strategy.md": "tests/docs/test_writing_a_strategy.py",
    "docs/writing-a-guard.md": "tests/docs/test_writing_a_rule.py",
    "docs/writing-a-predicate.md": "tests/docs/test_writing_a_rule.py",
    "docs/writing-a-configuration-field.md": "tests/docs/test_writing_a_configuration_field.py",
    "docs/embedded.md": "tests/docs/test_blocks.py",
}
"""Pages that show Python, and the test that runs it."""

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


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
