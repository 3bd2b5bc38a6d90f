"""`rescheduler config check` and `show`: results on stdout, errors on stderr, exit codes, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rescheduler.cli.main import root
from rescheduler.config.errors import ConfigErrors
from rescheduler.config.loader import load_defaults, load_file
from tests.support.configs import KNOWN, native, parse, plugin_form

_THREE = "enabledStrategies: [LoadBalancing, ResourceOptimization, NodeMaintenance]"


@pytest.fixture(autouse=True)
def _known_strategies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescheduler.app.planning.settings_by_name", lambda: dict(KNOWN))


def _run(*args: str, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(
        root, ["config", *args], input=stdin
    )  # through the root: click keeps what it was called by
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def _file(folder: Path, content: str | bytes, name: str = "c.yaml") -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (plugin_form(_THREE), "ok (KubeSchedulerConfiguration, 3 strategies)"),
        (native("enabledStrategies: [LoadBalancing]"), "ok (ReschedulerConfiguration, 1 strategy)"),
        ("\ufeff" + native("enabledStrategies: []"), "ok (ReschedulerConfiguration, 0 strategies)"),
        (
            native(
                "enabledStrategies: [LoadBalancing]\npools:\n- {name: a, nodeSelector: p=a, "
                "enabledStrategies: [LoadBalancing, NodeMaintenance]}\n- {name: b, nodeSelector: p=b}"
            ),
            "ok (ReschedulerConfiguration, 2 strategies, 2 pools)",
        ),
    ],
)
def test_check_says_that_a_sound_file_is_ok(tmp_path: Path, text: str, said: str) -> None:
    path = _file(tmp_path, text)
    result = _run("check", path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{path}: {said}\n", "")


def test_check_goes_through_all_files_and_exits_2_if_any_is_refused(tmp_path: Path) -> None:
    bad = _file(tmp_path, native("cpuThreshold: 180\nfoo: 1"), "bad.yaml")
    good = _file(tmp_path, native(), "good.yaml")
    result = _run("check", bad, good)
    assert result.exit_code == 2
    assert result.stdout.startswith(f"{good}: ok")
    lines = result.stderr.splitlines()
    assert lines[0] == f"{bad}: cpuThreshold: 180 is not between 0 and 100"
    assert len(lines) == 2


def test_a_dash_is_standard_input() -> None:
    assert _run("check", "-", stdin=native()).stdout == "-: ok (ReschedulerConfiguration, 2 strategies)\n"
    assert _run("check", "-", stdin="").stderr.startswith("<stdin>: is empty")
    assert _run("show", "--config", "-", stdin=native("cpuThreshold: 70")).stdout.count("cpuThreshold: 70.0") == 1


def test_of_a_wrong_file_and_one_that_cannot_be_read_the_wrong_one_decides(tmp_path: Path) -> None:
    bad, missing = _file(tmp_path, native("cpuThreshold: 180")), str(tmp_path / "missing.yaml")
    for files in ((bad, missing), (missing, bad)):
        result = _run("check", *files)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 2


def test_standard_input_that_is_closed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ConfigErrors, match="<stdin>: cannot be read: standard input is closed"):
        load_file("-", KNOWN)


def test_show_prints_the_defaults_when_no_file_is_given() -> None:
    result = _run("show")
    assert result.exit_code == 0
    assert parse(result.stdout) == load_defaults(KNOWN)


def test_show_prints_the_effective_configuration_as_yaml_or_json(tmp_path: Path) -> None:
    path = _file(tmp_path, plugin_form("cpuThreshold: 70"))
    expected = parse(plugin_form("cpuThreshold: 70"))
    assert _run("show", "--config", path).stdout == expected.effective_yaml()
    for output in (("-o", "json"), ("-ojson",), ("--output=json",)):
        assert json.loads(_run("show", "--config", path, *output).stdout) == expected.effective()
