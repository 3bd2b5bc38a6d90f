"""What the pages that write an extension have in common: their file is put in place, and their blocks are run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import ROOT, Block, blocks
from tests.docs.shell import shown
from tests.support.cli import succeeded


def of_language(page: Path, language: str) -> list[Block]:
    return [each for each in blocks(page) if each.language == language]


@contextmanager
def in_place(page: Path, package: ModuleType, name: str, folder: Path) -> Iterator[None]:
    """The page's first Python block, as if it were a module of the package; the working directory has `examples/`."""
    (folder / "extension").mkdir()
    (folder / "extension" / f"{name}.py").write_text(of_language(page, "python")[0].text, encoding="utf-8")
    (folder / "examples").symlink_to(ROOT / "examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package, "__path__", [*package.__path__, str(folder / "extension")])
        patch.chdir(folder)
        forget(package)
        yield
    forget(package)


def forget(package: ModuleType) -> None:
    """Let the package find its modules again."""
    for each in vars(package).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


def run_its_tests(page: Path) -> int:
    """Run the tests of the page's second Python block; how many there are."""
    block = of_language(page, "python")[1]
    names: dict[str, object] = {}
    exec(compile(block.text, block.place, "exec"), names)
    tests = [each for name, each in names.items() if name.startswith("test_") and callable(each)]
    for each in tests:
        each()
    return len(tests)


def check_its_console(page: Path) -> None:
    """Run the commands of the page's console; their output is what is shown."""
    (console,) = of_language(page, "console")
    for each in shown(console):
        ran = succeeded(*shlex.split(each.command)[1:])
        assert ran.said + ran.out == each.output, each.place
