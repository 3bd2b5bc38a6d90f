"""`rescheduler migrations`: the table, its filters and forms, and following with -w."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from rescheduler.app import follow
from rescheduler.app.planning import LiveCluster
from rescheduler.cli import messages
from tests.support.both_clusters import Space, name_of
from tests.support.cli import rescheduler
from tests.support.cut_proxy import cut_proxy
from tests.support.embedded import EmbeddedControlPlane
from tests.support.migrations import MIGRATIONS, Moves
from tests.support.pod_migrations import migration_spec
from tests.support.shell import PROGRAM, Shell

SECONDS = 60.0


@pytest.fixture
def moves(space: Space) -> Moves:
    """Two migrations: one that was begun, and one that failed."""
    moves = Moves(space)
    for name in ("begun", "lost"):
        moves.order(name, migration_spec(f"web-{name}", target="node-1", reason="why"))
    tell(space, "begun", phase="InProgress", step="AwaitReady", source="node-0", target="node-1", method="handoff")
    tell(space, "lost", phase="Failed", message="the pod is gone", attempts=3)
    return moves


def tell(space: Space, name: str, **status: object) -> None:
    """The controller writes a status."""
    space.api.patch(f"{MIGRATIONS.format(space.name)}/{name}/status", {"status": status})


def test_the_table_has_kubectls_form(shell: Shell, space: Space, moves: Moves) -> None:
    header, begun, lost = shell.ok("migrations", "-n", space.name).out.splitlines()
    assert header.split() == ["NAME", "POD", "PHASE", "STEP", "FROM", "TO", "METHOD", "AGE", "MESSAGE"]
    assert begun.split()[:7] == ["begun", "web-begun", "InProgress", "AwaitReady", "node-0", "node-1", "handoff"]
    assert lost.split()[:3] == ["lost", "web-lost", "Failed"]
    assert lost.endswith("the pod is gone")
    assert "NAME" not in shell.ok("migrations", "-n", space.name, "--no-headers").out


def test_all_namespaces_are_a_column_and_wide_has_more(shell: Shell, space: Space, moves: Moves) -> None:
    header, *rows = shell.ok("migrations", "-A", "-o", "wide").out.splitlines()
    assert header.split()[0] == "NAMESPACE"
    assert {"STRATEGY", "REPLACEMENT", "TRIES"} <= set(header.split())
    assert any(row.startswith(space.name) and " Manual " in row for row in rows)


def test_phases_and_labels_choose(shell: Shell, space: Space, moves: Moves) -> None:
    inside = ("-n", space.name, "-o", "name")
    assert shell.ok("migrations", *inside, "--phase", "Failed").out == "podmigration.rescheduler.io/lost\n"
    assert shell.ok("migrations", *inside, "-l", "team=a").out == ""
    path = f"{MIGRATIONS.format(space.name)}/begun"
    space.api.patch(path, {"metadata": {"labels": {"team": "a"}}})
    assert shell.ok("migrations", *inside, "-l", "team=a").out == "podmigration.rescheduler.io/begun\n"
    assert "-l: " in shell.refused(messages.USAGE, "migrations", *inside, "-l", "a=b=c")


def test_documents_are_the_objects_themselves(shell: Shell, space: Space, moves: Moves) -> None:
    listed = shell.ok("migrations", "-n", space.name, "-o=json").data
    assert (listed["kind"], [name_of(each) for each in listed["items"]]) == ("List", ["begun", "lost"])
    alone = yaml.safe_load(shell.ok("migrations", "lost", "-n", space.name, "-oyaml").out)
    assert (alone["kind"], alone["status"]["attempts"]) == ("PodMigration", 3)


def test_where_there_is_none_it_says_so_on_stderr(shell: Shell, space: Space) -> None:
    ran = shell.ok("migrations", "-n", space.name)
    assert (ran.out, ran.said) == ("", f"note: no migrations in namespace {space.name}\n")
    assert shell.ok("migrations", "-n", space.name, "-ojson").data["items"] == []


def test_a_name_that_is_not_there_gets_the_nearest(shell: Shell, space: Space, moves: Moves) -> None:
    said = shell.refused(messages.UNREADABLE, "migrations", "begum", "-n", space.name)
    assert said == f"error: there is no podmigration begum in namespace {space.name}; did you mean begun?\n"
    assert "did you mean begun" in shell.refused(messages.UNREADABLE, "migrations", "begum", "-n", space.name, "-w")


def test_the_namespace_is_the_contexts_own_unless_one_is_given(shell: Shell, moves: Moves) -> None:
    assert shell.ok("migrations").said == "note: no migrations in namespace default\n"


def test_watching_shows_each_change_in_a_row(shell: Shell, space: Space, moves: Moves) -> None:
    with shell.started("migrations", "-n", space.name, "-w") as running:
        header = running.prints("NAME")
        first = running.prints("begun")
        assert first.index("InProgress") == header.index("PHASE")
        tell(space, "begun", phase="Completed", step="")
        assert "web-begun" in running.prints("Completed")
        space.api.delete(f"{MIGRATIONS.format(space.name)}/lost")
        assert "web-lost" in running.prints("Deleted")
        moves.order("later", migration_spec("web-later"))
        assert "Pending" in running.prints("web-later")
        code, said = running.interrupt()
    assert (code, said.strip()) == (messages.INTERRUPTED, "")


def test_watching_ends_quietly_when_nobody_reads_any_more(shell: Shell, space: Space, moves: Moves) -> None:
    with shell.started("migrations", "-n", space.name, "-w") as running:
        running.prints("web-lost")
        running.hang_up()
        tell(space, "begun", phase="Completed", step="")
        assert running.ended() == messages.PIPE_CLOSED


def test_watching_gives_documents_too(shell: Shell, space: Space, moves: Moves) -> None:
    with shell.started("migrations", "begun", "-n", space.name, "-w", "-o", "yaml") as running:
        running.prints("---")
        tell(space, "begun", phase="Failed")
        running.prints("---")


CHANGES = [{"metadata": {"name": "begun", "resourceVersion": version}} for version in "12"]
SHOWN = {
    "json": "".join(f"{json.dumps(each, indent=2)}\n" for each in CHANGES),
    "name": "podmigration.rescheduler.io/begun\n" * 2,
}


@pytest.mark.parametrize("form", SHOWN)
def test_watching_gives_json_and_names_at_each_change(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    def watch(live: object, work: object, part: object, follower: follow.ChangeSink, name: str | None) -> None:
        first, later = (json.dumps(each).encode() for each in CHANGES)
        follower.begin()
        follower.put(first)
        follower.complete()
        follower.put(later)
        raise KeyboardInterrupt

    monkeypatch.setattr(LiveCluster, "run", watch)
    ran = rescheduler("migrations", "-n", "shop", "-w", "-o", form)
    assert (ran.code, ran.out) == (messages.INTERRUPTED, SHOWN[form])


def test_a_cluster_without_the_kind_gets_the_cure() -> None:
    with EmbeddedControlPlane() as bare:
        bare.add_nodes(1)
        shell = Shell(bare)
        for args in (["migrations"], ["migrations", "-w"], ["migrations", "x", "-A"]):
            said = shell.refused(messages.UNREADABLE, *args)
            assert said.startswith("error: PodMigration is not installed in this cluster.")
            assert "rescheduler crds | kubectl apply -f -" in said


async def test_a_watch_that_is_cut_goes_on(
    cluster: EmbeddedControlPlane, space: Space, moves: Moves, tmp_path: Path
) -> None:
    at = urlsplit(cluster.server)
    async with cut_proxy(at.hostname or "", at.port or 0) as proxy, asyncio.timeout(SECONDS):
        config = cluster.kubeconfig.read_text().replace(f"127.0.0.1:{at.port}", f"127.0.0.1:{proxy.port}")
        (tmp_path / "kubeconfig").write_text(config)
        flags = ["migrations", "-n", space.name, "-w", "--kubeconfig", str(tmp_path / "kubeconfig")]
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, *flags, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ}
        )
        try:
            assert process.stdout is not None
            await _line(process.stdout, "web-begun")
            # A change that is told is proof that the watch is open: else there might be nothing to be cut yet.
            await asyncio.to_thread(tell, space, "begun", step="Land")
            await _line(process.stdout, "Land")
            proxy.cut()
            await asyncio.to_thread(tell, space, "begun", phase="Completed", step="")
            await _line(process.stdout, "Completed")
            process.send_signal(signal.SIGINT)
            _, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == messages.INTERRUPTED
    assert said.startswith(b"warning: watch failed, retrying: podmigrations: "), said


async def _line(stream: asyncio.StreamReader, text: str) -> None:
    while line := (await stream.readline()).decode():
        if text in line:
            return
    raise AssertionError(f"it ended without {text!r}")
