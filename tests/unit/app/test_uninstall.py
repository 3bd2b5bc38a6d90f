"""The leases a cleanup claims, in virtual time, though the namespace goes: before, halfway, and when it is back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from rescheduler.app.uninstall import LeaseClaim, while_claiming
from rescheduler.kube.client import ApiRequest
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.lease import LeaseName
from tests.support.virtual_time import clock, in_virtual_time
from tests.unit.kube.test_lease import PATH, TIMES, Line, Server


class Home(Server):
    """The same in a namespace, which may be on its way out."""

    def __init__(self) -> None:
        super().__init__()
        self.namespaces: list[dict[str, object]] = [{"metadata": {}}]
        self.refusal: ApiError | None = None

    def ends(self) -> None:
        """Its namespace is being deleted, and the Lease is gone already."""
        self.lease = None
        self.namespaces = [{"metadata": {"deletionTimestamp": "2026-11-16T08:00:00Z"}}]
        self.refusal = ApiError(403, "Forbidden", "unable to create new content: it is being terminated", PATH)

    def is_gone(self) -> None:
        """Not even the namespace is there."""
        self.lease, self.namespaces = None, []
        self.refusal = ApiError(404, "NotFound", 'namespaces "ours" not found', PATH)

    def answer(self, request: ApiRequest) -> bytes:
        if request.path == "/api/v1/namespaces":
            assert request.params == {"fieldSelector": "metadata.name=ours"}
            return json.dumps({"items": self.namespaces}).encode()
        if request.method == "POST" and self.refusal is not None:
            raise self.refusal
        return super().answer(request)


def claim(server: Server) -> LeaseClaim:
    return LeaseClaim(Line(server), LeaseName("ours", "rescheduler", "cleanup"), TIMES)


async def done_at() -> float:
    return clock()


@in_virtual_time
async def test_where_no_namespace_is_the_work_begins_at_once() -> None:
    home = Home()
    home.is_gone()
    assert await while_claiming([claim(home)], 30.0, done_at) == 0.0


@in_virtual_time
async def test_a_holder_that_nobody_has_seen_may_act_for_as_long_as_a_lease_lasts() -> None:
    home = Home()
    home.ends()
    begun = await while_claiming([claim(home)], 30.0, done_at)
    assert TIMES.duration <= begun <= TIMES.duration + 2 * TIMES.retry_period


@pytest.mark.parametrize("end", [Home.ends, Home.is_gone])
@in_virtual_time
async def test_a_holder_may_act_for_as_long_as_it_said_when_its_lease_is_gone(end: Callable[[Home], None]) -> None:
    home = Home()
    home.write(holderIdentity="controller-0", leaseDurationSeconds=20)
    working = asyncio.create_task(while_claiming([claim(home)], 30.0, done_at))
    await asyncio.sleep(3)
    home.write(renewTime="later")
    renewed = clock()
    await asyncio.sleep(3)
    end(home)
    assert renewed + 20 <= await working <= renewed + 20 + 2 * (TIMES.retry_period * 1.2)


@in_virtual_time
async def test_work_goes_on_when_the_namespace_goes_meanwhile() -> None:
    home = Home()
    ours = claim(home)

    async def work() -> bool:
        home.ends()
        await asyncio.sleep(60)
        home.is_gone()
        await asyncio.sleep(60)
        return ours.may_act()

    assert await while_claiming([ours], 30.0, work)
    assert home.lease is None


@in_virtual_time
async def test_work_stops_when_the_namespace_is_made_anew_and_somebody_leads_there() -> None:
    home = Home()
    home.is_gone()

    async def work() -> None:
        home.namespaces, home.refusal = [{"metadata": {}}], None
        home.write(holderIdentity="controller-1", leaseDurationSeconds=15)
        await asyncio.Event().wait()

    with pytest.raises(ClusterError, match="the lease was lost in the middle"):
        await while_claiming([claim(home)], 30.0, work)
    assert home.spec["holderIdentity"] == "controller-1"


@in_virtual_time
async def test_a_holder_that_renews_is_a_controller_and_one_that_does_not_is_told_as_such() -> None:
    home = Home()
    home.write(holderIdentity="controller-0", leaseDurationSeconds=3600)

    async def renew() -> None:
        while True:
            await asyncio.sleep(2)
            home.write(renewTime=str(clock()))

    renewing = asyncio.create_task(renew())
    with pytest.raises(ClusterError, match=r"a controller is running: Lease ours/rescheduler is held by controller-0"):
        await while_claiming([claim(home)], 30.0, done_at)
    renewing.cancel()
    with pytest.raises(ClusterError) as told:
        await while_claiming([claim(home)], 30.0, done_at)
    assert str(told.value) == (
        "Lease ours/rescheduler is held by controller-0, which has not renewed it for 30 s; it lasts 3600 s. If no "
        "controller runs, delete it: kubectl -n ours delete lease rescheduler"
    )


@in_virtual_time
async def test_who_may_not_write_the_lease_is_told_that_and_not_that_a_controller_runs() -> None:
    home = Home()
    home.refusal = ApiError(403, "Forbidden", "leases is forbidden", PATH)
    with pytest.raises(ClusterError, match="Lease ours/rescheduler cannot be taken: leases is forbidden"):
        await while_claiming([claim(home)], 30.0, done_at)
