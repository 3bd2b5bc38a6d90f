"""Outcomes remembered: plans leave workloads alone whose moves were bad, orders do not, and `explain` tells why."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rescheduler.app import planning as app
from rescheduler.cli.explain import explanation_lines
from rescheduler.cli.output import Terminal
from rescheduler.decode.structs import RESOURCES
from rescheduler.kube.migrations import encode_migration, encode_status
from rescheduler.model.migration import ObjectReference, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.time import format_instant, parse_instant
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.planning.explain import explanation_document
from rescheduler.planning.revalidate import RequestedMove, Revalidator
from tests.support import dumps
from tests.support.api_server import ApiServer, api_server, list_answer, status_answer
from tests.support.builders import NOW, cluster, deployment, node
from tests.support.cli import Ran, rescheduler
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.planning import MAINTENANCE, OPTIMIZATION, moves_of, planned, rejected, rejection_of
from tests.support.pod_migrations import replace
from tests.unit.planning.outcome_world import CAME_BACK, NOT_PAID, PAID, move

MIGRATIONS = "/apis/rescheduler.io/v1alpha1/podmigrations"
HEAT = Policy(enabled_strategies=(OPTIMIZATION,))


def hot(**of_node: Any) -> ClusterSnapshot:
    """Node a is too full with pods of Deployment web."""
    web = deployment("web", on=["a"] * 9, cpu=1, namespace="shop")
    return cluster(node("a", cpu=10, **of_node), node("b", cpu=10), web)


def done(name: str, ended: float, verdict: Any, **more: Any) -> PodMigration:
    return move(name, ended=ended, verdict=verdict, **more)


def test_a_plan_leaves_a_workload_alone_whose_last_moves_did_not_pay() -> None:
    past = [done("m1", NOW - 3000, NOT_PAID), done("m2", NOW - 1000, NOT_PAID)]
    plan = planned(with_inflight_moves(hot(), past, 600.0), OPTIMIZATION)
    assert (plan.moves, set(rejected(plan).values())) == ((), {"Outcome"})
    assert plan.rejections[0].reason == (
        "its last 2 moves did not pay (12.0 points predicted, 0.3 came true): "
        f"it rests until {format_instant(NOW - 1000 + 2400)}, 4 × coolDown"
    )


def test_it_is_moved_again_when_it_has_rested_or_a_move_has_paid_since() -> None:
    rested = [done("m1", NOW - 1200, NOT_PAID)]
    assert moves_of(planned(with_inflight_moves(hot(), rested, 600.0), OPTIMIZATION))
    forgiven = [done("m1", NOW - 900, CAME_BACK), done("m2", NOW - 700, PAID)]
    assert moves_of(planned(with_inflight_moves(hot(), forgiven, 600.0), OPTIMIZATION))


def test_other_workloads_go_on() -> None:
    past = [done("m1", NOW - 700, CAME_BACK, workload=ObjectReference("Deployment", "api"))]
    assert moves_of(planned(with_inflight_moves(hot(), past, 600.0), OPTIMIZATION))


def test_a_node_is_emptied_all_the_same() -> None:
    past = [done("m1", NOW - 700, CAME_BACK)]
    plan = planned(with_inflight_moves(hot(maintenance=True), past, 600.0), MAINTENANCE)
    assert len(plan.moves) == 9


def test_an_order_begins_all_the_same_by_hand_or_from_a_plan() -> None:
    snapshot = with_inflight_moves(hot(), [done("m1", NOW - 700, CAME_BACK)], 600.0)
    name = snapshot.pods[0].name
    for by_hand in (True, False):
        verdict = Revalidator(snapshot, Policy()).check(RequestedMove("shop", name, target="b", by_hand=by_hand))
        assert verdict.method is Method.HANDOFF, verdict


def test_a_workload_that_was_made_anew_begins_anew() -> None:
    past = [done("m1", NOW - 700, CAME_BACK, workload=ObjectReference("Deployment", "web", "the one before"))]
    assert moves_of(planned(with_inflight_moves(hot(), past, 600.0), OPTIMIZATION))


class TestExplain:
    def explained(self, *past: PodMigration) -> tuple[str, dict[str, Any]]:
        snapshot = with_inflight_moves(hot(), past, 600.0)
        found, plan = app.explain_pod(snapshot, HEAT, ("shop", snapshot.pods[0].name))
        lines = explanation_lines(found, plan, Terminal(), wide=False)
        return "\n".join(lines), explanation_document(found)

    def test_it_shows_the_last_moves_with_both_gains_and_how_long_the_workload_rests(self) -> None:
        past = [
            done("m1", NOW - 3000, PAID, realised=11.5),
            done("m2", NOW - 700, NOT_PAID),
            done("m3", NOW - 50, None, strategy="Manual", predicted=None),
        ]
        text, document = self.explained(*past)
        table = text[text.index("LAST MOVES") :].splitlines()
        assert table[0].split("  ")[0] == "LAST MOVES"
        assert table[1].split() == [*("old-m3", "a", "b", "Manual", format_instant(NOW - 50), "not", "assessed", "yet")]
        assert table[2].split() == [
            "old-m2",
            "a",
            "b",
            "LoadBalancing",
            format_instant(NOW - 700),
            "12.0",
            "0.3",
            "NotPaid",
        ]
        assert table[3].split()[-3:] == ["12.0", "11.5", "Paid"]
        why = (
            "its last move did not pay (12.0 points predicted, 0.3 came true): "
            f"it rests until {format_instant(NOW + 500)}, 2 × coolDown"
        )
        assert f"Rests:      {why}" in text
        assert document["rest"] == {"bad": 1, "until": format_instant(NOW + 500), "why": why}
        assert [each["verdict"] for each in document["pastMoves"]] == ["", "NotPaid", "Paid"]
        assert [each["counts"] for each in document["pastMoves"]] == [False, True, True]
        assert {"guard": "Outcome", "reason": why} in document["objections"]

    def test_it_shows_a_few_and_says_how_many_more_there_are(self) -> None:
        text, document = self.explained(*(done(f"m{n}", NOW - 9000 + n, PAID) for n in range(8)))
        assert "and 3 more (-o wide shows all)" in text
        assert len(document["pastMoves"]) == 8

    def test_without_past_moves_it_says_nothing_of_them(self) -> None:
        text, document = self.explained()
        assert "LAST MOVES" not in text
        assert (document["pastMoves"], document["rest"]) == ([], None)

    def test_a_rest_that_is_over_is_none(self) -> None:
        text, document = self.explained(done("m1", NOW - 1200, NOT_PAID))
        assert "Rests:" not in text
        assert document["rest"] is None
        assert document["pastMoves"]


class TestLiveClusters:
    """Commands read the PodMigrations, where there are any and one may."""

    def bodies(self) -> list[dict[str, Any]]:
        ended = parse_instant(dumps.NOW) - 700.0
        web = ObjectReference("Deployment", "web", "uid-Deployment-default-web")
        past = replace(done("m1", ended, NOT_PAID, workload=web), namespace="default")
        past = replace(past, status=replace(past.status, replacement=ObjectReference("Pod", "web-1", "uid-new")))
        body = encode_migration(past)
        body["metadata"]["uid"] = "m-uid"
        status = encode_status(past, past.status, ended)
        body["status"] = {key: value for key, value in status.items() if value is not None}
        return [body]

    async def run(self, folder: Path, *answers: Any, known: bool = True) -> Ran:
        async with api_server() as server:
            self.serve(server)
            if answers:
                server.script(MIGRATIONS, *answers)
            if known:
                server.script(MIGRATIONS.rpartition("/")[0], list_answer([]))
            path = written(folder / "kubeconfig", kubeconfig({"server": server.url}, {"token": "t"}))
            args = ("plan", "-o", "json", "--now", dumps.NOW, "--kubeconfig", str(path))
            return await asyncio.to_thread(rescheduler, *args)

    def serve(self, server: ApiServer) -> None:
        for resource in RESOURCES:
            if not resource.optional:
                found = [each for each in [*dumps.hot_cluster(), dumps.pdb("web", 1)] if each["kind"] == resource.kind]
                server.script(resource.path, list_answer(found))

    async def test_a_plan_on_a_live_cluster_knows_who_rests(self, tmp_path: Path) -> None:
        ran = await self.run(tmp_path, list_answer(self.bodies()))
        assert ran.code == 0, ran.said
        refused = {each["guard"]: each["reason"] for each in ran.data["rejections"]}
        assert refused["Outcome"].startswith("its last move did not pay (12.0 points predicted, 0.3 came true)")
        assert "web-0" not in {each["pod"] for each in ran.data["moves"]}

    async def test_one_that_makes_no_sense_is_told_of(self, tmp_path: Path) -> None:
        odd = {"metadata": {"name": "odd", "namespace": "default"}, "spec": {"pod": {"name": ""}}}
        ran = await self.run(tmp_path, list_answer([odd]))
        assert ran.code == 0, ran.said
        assert ran.data["warnings"] == ["PodMigration default/odd: spec.pod.name: is empty; its outcome is unknown"]

    async def test_a_cluster_that_knows_no_migrations_remembers_nothing(self, tmp_path: Path) -> None:
        ran = await self.run(tmp_path, known=False)
        assert ran.code == 0, ran.said
        assert "web-0" in {each["pod"] for each in ran.data["moves"]}
        assert ran.data["warnings"] == []

    async def test_who_may_not_see_them_is_told_and_has_his_plan(self, tmp_path: Path) -> None:
        ran = await self.run(tmp_path, status_answer(403, "Forbidden", "no"))
        assert ran.code == 0, ran.said
        assert "web-0" in {each["pod"] for each in ran.data["moves"]}
        (warning,) = ran.data["warnings"]
        assert warning.startswith("you may not list podmigrations.rescheduler.io")

    async def test_who_may_not_see_them_where_there_are_none_is_not_bothered(self, tmp_path: Path) -> None:
        ran = await self.run(tmp_path, status_answer(403, "Forbidden", "no"), known=False)
        assert (ran.code, ran.data["warnings"]) == (0, [])


def test_what_is_proposed_and_rests_is_a_rejection_with_its_strategy() -> None:
    plan = planned(with_inflight_moves(hot(), [done("m1", NOW - 700, CAME_BACK)], 600.0), OPTIMIZATION)
    found = rejection_of(plan, plan.rejections[0].pod)
    assert (found.guard, found.strategy, found.node) == ("Outcome", OPTIMIZATION, "a")
