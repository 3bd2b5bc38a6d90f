"""`rescheduler demo` as a process: each scenario reaches its goal, and whatever ends it, nothing of it stays."""

from __future__ import annotations

import re
import signal
import socket
import tempfile
import urllib.request
from pathlib import Path

import pytest

from tests.support.cli import rescheduler, succeeded
from tests.support.demo_process import COLUMNS, ROWS, SLOW, SMALL, is_listening, on_terminal, piped, ran
from tests.testbed.processes import until

LIVE_SCREEN, FIRST_SCREEN, CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


def left(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize(
    "scenario",
    [
        "balance",
        "chaos",
        pytest.param("hotspot", marks=pytest.mark.release),
        pytest.param("maintenance", marks=pytest.mark.release),
        pytest.param("failing-node", marks=pytest.mark.release),
    ],
)
def test_a_scenario_reaches_its_goal_and_ends_by_itself(scenario: str, tmp_path: Path) -> None:
    folder, log = tmp_path / "temporary", tmp_path / "demo.log"
    folder.mkdir()
    done = ran(folder, "--once", "--scenario", scenario, "--log-file", str(log), *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert " INFO    planned " in log.read_text()
    assert "planned moves" not in done.stdout, "the log stands in its file, and not between the lines"
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"{scenario}: goal reached after "), done.stdout
    assert last.endswith(" 0 violations"), done.stdout
    assert "\x1b" not in done.stdout, "a pipe gets plain lines"
    assert left(folder) == []


def test_it_is_a_cluster_and_a_page_until_a_signal_ends_it_and_nothing_is_left(tmp_path: Path) -> None:
    with piped(tmp_path, *SMALL) as demo:
        demo.says("page: ")
        assert demo.kubeconfig.stat().st_mode & 0o077 == 0
        planned = succeeded("plan", "--kubeconfig", str(demo.kubeconfig), "-o", "json")
        assert planned.data["before"]["cpu"]["max"] > 0
        with urllib.request.urlopen(f"{demo.page}livez") as answer:
            assert answer.status == 200
        ports = demo.ports()
        assert all(map(is_listening, ports))
        code, rest = demo.ended(signal.SIGTERM)
    assert code == 0, rest
    assert rest.splitlines()[-1].startswith("balance: "), rest
    assert left(tmp_path) == []
    assert not any(map(is_listening, ports))


def test_interrupted_before_its_goal_once_ends_as_interrupted_commands_do(tmp_path: Path) -> None:
    with piped(tmp_path, "--once", *SLOW) as demo:
        demo.says("kubectl: ")
        code, rest = demo.ended(signal.SIGINT)
    assert code == 130, rest
    assert "ended before the goal was reached" in rest
    assert left(tmp_path) == []


def test_a_goal_that_is_not_reached_in_time_is_told_with_what_was_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = rescheduler("demo", "--once", "--timeout", "1s", *SLOW)
    assert done.code == 6, done.out + done.said
    assert (
        "the goal was not reached within 1 s; it was waiting for: all pods run; allow more time with --timeout"
        in done.said
    )
    assert left(tmp_path) == []


def test_on_a_terminal_a_picture_changes_in_place_and_ctrl_c_brings_the_terminal_back(tmp_path: Path) -> None:
    folder, browser, visited = tmp_path / "temporary", tmp_path / "browser", tmp_path / "visited"
    folder.mkdir()
    browser.write_text(f'#!/bin/sh\necho "$1" > {visited}\n')
    browser.chmod(0o700)
    with on_terminal(folder, *SMALL, DISPLAY=":99", BROWSER=str(browser)) as demo:
        demo.shows("the controller starts")
        demo.shows("http://127.0.0.1:")
        demo.shows("next plan in")
        until("the page is opened in a browser", visited.exists)
        demo.press(b"\x03")
        assert demo.ended() == 0, demo.text()[-2000:]
    assert demo.raw.count(LIVE_SCREEN) == demo.raw.count(FIRST_SCREEN) == 1
    after = demo.raw.rpartition(FIRST_SCREEN)[2]
    assert CURSOR in demo.raw[demo.raw.rindex(LIVE_SCREEN) :], "the cursor is there again"
    assert "balance: " in after, "the result stays on the first screen"
    picture = demo.last_picture()
    assert len(picture) <= ROWS
    assert all(len(line) <= COLUMNS for line in picture), picture
    text = "\n".join(picture)
    assert re.search("goal( reached)?: ", text), text  # it may have been, by the time of Ctrl-C
    for part in ("export KUBECONFIG=", "cpu", "memory", "hot nodes", "node-5", "moves", "next plan in"):
        assert part in text, text
    assert left(folder) == []


def test_a_terminal_that_is_closed_ends_it(tmp_path: Path) -> None:
    """By SIGHUP."""
    with on_terminal(tmp_path, *SMALL) as demo:
        demo.shows("kubectl")
        demo.close()
        demo.process.wait(60)
    assert left(tmp_path) == []


def test_a_reader_who_goes_away_ends_it(tmp_path: Path) -> None:
    with piped(tmp_path, *SMALL) as demo:
        demo.says("kubectl: ")
        assert demo.process.stdout
        demo.process.stdout.close()
        assert demo.process.wait(60) == 141
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--nodes", "2"], "--nodes"),
        (["--pods", "1000"], "give --pods 360 or less, or --nodes 34 or more"),
        (["--speed", "0"], "--speed"),
        (["--scenario", "storm"], "--scenario"),
        (["-o", "live"], "-o live needs a terminal"),
        (["--timeout", "1m"], "add --once"),
        (["--once", "--timeout", "soon"], "--timeout"),
        (["--port", "70000"], "--port"),
        (["--log-file", "/nowhere/at/all"], "--log-file /nowhere/at/all: cannot be written"),
    ],
)
def test_bad_input_is_told_with_the_flag_and_the_cure(args: list[str], told: str) -> None:
    found = rescheduler("demo", *args)
    assert found.code == 2
    assert told in found.said


def test_a_port_that_is_taken_is_told_before_anything_is_begun() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = rescheduler("demo", "--once", "--port", str(port))
    assert done.code == 1
    assert len(done.out.splitlines()) == 1, "only that it starts"
    assert f"--port {port}: cannot listen" in done.said
    assert "leave --port out" in done.said
