"""What pages show as plain text is what the code says: the tree of folders, and messages as examples."""

from __future__ import annotations

import re
from itertools import takewhile

from rescheduler.model.migration import OutcomeVerdict
from rescheduler.model.move_history import MoveHistory, PastMove
from rescheduler.model.policy import Policy
from rescheduler.model.time import parse_instant
from rescheduler.usage import metrics_api, prometheus
from rescheduler.usage.samples import FirstNames, UsageGaps, describe_gaps, describe_rejected
from tests.docs.pages import ROOT, blocks
from tests.support.pod_migrations import replace

_MINE = {"__pycache__"}


def text_of(page: str, begin: str) -> list[str]:
    """The lines of the block of plain text that begins so."""
    (found,) = [
        each for each in blocks(ROOT / "docs" / page) if each.language == "text" and each.text.startswith(begin)
    ]
    return found.text.splitlines()


def folders_in(path: str) -> set[str]:
    return {each.name for each in (ROOT / path).iterdir() if each.is_dir() and each.name not in _MINE}


def test_the_tree_names_what_there_is() -> None:
    lines = text_of("architecture.md", "src/rescheduler/")
    for top in ("src/rescheduler", "tests"):
        begin = lines.index(f"{top}/") + 1
        below = list(takewhile(lambda line: line.startswith("  "), lines[begin:]))
        named = [
            name for line in below if re.match(r"  \S", line) for name in re.findall(r"([a-z0-9]+)/", _first(line))
        ]
        assert sorted(named) == sorted(folders_in(top)), top
    others = [name.strip(",") for line in lines if not line.startswith(" ") for name in _first(line).split()]
    assert [each for each in others if not (ROOT / each).exists()] == []


def _first(line: str) -> str:
    """The names of a line, without the words about them, which stand apart."""
    return re.split(r"\s{2,}", line.strip(), maxsplit=1)[0]


def test_a_workload_that_rests_says_so_as_is_shown() -> None:
    (shown,) = text_of("outcomes.md", "its last 2 moves")
    until = parse_instant(re.findall(r"until (\S+),", shown)[0])
    policy = Policy()
    last = PastMove("m", "web-0", "a", "b", "LoadBalancing", until - 4 * policy.cool_down, 12.0, 0.3)
    last = replace(last, verdict=OutcomeVerdict.NOT_PAID)
    rest = MoveHistory((last, last), (last, last)).rest(policy)
    assert rest is not None
    assert rest.why == shown


def test_the_example_of_a_gain_is_reckoned_by_its_formula() -> None:
    (formula,) = text_of("outcomes.md", "gain = ")
    for words, percent in (
        ("source with the pod", 90), ("target without it", 30), ("source without it", 70), ("target with it", 50),
    ):  # fmt: skip
        formula = formula.replace(words, str(percent))
    found = re.fullmatch(r"gain = max\((\d+), (\d+)\) − max\((\d+), (\d+)\)", formula)
    assert found
    before, after = max(int(found[1]), int(found[2])), max(int(found[3]), int(found[4]))
    page = (ROOT / "docs" / "outcomes.md").read_text(encoding="utf-8")
    assert f"{formula.removeprefix('gain = ')} is a gain of {before - after}." in " ".join(page.split())


def test_what_is_missing_of_usage_is_said_as_is_shown() -> None:
    shown = text_of("usage.md", "usage: no sample")
    gaps = UsageGaps(
        FirstNames(["node-7", "node-9"]), 40, FirstNames(f"shop/{each}" for each in "abcde"), 900, timeless=False
    )
    others = FirstNames(f"10.0.0.{each}" for each in (7, 8, 9))
    refused = {"older than 3m0s": FirstNames(["node-7", "shop/x", "shop/y"])}
    told = {*describe_gaps(gaps, others, 180.0), *describe_rejected(refused, 940)}
    failed = [line.removeprefix("what is used could not be read: ") for line in shown if line not in told]
    assert told == set(shown[:4])
    assert failed == [
        f"the cluster has no metrics.k8s.io; {re.sub(r'https[^)]*', '…', metrics_api._INSTALL)}",
        f"https://prometheus.monitoring:9090 answers 401 Unauthorized; {prometheus._CURES[401]}",
    ]
