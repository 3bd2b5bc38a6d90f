"""Flags of helm and kubectl that pages show exist: the real programs say so themselves.

Both are the pinned ones of the test bed. What helm would install is rendered, too, with the values that the page sets.
Of other programs (docker, kind, git) nothing is here to ask: `commands` knows their names.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest

from tests.docs.pages import PAGES, blocks
from tests.docs.shell import LANGUAGES, CommandLine, command_lines
from tests.testbed.binaries import binaries
from tests.testbed.helm import CHART, Helm

INSTALLING = ("install", "upgrade", "template")
WITH_VALUE = ("-n", "--namespace", "--context", "--kubeconfig")
SUBCOMMANDS = ("create", "rollout", "config", "auth", "set", "get", "show")  # whose second word may be a command, too


def lines_of(program: str) -> list[CommandLine]:
    shell = [block for page in PAGES for block in blocks(page) if block.language in LANGUAGES]
    found = [line for block in shell for line in command_lines(block) if line.words]
    return [line for line in found if line.words[0] == program]


def words_of(line: CommandLine) -> tuple[list[str], list[str]]:
    """The command, without flags; and its flags, without values."""
    verbs, flags, skip = list[str](), list[str](), False
    for word in line.words[1:]:
        if skip or word == "-":
            skip = False
        elif word == "--":
            break
        elif word.startswith("-"):
            flags.append(re.split(r"[= ]", word)[0] if word.startswith("--") else word[:2])
            skip = word in WITH_VALUE
        else:
            verbs.append(word)
    return verbs, flags


def unknown(line: CommandLine, help_of: Callable[..., str]) -> list[str]:
    """Flags that the program's own help does not have."""
    verbs, flags = words_of(line)
    command = verbs[:2] if verbs[0] in SUBCOMMANDS else verbs[:1]
    known = set(re.findall(r"(?<![\w-])(--?[a-zA-Z][a-z0-9-]*)", help_of(*command)))
    return [flag for flag in flags if flag not in known]


@cache
def helm_help(*command: str) -> str:
    return Helm()(*command, "--help")


@cache
def kubectl_help(*command: str) -> str:
    """The help of a command, or of the one above it, and the options that all have."""
    texts = [_kubectl(*command, "--help"), _kubectl("options")]
    return "\n".join(texts)


def _kubectl(*words: str) -> str:
    ran = subprocess.run([binaries()["kubectl"], *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_every_flag_of_helm_is_one() -> None:
    lines = lines_of("helm")
    assert lines
    assert [f"{each.place}: {wrong}" for each in lines if (wrong := unknown(each, helm_help))] == []


def test_what_helm_would_install_is_rendered_with_the_values_of_the_page() -> None:
    helm, seen = Helm(), set[tuple[str, ...]]()
    for line in lines_of("helm"):
        if words_of(line)[0][0] not in INSTALLING or f"charts/{CHART.name}" not in line.words:
            continue
        values = [word for pair in pairwise(line.words) if pair[0] in ("--set", "--set-string") for word in pair]
        if tuple(values) not in seen:
            assert helm.rendered({}, *values), line.place
        seen.add(tuple(values))
    assert len(seen) > 1


def test_every_flag_of_kubectl_is_one() -> None:
    ours = [line for line in lines_of("kubectl") if "rescheduler" not in line.words[1:2]]
    assert ours
    assert [f"{each.place}: {wrong}" for each in ours if (wrong := unknown(each, kubectl_help))] == []


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("helm install x charts/y --create-namespce", ["--create-namespce"]),
        ("helm -n x install y charts/z --set a=b", []),
        ("helm upgrade x charts/y --reset-then-reuse-values --namespace=z", []),
    ],
)
def test_a_flag_that_does_not_exist_is_found(words: str, wrong: list[str]) -> None:
    assert unknown(CommandLine("here", tuple(words.split())), helm_help) == wrong
