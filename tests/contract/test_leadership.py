"""Leader election against a cluster: one acts, the next one takes over, and the Lease says so as kubectl shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rescheduler.kube.client import ApiClient
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.lease import LeaderElector, LeaseName, LeaseTimes
from rescheduler.model.json import Json
from tests.support.both_clusters import Space
from tests.support.cut_proxy import CutProxy, cut_proxy
from tests.support.manifests import lease

TIMES = LeaseTimes(duration=8.0, renew_deadline=6.0, retry_period=0.1)
NEVER = LeaseTimes(duration=3600.0, renew_deadline=1800.0, retry_period=0.1)
SECONDS = 60.0
NAME = "rescheduler"


class Candidate:
    """One process that would lead, behind a line of its own that can be cut."""

    def __init__(self, election: LeaderElector, proxy: CutProxy) -> None:
        self.election = election
        self.proxy = proxy
        self.running = asyncio.create_task(election.run())

    async def leads(self) -> None:
        async with asyncio.timeout(SECONDS):
            await self.election.leading.wait()

    async def stops(self) -> None:
        async with asyncio.timeout(SECONDS):
            await self.running

    async def end(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])


@asynccontextmanager
async def candidate(space: Space, identity: str, times: LeaseTimes = TIMES) -> AsyncIterator[Candidate]:
    direct = load_connection(KubeconfigOptions(Path(space.cluster.kubeconfig), None), {})
    server = urlsplit(direct.server)
    async with cut_proxy(server.hostname or "", server.port or 80) as proxy:
        connection = replace(direct, server=server._replace(netloc=f"127.0.0.1:{proxy.port}").geturl())
        async with ApiClient(connection) as client:
            found = Candidate(LeaderElector(client, LeaseName(space.name, NAME, identity), times), proxy)
            try:
                yield found
            finally:
                await found.end()


async def eventually(ask: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            if ask():
                return
            await asyncio.sleep(0.05)


def spec_of(space: Space) -> Json:
    found: Json = space.get("Lease", NAME)["spec"]
    return found


async def test_one_of_two_leads_and_renews(space: Space) -> None:
    async with candidate(space, "a", NEVER) as first:
        await first.leads()
        begun = spec_of(space)
        async with candidate(space, "b", NEVER) as second:
            await eventually(lambda: bool(second.election.holder and spec_of(space)["renewTime"] > begun["renewTime"]))
            spec = spec_of(space)
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a", 3600)
            assert (spec["acquireTime"], spec["leaseTransitions"]) == (begun["acquireTime"], 0)
            assert first.election.may_act()
            assert not second.election.leading.is_set()


async def test_of_many_that_come_at_once_one_leads(space: Space) -> None:
    async with (
        candidate(space, "a", NEVER) as a,
        candidate(space, "b", NEVER) as b,
        candidate(space, "c", NEVER) as c,
    ):
        waiting = [asyncio.create_task(each.leads()) for each in (a, b, c)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        holder = spec_of(space)["holderIdentity"]
        await eventually(lambda: {each.election.holder for each in (a, b, c)} == {holder})
        assert [each.election.lease.identity for each in (a, b, c) if each.election.may_act()] == [holder]
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


async def test_when_the_leader_is_cut_off_it_stops_and_then_the_next_one_takes_over(space: Space) -> None:
    async with candidate(space, "a") as first:
        await first.leads()
        async with candidate(space, "b") as second:
            acting: list[tuple[str, bool]] = []
            second.election.on_new_leader = lambda holder: acting.append((holder, first.election.may_act()))
            await eventually(lambda: bool(second.election.holder))
            first.proxy.shut()
            await first.stops()
            assert not first.election.may_act()
            await second.leads()
            assert acting == [("a", True), ("b", False)]
            spec = spec_of(space)
            assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)


async def test_a_lease_that_is_released_is_free_at_once(space: Space) -> None:
    async with candidate(space, "a", NEVER) as first:
        await first.leads()
        async with candidate(space, "b", NEVER) as second:
            await eventually(lambda: second.election.holder == "a")
            await first.end()
            await first.election.release()
            assert not first.election.may_act()
            await second.leads()  # and not in an hour
            assert spec_of(space)["leaseTransitions"] == 1


@pytest.mark.parametrize("written", ["1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"])
async def test_the_clock_of_the_holder_does_not_matter(space: Space, written: str) -> None:
    held = lease(NAME, holderIdentity="other", leaseDurationSeconds=1, renewTime=written, leaseTransitions=4)
    space.create(held)
    async with candidate(space, "a") as found:
        await found.leads()
        spec = spec_of(space)
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("a", 5)


async def test_a_leader_that_is_ousted_stops(space: Space) -> None:
    async with candidate(space, "a") as found:
        await found.leads()
        space.patch("Lease", NAME, {"spec": {"holderIdentity": "other"}})
        await found.stops()
        assert not found.election.may_act()
        assert spec_of(space)["holderIdentity"] == "other"


async def test_a_lease_that_is_deleted_is_made_anew_by_its_holder(space: Space) -> None:
    async with candidate(space, "a", NEVER) as found:
        await found.leads()
        space.delete("Lease", NAME)
        await eventually(lambda: space.find("Lease", NAME) is not None)
        assert spec_of(space)["holderIdentity"] == "a"
        assert found.election.may_act()
