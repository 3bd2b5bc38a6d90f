"""Events of the embedded cluster are removed when nobody has repeated them for an hour."""

import asyncio

from kubemini.controllers.expiry import ExpiryController
from kubemini.events import EventRecorder
from kubemini.kinds import CORE_EVENT, NODE
from tests.unit.kubemini.controllers_at_work import Cluster, at_work


@at_work(ExpiryController)
async def test_an_event_goes_an_hour_after_it_was_last_said(cluster: Cluster) -> None:
    events = EventRecorder(cluster.store, "test")
    node = await cluster.make(NODE, "a")
    events.say(node, "Once", "said once")
    events.say(node, "Twice", "said twice")
    await asyncio.sleep(1800)
    events.say(node, "Twice", "said twice")
    await asyncio.sleep(1790)
    assert cluster.events("a") == ["Once", "Twice"]
    await asyncio.sleep(20)
    assert cluster.events("a") == ["Twice"]
    await asyncio.sleep(1800)
    assert cluster.events("a") == []


@at_work(ExpiryController)
async def test_events_that_somebody_else_deletes_are_forgotten(cluster: Cluster) -> None:
    events = EventRecorder(cluster.store, "test")
    node = await cluster.make(NODE, "a")
    events.say(node, "Gone", "deleted by hand")
    (event,) = cluster.all(CORE_EVENT)
    await cluster.delete(CORE_EVENT, event["metadata"]["name"])
    events.say(node, "Later", "said after that")
    await asyncio.sleep(3605)
    assert cluster.events("a") == []


@at_work(ExpiryController)
async def test_many_old_events_go_without_holding_up_others(cluster: Cluster) -> None:
    events = EventRecorder(cluster.store, "test")
    node = await cluster.make(NODE, "a")
    for number in range(1200):
        events.say(node, "Many", f"number {number}")
    await asyncio.sleep(3601)
    assert cluster.store.count(CORE_EVENT) == 0
