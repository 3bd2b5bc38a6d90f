"""The election, in virtual time, over a server that can be cut off, be slow, or be changed by others.

The loop's clock jumps to the next thing to do, so that minutes of leases take no time and every run is the same. A
request that its sender has given up may still arrive, as on a real network.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import ApiError
from rescheduler.kube.lease import LeaderElector, LeaseName, LeaseTimes
from rescheduler.model.json import Json
from tests.support.virtual_time import VirtualLoop, clock, in_virtual_time

PATH = "/apis/coordination.k8s.io/v1/namespaces/ours/leases/rescheduler"
TIMES = LeaseTimes()


class Server:
    """One lease."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.written = 0.0
        self._versions = itertools.count(1)

    @property
    def spec(self) -> Json:
        assert self.lease is not None
        found: Json = self.lease["spec"]
        return found

    def write(self, **spec: Any) -> None:
        """Somebody else's write."""
        body = self.lease or {"metadata": {"name": "rescheduler", "namespace": "ours"}, "spec": {}}
        self.store({**body, "spec": {**body["spec"], **spec}})

    def store(self, body: Json) -> Json:
        self.written = clock()
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(next(self._versions))}}
        return self.lease

    def answer(self, request: ApiRequest) -> bytes:
        if request.method == "GET":
            if self.lease is None:
                raise ApiError(404, "NotFound", "no such lease", PATH)
            return json.dumps(self.lease).encode()
        body = json.loads(request.body or b"")
        there = self.lease is not None
        stale = self.lease and body["metadata"].get("resourceVersion") != self.lease["metadata"]["resourceVersion"]
        if there if request.method == "POST" else stale:
            raise ApiError(409, "Conflict", "somebody was faster", PATH)
        if request.method == "PUT" and not there:
            raise ApiError(404, "NotFound", "no such lease", PATH)
        return json.dumps(self.store(body)).encode()


class Line(ApiClient):
    """One candidate's way to the server: `cut`, or so many seconds long, there and back."""

    def __init__(self, server: Server) -> None:
        self.cut = False
        self.there = self.back = 0.0
        self._server = server
        self._under_way: set[asyncio.Task[bytes]] = set()

    async def send(self, request: ApiRequest) -> bytes:
        if self.cut:
            raise ApiError(None, "Unreachable", "nobody there", request.path)
        task = asyncio.create_task(self._arrive(request, self.there, self.back))
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)  # whoever gives up does not take back what is on its way

    async def _arrive(self, request: ApiRequest, there: float, back: float) -> bytes:
        await asyncio.sleep(there)
        try:
            return self._server.answer(request)
        finally:
            await asyncio.sleep(back)

    def _done(self, task: asyncio.Task[bytes]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # it was told to whoever asked, if he still listened

    async def settled(self) -> None:
        await asyncio.gather(*self._under_way, return_exceptions=True)


class Candidate:
    def __init__(self, server: Server, name: str, times: LeaseTimes = TIMES) -> None:
        self.line = Line(server)
        self.heard: list[str] = []
        lease = LeaseName("ours", "rescheduler", name)
        self.election = LeaderElector(self.line, lease, times, on_new_leader=self.heard.append)
        self.task = asyncio.create_task(self.election.run())

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.line.settled()


async def ended(*candidates: Candidate) -> None:
    for each in candidates:
        await each.end()


@in_virtual_time
async def test_the_first_leads_and_the_others_know_it() -> None:
    server = Server()
    first = Candidate(server, "a")
    await first.election.leading.wait()
    second = Candidate(server, "b")
    await asyncio.sleep(300)
    assert first.election.may_act()
    assert not second.election.leading.is_set()
    assert not second.election.may_act()
    assert (first.heard, second.heard) == (["a"], ["a"])
    await ended(first, second)


@in_virtual_time
async def test_who_cannot_renew_stops_before_the_next_one_takes_over() -> None:
    server = Server()
    first = Candidate(server, "a")
    await first.election.leading.wait()
    second = Candidate(server, "b")
    await asyncio.sleep(20)
    first.line.cut = True
    await first.task
    stopped = clock()
    assert stopped - server.written <= TIMES.renew_deadline
    assert not first.election.leading.is_set()
    assert not second.election.leading.is_set()
    await second.election.leading.wait()
    assert clock() - stopped > TIMES.duration - TIMES.renew_deadline - TIMES.retry_period
    assert server.spec["leaseTransitions"] == 1
    assert second.heard == ["a", "b"]
    await ended(first, second)


@in_virtual_time
async def test_a_server_that_never_answers_is_no_reason_to_go_on_for_longer() -> None:
    server = Server()
    first = Candidate(server, "a")
    await first.election.leading.wait()
    renewed = clock()
    first.line.there = 600.0
    await first.task
    assert clock() - renewed <= TIMES.renew_deadline
    await ended(first)


@in_virtual_time
async def test_after_a_release_nobody_waits_for_the_lease_to_run_out() -> None:
    server = Server()
    first = Candidate(server, "a")
    await first.election.leading.wait()
    second = Candidate(server, "b")
    await asyncio.sleep(20)
    await first.end()
    released = clock()
    await first.election.release()
    assert not first.election.may_act()
    assert server.spec["holderIdentity"] == ""
    await second.election.leading.wait()
    assert clock() - released <= TIMES.retry_period * 1.2
    await ended(second)


@in_virtual_time
async def test_a_release_frees_nothing_that_is_not_ours() -> None:
    server = Server()
    first = Candidate(server, "a")
    await first.election.leading.wait()
    await first.end()
    server.write(holderIdentity="b")
    await first.election.release()
    assert server.spec["holderIdentity"] == "b"
    second = Candidate(server, "c")
    await asyncio.sleep(5)
    await second.end()
    await second.election.release()
    assert server.spec["holderIdentity"] == "b"


@in_virtual_time
async def test_a_release_that_does_not_arrive_is_no_error() -> None:
    first = Candidate(Server(), "a")
    await first.election.leading.wait()
    await first.end()
    first.line.cut = True
    await first.election.release()
    assert not first.election.leading.is_set()


@pytest.mark.parametrize("written", ["1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"])
@in_virtual_time
async def test_what_other_clocks_say_does_not_matter(written: str) -> None:
    server = Server()
    server.write(holderIdentity="other", leaseDurationSeconds=15, renewTime=written)
    candidate = Candidate(server, "a")
    for _ in range(10):
        await asyncio.sleep(5)
        server.write(renewTime=written)
    assert not candidate.election.leading.is_set()
    last = clock()
    await candidate.election.leading.wait()
    assert 15 <= clock() - last <= 15 + 2 * TIMES.retry_period * 1.2
    await ended(candidate)


@in_virtual_time
async def test_how_long_a_lease_lasts_is_what_its_holder_says() -> None:
    server = Server()
    server.write(holderIdentity="other", leaseDurationSeconds=100)
    candidate = Candidate(server, "a")
    await asyncio.sleep(99)
    assert not candidate.election.leading.is_set()
    await candidate.election.leading.wait()
    await ended(candidate)


@in_virtual_time
async def test_when_it_was_taken_stays_while_it_is_renewed_and_each_new_holder_counts() -> None:
    server = Server()
    first = Candidate(server, "a")
    await first.election.leading.wait()
    begun = dict(server.spec)
    assert begun["acquireTime"] == begun["renewTime"]
    assert (begun["leaseTransitions"], begun["leaseDurationSeconds"]) == (0, 15)
    await asyncio.sleep(30)
    assert server.spec["acquireTime"] == begun["acquireTime"]
    assert server.spec["renewTime"] > begun["renewTime"]
    assert server.spec["leaseTransitions"] == 0
    await first.end()
    await first.election.release()
    second = Candidate(server, "b")
    await second.election.leading.wait()
    assert server.spec["acquireTime"] > begun["acquireTime"]
    assert server.spec["leaseTransitions"] == 1
    await ended(second)


@in_virtual_time
async def test_what_others_wrote_beside_the_election_stays() -> None:
    server = Server()
    server.store({"metadata": {"name": "rescheduler", "labels": {"team": "x"}}, "spec": {"strategy": "OldestFirst"}})
    candidate = Candidate(server, "a")
    await candidate.election.leading.wait()
    assert server.lease is not None
    assert server.lease["metadata"]["labels"] == {"team": "x"}
    assert server.spec["strategy"] == "OldestFirst"
    await ended(candidate)


@in_virtual_time
async def test_of_two_that_come_at_once_one_loses_and_tries_again() -> None:
    server = Server()
    candidates = [Candidate(server, "a"), Candidate(server, "b")]
    for each in candidates:
        each.line.there = 0.5  # both have read before either writes
    await asyncio.sleep(60)
    assert [each.election.may_act() for each in candidates] == [True, False]
    server.lease = None  # and the same for a lease that somebody has deleted
    await asyncio.sleep(60)
    assert sum(each.election.may_act() for each in candidates) == 1
    await ended(*candidates)


@in_virtual_time
async def test_a_leader_that_others_have_ousted_stops_even_if_the_lease_is_free_again() -> None:
    server = Server()
    first = Candidate(server, "a")
    await first.election.leading.wait()
    server.write(holderIdentity="b")
    server.write(holderIdentity="")
    await first.task
    assert not first.election.leading.is_set()
    assert server.spec["holderIdentity"] == ""
    await ended(first)


@in_virtual_time
async def test_a_leader_that_was_frozen_past_its_deadline_knows_it_at_once() -> None:
    loop = cast("VirtualLoop", asyncio.get_running_loop())
    first = Candidate(Server(), "a")
    await first.election.leading.wait()
    assert first.election.may_act()
    loop.freeze(TIMES.renew_deadline)
    assert first.election.leading.is_set()  # nothing has run yet that could have cleared it
    assert not first.election.may_act()
    await first.task
    assert not first.election.leading.is_set()
    await ended(first)


@in_virtual_time
async def test_a_leader_that_was_frozen_in_the_middle_of_a_request_knows_it_too() -> None:
    loop = cast("VirtualLoop", asyncio.get_running_loop())
    first = Candidate(Server(), "a")
    await first.election.leading.wait()
    first.line.back = 1.0
    await asyncio.sleep(TIMES.retry_period + 1.5)  # the lease is read, and its renewal is on its way
    loop.freeze(60)
    assert not first.election.may_act()
    await first.task
    assert not first.election.may_act()
    await ended(first)


@in_virtual_time
async def test_a_renewal_counts_from_when_it_was_sent_not_from_when_it_was_answered() -> None:
    loop = cast("VirtualLoop", asyncio.get_running_loop())
    sent = clock()
    first = Candidate(Server(), "a")
    first.line.back = 2.0
    await first.election.leading.wait()
    assert clock() - sent == 4.0
    loop.freeze(TIMES.renew_deadline - 4.0)
    assert not first.election.may_act()
    await ended(first)


@in_virtual_time
async def test_an_answer_that_makes_no_sense_is_a_failed_attempt() -> None:
    server = Server()
    server.lease = {"metadata": {}, "spec": 5}
    candidate = Candidate(server, "a")
    await asyncio.sleep(10)
    assert not candidate.election.leading.is_set()
    server.lease = None
    await candidate.election.leading.wait()
    await ended(candidate)


TROUBLE = st.tuples(
    st.integers(0, 2), st.booleans(), st.floats(0, 14), st.floats(0, 14), st.floats(0, 30)
)  # who; cut off; seconds there and back; for how long


@given(st.lists(TROUBLE, max_size=12))
@in_virtual_time
async def test_whatever_the_network_does_never_two_may_act(
    troubles: list[tuple[int, bool, float, float, float]],
) -> None:
    server = Server()
    candidates = [Candidate(server, name) for name in "abc"]

    async def watch() -> None:
        while True:
            assert sum(each.election.may_act() for each in candidates) <= 1
            await asyncio.sleep(0.25)

    watching = asyncio.create_task(watch())
    for who, cut, there, back, seconds in troubles:
        line = candidates[who].line
        line.cut, line.there, line.back = cut, there, back
        await asyncio.sleep(seconds)
    for index, each in enumerate(candidates):
        each.line.cut, each.line.there, each.line.back = False, 0.0, 0.0
        if each.task.done():  # as a restarted process would
            candidates[index] = Candidate(server, f"{each.election.lease.identity}+")
            await each.end()
    await asyncio.sleep(60)
    assert sum(each.election.may_act() for each in candidates) == 1
    assert not watching.done(), watching
    watching.cancel()
    await ended(*candidates)
