"""Commands that another distribution brings: missing or broken, they are told with the cure."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from rescheduler import __version__
from rescheduler.cli.completion import answer
from tests.support.cli import rescheduler, succeeded

DEMO = f"kube-rescheduler-demo=={__version__}"
MISSING = f"it comes with kube-rescheduler-demo; pip install {DEMO}, or in a checkout: make setup"
CURE = f"pip install --force-reinstall {DEMO}"
LOADED = "the command demo cannot be loaded from kube-rescheduler-demo:"


@pytest.mark.parametrize(
    ("value", "code", "told"),
    [
        ("", 2, f"the command demo is not installed: {MISSING}"),
        ("nonesuch:demo", 1, f"{LOADED} ModuleNotFoundError: No module named 'nonesuch'; {CURE}"),
        ("rescheduler:x", 1, f"{LOADED} AttributeError: module 'rescheduler' has no attribute 'x'; {CURE}"),
        ("rescheduler:__version__", 1, "the command demo: rescheduler:__version__ of kube-rescheduler-demo is not a "),
    ],
)
def test_a_missing_or_broken_command_is_told_in_one_line_with_the_cure(
    value: str, code: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = EntryPoints([EntryPoint("demo", value, "rescheduler.commands")] if value else [])
    monkeypatch.setattr("importlib.metadata.entry_points", found.select)
    for args in (["demo"], ["demo", "--once", "-v"], ["demo", "--help"]):
        ran = rescheduler(*args)
        assert (ran.code, ran.out) == (code, "")
        assert ran.said.startswith(f"error: {told}")
        assert ran.said.count("\n") == 1
    assert "\n  demo  " in succeeded("--help").out
    assert answer(["demo", "--"]).endswith(":4\n")
    assert "--scenario" not in answer(["demo", "--"])


def test_an_installed_command_is_completed() -> None:
    assert answer(["demo", "--sc"]) == "--scenario\tThe scenario; see above.\n:4\n"
    assert answer(["demo", "--scenario", "c"]) == "chaos\n:4\n"
