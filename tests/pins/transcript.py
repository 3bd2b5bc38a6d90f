"""Runs command lines in this process and writes down what they print, as a transcript that is the same everywhere."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

from click.testing import CliRunner

from rescheduler import __version__
from rescheduler.cli.main import run

ROOT = Path(__file__).parents[2]
INPUTS = "tests/pins/inputs"
FOLDERS = {name: f"{INPUTS}/{name}" for name in ("clusters", "configs", "kubeconfigs", "policies")}

_UNSET = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "NO_COLOR", "DISPLAY", "WAYLAND_DISPLAY")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_VARYING = (
    (re.compile(re.escape(__version__)), "VERSION"),
    (re.compile(r"\bpython \d+\.\d+\.\d+\S*, \w+/\w+\)"), "python PYTHON, PLATFORM)"),
    (re.compile(r'"(python|implementation|platform|commit)": (null|"[^"]*")'), r'"\1": "VARIES"'),
    (re.compile(r'^(    "[\w-]+": )"[^"]*"(,?)$', re.MULTILINE), r'\1"VARIES"\2'),
)
"""What depends on the release and on the machine, in what `version` prints."""
_RACES = re.compile(r"(cannot reach \S+): .* \(Unreachable on \S+\)")
"""Several requests fail at the same time, and the text of the error is the operating system's."""


def transcript(command_lines: Iterable[str], columns: int = 80) -> str:
    """Each command line with its exit code and all that it prints."""
    return "\n".join(_entry(line, columns) for line in command_lines)


def _entry(command_line: str, columns: int) -> str:
    line = command_line.format(**FOLDERS).strip()
    code, out, said = _run(line, columns)
    if "version" in line:
        for pattern, name in _VARYING:
            out = pattern.sub(name, out)
    said = _RACES.sub(r"\1: REASON", said)
    parts = [f"$ {line}\n[exit code {code}]\n"]
    parts += [f"[{stream}]\n{text}" for stream, text in (("stdout", out), ("stderr", said)) if text]
    return "".join(part if part.endswith("\n") else f"{part}\n[no newline at the end]\n" for part in parts)


def _run(line: str, columns: int) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a command line, run at the root of the checkout."""
    words = shlex.split(line)
    stdin = b""
    if "<" in words:
        stdin = (ROOT / words.pop()).read_bytes()
        words.remove("<")
    program = ["kubectl-rescheduler"] if words[:2] == ["kubectl", "rescheduler"] else ["rescheduler"]
    arguments = words[2:] if words[0] == "kubectl" else words[1:]
    env: dict[str, str | None] = dict.fromkeys((*_UNSET, *_PROXIES, *(name.lower() for name in _PROXIES)))
    env |= {"COLUMNS": str(columns), "HOME": str(ROOT / INPUTS), "TERM": "dumb"}
    argv = patch.object(sys, "argv", program)
    with chdir(ROOT), argv, CliRunner().isolation(input=stdin, env=env) as (out, said, _):
        code = run(arguments)
    return code, out.getvalue().decode(), said.getvalue().decode()
