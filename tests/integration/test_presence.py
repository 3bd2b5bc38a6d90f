"""Whether a controller runs is told from its Lease; who may not look at Leases is not bothered with guesses."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from rescheduler.app.follow import explain_absence
from rescheduler.app.planning import LiveCluster
from rescheduler.kube.errors import ApiError
from rescheduler.model.time import format_instant
from tests.support.api_server import Answer, api_server, list_answer, status_answer
from tests.support.kubeconfigs import kubeconfig, written

LEASES = "/apis/coordination.k8s.io/v1/leases"


async def told(folder: Path, answer: Answer) -> str:
    async with api_server() as server:
        server.script(LEASES, answer)
        path = written(folder / "kubeconfig", kubeconfig({"server": server.url}, {"token": "t"}))
        return await asyncio.to_thread(LiveCluster(str(path)).run, explain_absence, "kube-rescheduler")


def held(seconds_ago: float, holder: str = "somebody", **spec: Any) -> dict[str, Any]:
    renewed = format_instant(time.time() - seconds_ago)
    return {"metadata": {"name": "kube-rescheduler"}, "spec": {"holderIdentity": holder, "renewTime": renewed, **spec}}


async def test_a_lease_that_is_kept_says_that_one_runs(tmp_path: Path) -> None:
    assert await told(tmp_path, list_answer([held(5)])) == ""
    assert await told(tmp_path, list_answer([held(50, leaseDurationSeconds=600)])) == ""


async def test_clocks_may_be_a_little_apart_and_odd_times_are_not_guessed_about(tmp_path: Path) -> None:
    assert await told(tmp_path, list_answer([held(40)])) == ""
    assert await told(tmp_path, list_answer([held(-300)])) == ""
    odd = {"holderIdentity": "x", "renewTime": "yesterday"}
    assert await told(tmp_path, list_answer([held(0) | {"spec": odd}])) == ""


async def test_one_kept_lease_among_old_ones_is_enough(tmp_path: Path) -> None:
    assert await told(tmp_path, list_answer([held(5000), held(1)])) == ""


@pytest.mark.parametrize(
    ("leases", "said"),
    [
        ([], "there is no Lease kube-rescheduler in any namespace"),
        ([held(1000)], "the Lease kube-rescheduler ran out "),
        ([held(0, holder="")], "the Lease kube-rescheduler has no holder"),
        ([{"metadata": {"name": "kube-rescheduler"}}], "the Lease kube-rescheduler has no holder"),
    ],
)
async def test_no_lease_an_old_one_and_a_released_one_say_that_none_does(
    tmp_path: Path, leases: list[dict[str, Any]], said: str
) -> None:
    found = await told(tmp_path, list_answer(leases))
    assert found.startswith("no controller seems to run: ")
    assert said in found


async def test_who_may_not_look_is_told_nothing(tmp_path: Path) -> None:
    assert await told(tmp_path, status_answer(403, "Forbidden", "leases is forbidden")) == ""


async def test_other_errors_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ApiError):
        await told(tmp_path, status_answer(400, "BadRequest", "no"))
