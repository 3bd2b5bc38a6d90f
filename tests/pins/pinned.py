"""All pins: the name of each golden file, and what makes its text from the code as it is."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.pins.catalogues import CATALOGUES
from tests.pins.command_lines import all_commands, recorded_command_lines
from tests.pins.live import LIVE
from tests.pins.transcript import transcript

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (80, 120)


def _help(command: str) -> str:
    lines = [f"rescheduler {command} --help"]
    return "\n".join(f"COLUMNS={columns}\n{transcript(lines, columns)}" for columns in WIDTHS)


def _all_pins() -> dict[str, Callable[[], str]]:
    found: dict[str, Callable[[], str]] = {}
    for command in all_commands():
        found[f"help/{command.replace(' ', '-') or 'rescheduler'}"] = partial(_help, command)
    found["help/kubectl-rescheduler"] = partial(
        transcript, ["kubectl rescheduler --help", "kubectl rescheduler plan -x"]
    )
    for name, lines in recorded_command_lines():
        found[name] = partial(transcript, lines)
    return found | {f"catalogues/{name}": make for name, make in CATALOGUES.items()} | LIVE


PINS = _all_pins()


def golden_file(name: str) -> Path:
    return GOLDEN / f"{name}.txt"


def difference(name: str) -> list[str]:
    """The lines of a diff from what is pinned to what the code does now; none if they are the same."""
    file = golden_file(name)
    pinned = file.read_text(encoding="utf-8") if file.exists() else ""
    now = PINS[name]()
    return list(difflib.unified_diff(pinned.splitlines(), now.splitlines(), f"pinned {name}", "now", lineterm=""))


def update(name: str) -> None:
    """Write down what the code does now."""
    file = golden_file(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(PINS[name](), encoding="utf-8")


def stale_files() -> list[Path]:
    """Golden files that no pin makes any more."""
    known = {golden_file(name) for name in PINS}
    return sorted(file for file in GOLDEN.rglob("*.txt") if file not in known)
