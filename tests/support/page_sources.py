"""Reads the page's sources: which messages there are, and which are said. `tests/unit/web` compares them.

Modules say messages by `t("key", …)`, and words for values of the API by `word("family", value)`, where every message
`family.…` may be said.
"""

from __future__ import annotations

import re
from pathlib import Path

import playwright

NODE = str(Path(playwright.__file__).parent / "driver" / "node")
"""Runs modules outside of a browser; it comes with Playwright, so that every machine has it."""
_MESSAGE = re.compile(r"^  \"(?P<key>[^\"]+)\": (?P<said>\"(?:[^\"\\]|\\.)*\"|\{.*\}),$", re.MULTILINE)
_SAID = re.compile(r"\bt\(\s*\"([^\"]+)\"")
_FAMILY = re.compile(r"\bword\(\s*\"([^\"]+)\"")
_CHOICES = re.compile(r"^  (\w+): \[", re.MULTILINE)
_LANGUAGES = ("en.js", "zh.js", "zh-phrases.js")


def sources(page: Path) -> dict[str, str]:
    """The modules by name, without those that hold the messages."""
    return {path.name: path.read_text() for path in sorted(page.glob("*.js")) if path.name not in _LANGUAGES}


def messages(path: Path) -> dict[str, str]:
    """The messages of a language; all forms of one that has several."""
    text = path.read_text()
    found = {match["key"]: match["said"] for match in _MESSAGE.finditer(text)}
    lines = [line for line in text.splitlines() if line.startswith('  "')]
    assert len(found) == len(lines), f"{path.name}: a line is no message, or a key is there twice"
    return found


def keys_said(modules: dict[str, str]) -> set[str]:
    """The keys that are said by name."""
    return {key for text in modules.values() for key in _SAID.findall(text)}


def families(modules: dict[str, str]) -> set[str]:
    """The families of words; what can be preferred has one each, for its menu."""
    found = {family for text in modules.values() for family in _FAMILY.findall(text)}
    return found | set(_CHOICES.findall(modules["preferences.js"]))
