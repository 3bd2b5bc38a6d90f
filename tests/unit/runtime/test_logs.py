"""The log: one line an event, for people or as JSON, whoever logs and whatever is in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescheduler.runtime.logs import LogFormat, configure

ours = structlog.stdlib.get_logger("rescheduler.test")
plain = logging.getLogger("rescheduler.test")
theirs = logging.getLogger("aiohttp.test")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """What `configure` changes is the process's: each test leaves it as it was."""
    root, package = logging.getLogger(), logging.getLogger("rescheduler")
    handlers, levels, known = root.handlers, (root.level, package.level), structlog.get_config()
    yield
    root.handlers = handlers
    root.setLevel(levels[0])
    package.setLevel(levels[1])
    structlog.configure(**known)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == "", "stdout is for data"
    return captured.err.splitlines()


def test_a_line_for_people_tells_when_how_bad_what_and_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogFormat.TEXT, verbose=False)
    ours.info("planned", moves=3, why="it is hot", pod="shop/web")
    (line,) = lines(capsys)
    moment, _, rest = line.partition(" ")
    assert moment.endswith("Z")
    assert rest == 'INFO    planned moves=3 why="it is hot" pod=shop/web'


def test_a_json_line_has_the_same_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogFormat.JSON, verbose=False)
    ours.warning("planned", moves=3, why='say "hot"', pod="shop/wéb", at=LogFormat.TEXT, other={1})
    (line,) = lines(capsys)
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "warning",
        "msg": "planned",
        "moves": 3,
        "why": 'say "hot"',
        "pod": "shop/wéb",
        "at": "text",
        "other": "{1}",
    }


@pytest.mark.parametrize("form", LogFormat)
def test_who_logs_by_the_standard_library_is_written_alike(form: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    configure(form, verbose=False)
    plain.warning("%s: %s; tried again", "pods", "no answer")
    (line,) = lines(capsys)
    assert "pods: no answer; tried again" in line
    assert "warning" in line.lower()


def test_fields_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogFormat.TEXT, verbose=False)
    ours.info("begun", target="", method=None, attempts=0)
    (line,) = lines(capsys)
    assert line.endswith("begun attempts=0")


def test_verbose_tells_each_command_and_libraries_stay_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    for verbose, count in ((False, 0), (True, 1)):
        configure(LogFormat.TEXT, verbose=verbose)
        ours.debug("done")
        theirs.info("connected")
        assert len(lines(capsys)) == count


@pytest.mark.parametrize("form", LogFormat)
def test_an_exception_comes_with_its_trace(form: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    configure(form, verbose=False)
    ours.error("a bug of ours", migration="shop/m", exc_info=LookupError("no such thing"))
    found = lines(capsys)
    if form is LogFormat.JSON:
        (line,) = found
        assert "LookupError: no such thing" in json.loads(line)["exception"]
    else:
        assert found[0].endswith("a bug of ours migration=shop/m")
        assert found[-1] == "LookupError: no such thing"


@pytest.mark.parametrize("form", LogFormat)
def test_an_event_without_words_is_still_a_line(form: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    configure(form, verbose=False)
    plain.warning("%s", "")
    (line,) = lines(capsys)
    assert "warning" in line.lower()


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(_texts, _texts)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("form", LogFormat)
def test_whatever_a_server_says_is_one_line_without_control_characters(
    form: LogFormat, capsys: pytest.CaptureFixture[str], told: str, value: str
) -> None:
    configure(form, verbose=False)
    ours.info(told, why=value)
    plain.info("%s", told)
    written = capsys.readouterr().err
    assert written.count("\n") == 2
    if form is LogFormat.JSON:
        first, second = map(json.loads, written.split("\n")[:2])
        assert (first.get("msg", ""), first.get("why", ""), second.get("msg", "")) == (told, value, told)
    else:
        assert all(line.isprintable() for line in written.split("\n"))
