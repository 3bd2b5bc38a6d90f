"""`rescheduler pause` and `resume`: what they write, what they tell, and which controller they mean."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rescheduler.cli import messages
from rescheduler.model.json import Json
from rescheduler.model.time import format_instant
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.manifests import lease
from tests.support.shell import Shell
from tests.testbed.namespaces import own_namespace

STATE = "kube-rescheduler-state"


@contextmanager
def leads(space: Space) -> Iterator[None]:
    """A controller runs there, until the end of the block."""
    now = f"{format_instant(time.time()).removesuffix('Z')}.000000Z"
    space.create(lease("kube-rescheduler", holderIdentity="one", leaseDurationSeconds=3600, renewTime=now))
    yield
    space.delete("Lease", "kube-rescheduler")


@pytest.fixture
def home(space: Space) -> Iterator[Space]:
    with leads(space):
        yield space


def data(space: Space) -> Json:
    found: Json = space.api.get(f"/api/v1/namespaces/{space.name}/configmaps/{STATE}")["data"]
    return found


def test_it_is_paused_where_the_controller_is_and_goes_on_again(shell: Shell, home: Space) -> None:
    ran = shell.ok("pause", "--reason", "network")
    assert ran.out.startswith("paused by ")
    assert "what has begun is finished" in ran.said
    assert (data(home)["paused"], data(home)["reason"]) == ("true", "network")
    who, since = data(home)["by"], data(home)["since"]
    again = shell.ok("pause", "--reason", "me, too")
    assert again.out == f"paused already by {who} since {since}: network\n"
    assert shell.ok("resume").out == f"resumed; it was paused by {who} since {since}: network\n"
    assert data(home)["paused"] == "false"
    assert shell.ok("resume").out == "not paused\n"


def test_a_reason_that_is_too_long_is_cut_and_it_is_paused_all_the_same(shell: Shell, home: Space) -> None:
    assert shell.ok("pause", "--reason", "because " * 100).out.startswith("paused by ")
    assert data(home)["reason"].endswith("…")


def test_a_dry_run_tells_how_things_stand_and_changes_nothing(shell: Shell, home: Space) -> None:
    assert shell.ok("pause", "--dry-run").out == "not paused; it would be now (dry run)\n"
    assert shell.ok("resume", "--dry-run").out == "not paused\n"
    shell.ok("pause")
    assert shell.ok("resume", "--dry-run").out.endswith("; it would go on (dry run)\n")
    assert shell.ok("pause", "--dry-run").out.startswith("paused already by ")
    assert data(home)["paused"] == "true"


def test_it_is_written_down_who_paused(shell: Shell, home: Space) -> None:
    shell.ok("pause", "--as", "jane")
    assert data(home)["by"]


def test_of_several_controllers_one_must_be_named(shell: Shell, home: Space, cluster: ClusterUnderTest) -> None:
    with own_namespace(cluster.api, "another") as name:
        other = Space(cluster, name)
        with leads(other):
            assert "say with -n which one is meant" in shell.refused(messages.UNREADABLE, "pause")
            shell.ok("pause", "-n", name)
            assert data(other)["paused"] == "true"


def test_where_no_controller_runs_it_is_written_all_the_same(shell: Shell, space: Space) -> None:
    ran = shell.ok("pause", "-n", space.name)
    assert "no controller seems to run" in ran.said
    assert data(space)["paused"] == "true"


def test_what_makes_no_sense_counts_as_paused_and_can_be_resumed(shell: Shell, home: Space) -> None:
    body = {"metadata": {"name": STATE}, "data": {"paused": "perhaps"}}
    home.api.post(f"/api/v1/namespaces/{home.name}/configmaps", body)
    assert "is invalid: paused is 'perhaps'" in shell.ok("resume", "--dry-run").out
    assert shell.ok("resume").out.startswith("resumed; it was paused")
    assert shell.ok("resume").out == "not paused\n"
