"""What is wrong with a command line of the documentation, without running it.

Ours are parsed by the command's own parser, so that no page shows a flag that does not exist. Of `make` the targets and
variables are looked up, of kubectl and helm the verbs, of helm also the values that are set; what any command names in
the repository must be there. Programs of others are known by name alone.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import click
import yaml

from rescheduler.cli.main import root
from tests.docs.fragments import of_values
from tests.docs.pages import ROOT
from tests.docs.shell import CommandLine


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KUBECTL = _words(
    "annotate api-resources apply auth cluster-info config cordon create debug delete describe diff drain edit events "
    "exec explain expose get label logs patch port-forward proxy replace rollout run scale set taint top uncordon "
    "version wait"
)
HELM = _words(
    "dependency get history install lint list package pull push registry repo rollback search show status template "
    "test uninstall upgrade verify version"
)
OTHERS = _words(
    "awk aws az cat cd chmod cosign cp curl diff docker echo export gcloud git grep head helm jq k3d k3s kind ls "
    "minikube mkdir mktemp mv openssl pip pipx podman pre-commit printf rm sed sha256sum sleep sort source sudo "
    "tail tar tee test true uniq unzip uv uvx wc wget xargs gh go npm syft"
)
"""Programs of others, and what every shell has: nothing is known of their flags here."""
_IN_REPOSITORY = re.compile(r"(?:\./)?((?:src|docs|deploy|charts|examples|tests|\.ci|\.github)/[\w./-]+)")


def fault(line: CommandLine) -> str:
    """What is wrong; empty if nothing is."""
    name, *words = line.words
    name = name.removeprefix(".venv/bin/").removeprefix("./.venv/bin/")
    for word in words:
        found = _IN_REPOSITORY.fullmatch(word.split("=")[-1])
        if found and not _is_there(found[1]):
            return f"names {found[1]}, which is not in the repository"
    judge = _JUDGES.get(name)
    if judge is not None:
        return judge(words)
    if name in OTHERS or _is_ours(name):
        return ""
    return f"runs {name}, which tests/docs/commands.py does not know: mend the page, or add it there"


def _is_there(path: str) -> bool:
    return (ROOT / path).exists() or bool("*" in path and list(ROOT.glob(path)))


def _is_ours(name: str) -> bool:
    """A file of the repository that is run."""
    return "/" in name and (ROOT / name).is_file()


def parsed(words: list[str]) -> str:
    """What our own parser says of the words after `rescheduler`; command words alone only name a command."""
    command: click.Command = root
    context = click.Context(root, info_name="rescheduler", **root.context_settings)  # click keeps what help is called
    left = [re.sub(r"^(-[A-Za-z])=", r"\1", word) for word in words]  # as the command itself takes -o=json
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        found = command.get_command(context, left[0])
        if found is None:
            return f"rescheduler has no command {left[0]}"
        command, left = found, left[1:]
    try:
        if left:
            command.make_context(command.name, left, parent=context, resilient_parsing=False)
    except click.exceptions.Exit:
        return ""  # --help and --version
    except click.ClickException as error:
        return error.format_message()
    return ""


def _make(words: list[str]) -> str:
    targets, variables = _makefile()
    for word in words:
        name, given, _ = word.partition("=")
        if given and name not in variables:
            return f"make: the Makefile has no variable {name}"
        if not given and not word.startswith("-") and word not in targets:
            return f"make: there is no target {word}"
    return ""


@cache
def _makefile() -> tuple[frozenset[str], frozenset[str]]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE)
    assigned = re.findall(r"^([A-Z_]+)\s*[?:]?=", text, re.MULTILINE)
    return frozenset(targets), frozenset([*assigned, *re.findall(r"\$\((?:if \$\()?([A-Z_]+)\)", text)])


def _kubectl(words: list[str]) -> str:
    verbs = _without_leading_flags(words)
    if verbs[:1] == ["rescheduler"]:
        return parsed(verbs[1:])
    if not verbs or verbs[0] not in KUBECTL:
        return f"kubectl has no verb {verbs[0] if verbs else ''}"
    return ""


def _helm(words: list[str]) -> str:
    verbs = _without_leading_flags(words)
    if not verbs or verbs[0] not in HELM:
        return f"helm has no verb {verbs[0] if verbs else ''}"
    given = [after for word, after in pairwise(words) if word in ("--set", "--set-string")]
    return next((f"--set {each}: {why}" for each in given if (why := of_values(_nested(each)))), "")


def _nested(assignment: str) -> dict[str, Any]:
    """`a.b=1` as a file of values has it."""
    path, _, value = assignment.partition("=")
    found: Any = yaml.safe_load(value)
    for part in reversed(path.split(".")):
        found = {part: found}
    return dict(found)


_WITH_VALUE = ("-n", "--namespace", "--context", "--kubeconfig", "--kube-context")


def _without_leading_flags(words: list[str]) -> list[str]:
    left = list(words)
    while left and left[0].startswith("-"):
        left = left[2:] if left[0] in _WITH_VALUE else left[1:]
    return left


def _python(words: list[str]) -> str:
    if words[:1] == ["-m"]:
        module = words[1] if len(words) > 1 else ""
        known = module in ("venv", "pip", "build", "mkdocs") or _is_module(module)
        return "" if known else f"python -m {module}: there is no such module"
    if words and words[0].endswith(".py") and not (ROOT / words[0]).is_file():
        return f"python {words[0]}: there is no such file"
    return ""


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


_JUDGES: dict[str, Callable[[list[str]], str]] = {
    "rescheduler": parsed,
    "kubectl-rescheduler": parsed,
    "make": _make,
    "kubectl": _kubectl,
    "helm": _helm,
    "python": _python,
    "python3": _python,
}
