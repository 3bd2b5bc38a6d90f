"""The command line as a whole: help, hints, exit codes, colours, broken pipes, Ctrl-C, and bugs of ours."""

from __future__ import annotations

import ast
import inspect
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from rescheduler.cli import lazy
from rescheduler.cli import main as root
from tests.support import dumps
from tests.support.cli import rescheduler, succeeded

HEAVY = {"aiohttp", "cryptography", "numpy", "prometheus_client", "pydantic", "rich", "structlog"}
PROGRAM = (sys.executable, "-m", "rescheduler")


def test_no_line_of_a_command_is_cut_in_the_help_of_its_group_on_80_columns() -> None:
    context = click.Context(root.root)
    commands = {name: root.root.get_command(context, name) for name in root.root.list_commands(context)}
    groups = {name: found for name, found in commands.items() if isinstance(found, click.Group)}
    assert {"config", "maintenance"} <= groups.keys()
    for name, group in groups.items():
        listed = succeeded(name, "--help", env={"COLUMNS": "80"}).out.partition("\nCommands:\n")[2]
        lines = dict(line.split(maxsplit=1) for line in listed.splitlines() if line)
        assert lines.keys() == group.commands.keys(), "each has one line"
        assert [line for line in lines.values() if not line.endswith(".") or line.endswith("...")] == []


def test_completion_completes_commands_and_flags() -> None:
    def completed(words: str, at: int) -> str:
        env = {"_RESCHEDULER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        return rescheduler(env=env).out

    assert {"plain,plan"} == set(completed("rescheduler pl", 1).split())
    assert "plain,--cpu-threshold" in completed("rescheduler plan --cpu", 2)
    assert "plain,yaml" in completed("rescheduler plan -o y", 3)


def test_a_bug_of_ours_is_told_as_one_and_verbose_shows_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: object, **rest: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("rescheduler.cli.version.format_document", broken)
    assert root.run(["version", "-o", "json"]) == 1
    quiet = capsys.readouterr().err
    assert "this is a bug of rescheduler, please report it: ZeroDivisionError: division by zero" in quiet
    assert "Traceback" not in quiet
    assert root.run(["version", "-o", "json", "-v"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    file = dumps.written(tmp_path / "c.json", [dumps.node(f"n-{n}") for n in range(3)], dumps.pdb("x", 1))
    for args in (["plan", "-f", file, "--now", dumps.NOW], ["snapshot", "-f", file]):
        reading, writing = os.pipe()
        os.close(reading)
        ran = subprocess.run([*PROGRAM, *args], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writing)
        assert (ran.returncode, ran.stderr) == (141, "")


def _heed_interrupts() -> None:
    """Whoever starts the tests in the background may have told them to ignore interrupts; children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_control_c_ends_it_quietly_with_130() -> None:
    running = subprocess.Popen(
        [*PROGRAM, "plan", "-f", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - there is no other thread here, and no other way
    )
    with running:
        assert running.stdin is not None
        # A pipe holds 64 KiB, so when the megabyte has gone into it, most of it was read: it waits for more.
        running.stdin.write(b'{"kind": "List", "items": [' + b" " * (1 << 20))
        running.stdin.flush()
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        said = running.stderr.read()
        assert (running.wait(), said.strip()) == (130, b"")


def _on_a_terminal(args: list[str], env: dict[str, str]) -> str:
    master, slave = pty.openpty()
    ran = subprocess.Popen([*PROGRAM, *args], stdout=slave, stderr=slave, env={**os.environ, **env})
    os.close(slave)
    out = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        out += chunk
    os.close(master)
    assert ran.wait() == 0
    return out.decode()


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    file = dumps.written(tmp_path / "c.json", dumps.hot_cluster())
    args = ["plan", "-f", file, "--now", dumps.NOW]
    wide = {"COLUMNS": "100", "TERM": "xterm"}
    assert "\x1b[1mNAMESPACE" in _on_a_terminal(args, wide)
    piped = succeeded(*args, env=wide)
    assert "\x1b" not in piped.out + piped.said


def test_without_colours_no_line_of_the_plan_is_longer_than_a_terminal_of_100_columns(tmp_path: Path) -> None:
    pods = dumps.deployment("a-deployment-with-quite-a-long-name", ["a"] * 9, cpu="400m", namespace="some-namespace")
    file = dumps.written(tmp_path / "c.json", dumps.node("a"), dumps.node("b"), pods, dumps.pdb("x", 1))
    text = _on_a_terminal(["plan", "-f", file, "--now", dumps.NOW], {"COLUMNS": "100", "NO_COLOR": "1"})
    assert "\x1b" not in text
    lines = text.replace("\r\n", "\n").splitlines()
    assert max(len(line) for line in lines) <= 100
    assert any(line.startswith("    a is at 90.0% CPU") for line in lines)


def test_an_ascii_terminal_gets_ascii(tmp_path: Path) -> None:
    file = dumps.written(tmp_path / "c.json", dumps.hot_cluster())
    twice = "[run([*sys.argv[1:], '-o', form]) for form in ('table', 'json')]"
    code = f"import sys; from rescheduler.cli.main import run; {twice}"
    command = [sys.executable, "-c", code, "plan", "-f", file, "--now", dumps.NOW]
    ran = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert b"hot nodes 1 -> 0" in ran.stdout
    assert b"###" in ran.stdout
    assert json.loads(ran.stdout[ran.stdout.index(b"{") :])["kind"] == "Plan"


def test_help_and_version_do_not_wait_for_what_they_do_not_need() -> None:
    lines = ("--help", "--version", "version", "version -o json", "nonesuch")
    code = "from rescheduler.cli.main import run; [run(line.split()) for line in sys.argv[1:]]"
    assert not _imported_by(*lines, code=code) & HEAVY


def test_completing_a_command_does_not_import_the_commands() -> None:
    by_a_shell = {"_RESCHEDULER_COMPLETE": "bash_complete", "COMP_WORDS": "rescheduler pl", "COMP_CWORD": "1"}
    by_kubectl = "from rescheduler.cli.completion import answer; [answer([each]) for each in sys.argv[1:]]"
    for imported in (_imported_by(**by_a_shell), _imported_by("", "pl", "--ver", code=by_kubectl)):
        assert "click.shell_completion" in imported
        assert not imported & {*HEAVY, "msgspec", "yaml", "asyncio", "rescheduler.app", "rescheduler.cli.plan"}


def test_completing_flags_and_their_help_does_not_import_what_only_the_work_needs() -> None:
    completed = "from rescheduler.cli.completion import answer; [answer([each, '--']) for each in sys.argv[1:]]"
    helped = "from rescheduler.cli.main import run; [run([each, '--help']) for each in sys.argv[1:]]"
    commands = root.root.list_commands(click.Context(root.root))
    for code in (completed, helped):
        imported = _imported_by(*commands, code=code)
        assert {f"rescheduler.cli.{name}" for name in ("run", "plan", "move", "config")} <= imported
        assert not imported & HEAVY


def test_what_is_imported_late_is_what_the_type_checker_takes_it_for() -> None:
    (choice,) = (each for each in ast.parse(inspect.getsource(lazy)).body if isinstance(each, ast.If))
    typed = {
        name.asname or name.name: f"{each.module}.{name.name}"
        for each in choice.body
        if isinstance(each, ast.ImportFrom)
        for name in each.names
    }
    assert typed == {name: getattr(lazy, name).__name__ for name in lazy.__all__}


def test_every_command_is_completed_with_its_line_of_the_help() -> None:
    context = click.Context(root.root)
    lines = {item.value: item.help for item in root.root.shell_complete(context, "")}
    assert list(lines) == root.root.list_commands(context)
    words = " ".join(succeeded("--help").out.split())
    assert all(f" {name} {line}" in words for name, line in lines.items())


def test_a_file_is_planned_with_nothing_that_only_a_live_cluster_needs(tmp_path: Path) -> None:
    file = dumps.written(tmp_path / "c.json", dumps.hot_cluster())
    imported = _imported_by("plan", "-f", file)
    assert not imported & {"aiohttp", "asyncio", "cryptography", "rich", "structlog"}
    away = ("admission", "config.document", "convert", "kube", "migration.lifecycle", "runtime", "usage", "web")
    assert not [name for name in imported if name.startswith(tuple(f"rescheduler.{part}" for part in away))]


def _imported_by(*args: str, code: str = "from rescheduler.cli.main import run; run()", **env: str) -> set[str]:
    """The modules that are imported by an interpreter that runs this, and ends."""
    code = f"import sys; {code}; print(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", code, *args]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **env})
    return set(ran.stderr.split())
