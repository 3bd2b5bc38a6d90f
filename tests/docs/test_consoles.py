"""Every console of the documentation shows what its commands print: they are run, and their output is compared.

What reads `examples/` is run as it is. What writes to a cluster is run on an embedded one, which a scene sets up as the
page describes it, by a person of the page's name. Times and ages differ from run to run, and are not compared.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from docs.generating.shown import cut_like

from rescheduler.cli.output import Terminal
from rescheduler.model.time import format_instant
from rescheduler.recovery import record
from tests.docs.pages import PAGES, ROOT, blocks, name_of
from tests.docs.shell import Shown, shown
from tests.support.both_clusters import Space
from tests.support.cli import rescheduler
from tests.support.embedded import EmbeddedControlPlane
from tests.support.manifests import lease
from tests.support.migrations import MIGRATIONS, Moves, pod_migrations
from tests.support.pod_migrations import migration_spec, replace

PERSON = "jane@example.com"
SHOWN = [each for page in PAGES for block in blocks(page) if block.language == "console" for each in shown(block)]
ELSEWHERE = {
    "docs/writing-a-configuration-field.md": "test_writing_a_configuration_field.py, in a copy that has the field",
    "docs/writing-a-guard.md": "test_writing_a_rule.py, which puts the page's guard in place first",
    "docs/writing-a-predicate.md": "test_writing_a_rule.py, which puts the page's predicate in place first",
    "docs/writing-a-strategy.md": "test_writing_a_strategy.py, which puts the page's strategy in place first",
    "docs/failed-pods.md": "below: kubectl shows an annotation, and what it shows is read as one",
}
"""Pages whose consoles are run by other tests."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedControlPlane]:
    with EmbeddedControlPlane() as embedded, pod_migrations(embedded):
        yield embedded


@contextmanager
def _approval(cluster: EmbeddedControlPlane) -> Iterator[None]:
    """A controller seems to lead, and a move of its plan waits."""
    cluster.api.post("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    shop = Space(cluster, "shop")
    now = f"{format_instant(time.time()).removesuffix('Z')}.000000Z"
    shop.create(lease("kube-rescheduler", holderIdentity="one", leaseDurationSeconds=15, renewTime=now))
    name = "web-6d5f9c-x2x9z-51a0"
    order = migration_spec(
        "web-6d5f9c-x2x9z", target="node-4", strategy="LoadBalancing", reason="node-1 is at 88.0% CPU"
    )
    Moves(shop).order(name, replace(order, approval_required=True, plan="k4m9tz"))
    cluster.api.patch(f"{MIGRATIONS.format('shop')}/{name}/status", {"status": {"source": "node-1"}})
    yield
    cluster.api.delete("/api/v1/namespaces/shop")


SCENES: dict[str, Callable[[EmbeddedControlPlane], AbstractContextManager[None]]] = {"docs/approval.md": _approval}
"""What a page's consoles find, in the order of the page."""


def page_of(each: Shown) -> str:
    return each.place.partition(":")[0]


def plain(text: str) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    return re.sub(r" {2,}", "  ", re.sub(r"\b\d+s\b", "AGE", text))


def test_every_console_is_run_somewhere() -> None:
    left = [each for each in SHOWN if page_of(each) not in {*ELSEWHERE, *SCENES}]
    assert [each.place for each in left if "examples/" not in each.command] == [], "make a scene for it"
    assert set(ELSEWHERE) | set(SCENES) <= {page_of(each) for each in SHOWN}


@pytest.mark.parametrize("each", [each for each in SHOWN if "examples/" in each.command], ids=lambda each: each.place)
def test_what_reads_the_examples_prints_what_is_shown(each: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    if page_of(each) in ELSEWHERE:
        return
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(Terminal, "of", lambda *_: Terminal(width=100))
    name, *words = shlex.split(each.command)
    assert name == "rescheduler"
    ran = rescheduler(*words)
    assert cut_like(ran.said + ran.out, each.output) == each.output, each.place


@pytest.mark.parametrize("page", SCENES)
def test_what_writes_to_a_cluster_prints_what_is_shown(page: str, cluster: EmbeddedControlPlane) -> None:
    flags = ("--kubeconfig", str(cluster.kubeconfig), "--as", PERSON)
    with SCENES[page](cluster):
        for each in (each for each in SHOWN if page_of(each) == page):
            name, *words = shlex.split(each.command)
            assert name == "rescheduler"
            ran = rescheduler(*words, *flags)
            assert ran.code == 0, f"{each.place}: {ran.said}"
            assert sorted(plain(ran.said + ran.out).splitlines()) == sorted(plain(each.output).splitlines()), each.place


def test_the_record_that_is_shown_is_one() -> None:
    page: Path = ROOT / "docs" / "failed-pods.md"
    (each,) = [each for each in SHOWN if page_of(each) == name_of(page)]
    (entry,) = record.parse_record(each.output.strip()).values()
    assert (entry.count, list(entry.nodes)) == (2, ["worker-3"])
