"""Every command that a page shows exists: blocks are taken apart, and what reads `examples/` is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import commands
from tests.docs.pages import PAGES, ROOT, blocks, name_of, spans
from tests.docs.shell import LANGUAGES, CommandLine, command_lines, simple
from tests.docs.skipped import is_of_reader
from tests.support.cli import rescheduler

_SPAN = re.compile(r"(?:rescheduler|make|kubectl rescheduler) [a-z][^…]*")

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def lines_of(page: Path) -> Iterator[CommandLine]:
    for line in _all_lines_of(page):
        if line.words and not is_of_reader(line.place, " ".join(line.words)):
            yield line


def _all_lines_of(page: Path) -> Iterator[CommandLine]:
    for block in blocks(page):
        if block.language in LANGUAGES:
            yield from command_lines(block)
    for place, text in spans(page):
        if _SPAN.fullmatch(text) and not re.search(
            r"[A-Z]{3,}\b(?!=)|NAME", text
        ):  # NAMESPACE/POD stands for something
            yield from simple(place, text)


@every_page
def test_every_command_is_one(page: Path) -> None:
    found = [(each, commands.fault(each)) for each in lines_of(page)]
    assert [f"{each.place}: {' '.join(each.words)}: {why}" for each, why in found if why] == []


@every_page
def test_commands_on_the_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # what they write stays out of the checkout
    monkeypatch.chdir(tmp_path)
    for line in lines_of(page):
        name, *words = line.words
        if name == "rescheduler" and any(word.startswith("examples/") for word in words):
            ran = rescheduler(*words)
            assert ran.code in (0, 3), f"{line.place}: {ran.said}"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("rescheduler plan --treshold 70", "No such option"),
        ("rescheduler plam", "no command plam"),
        ("kubectl rescheduler plan --treshold 70", "No such option"),
        ("make tets", "no target tets"),
        ("make demo DEMMO=1", "no variable DEMMO"),
        ("kubectl -n x gett pods", "no verb gett"),
        ("helm instal x", "no verb instal"),
        ("helm upgrade x charts/kube-rescheduler --set imgae.tag=dev", "there is no imgae"),
        ("helm upgrade x charts/kube-rescheduler --set config.cpuThreshold=170", "170"),
        ("kubectl apply -f deploy/nothing.yaml", "not in the repository"),
        ("python -m tests.nothing", "no such module"),
        ("frobnicate", "does not know"),
    ],
)
def test_a_wrong_command_is_found(line: str, why: str) -> None:
    (found,) = simple("here", line)
    assert why in commands.fault(found)
