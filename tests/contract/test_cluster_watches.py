"""Watches: what they tell, from where they can begin, how they end, and what they say when the past is forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Items, Space, name_of, refusal
from tests.support.custom_kinds import Widgets, widgets
from tests.support.manifests import lease
from tests.testbed.api import ApiError
from tests.testbed.processes import until

END = "k8s.io/initial-events-end"
STREAMED = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


def told(events: Items) -> list[tuple[str, str]]:
    return [(event["type"], name_of(event["object"])) for event in events]


def watched(space: Space, **query: str) -> Items:
    """All events of a watch that the server ends after a second."""
    with space.api.watch(space.path("Lease", **({"timeoutSeconds": "1"} | query))) as events:
        return list(events)


def is_last(event: Json) -> bool:
    return name_of(event["object"]) == "last"


def version(event: Json) -> int:
    return int(event["object"]["metadata"]["resourceVersion"])


def test_a_watch_tells_what_came_after_its_version_in_order(space: Space) -> None:
    since = space.version("Lease")
    space.create(lease("a"))
    space.patch("Lease", "a", {"spec": {"holderIdentity": "b"}})
    space.delete("Lease", "a")
    space.create(lease("last"))
    events = space.events("Lease", since, is_last)
    assert told(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "last")]
    assert [version(event) for event in events] == sorted({version(event) for event in events})
    assert events[1]["object"]["spec"]["holderIdentity"] == "b"
    assert events[2]["object"]["spec"]["holderIdentity"] == "b"  # as it was last
    assert events[0]["object"]["kind"] == "Lease"


def test_a_watch_goes_on_where_another_ended(space: Space) -> None:
    since = space.version("Lease")
    for name in ("a", "b", "last"):
        space.create(lease(name))
    first = space.events("Lease", since, lambda event: name_of(event["object"]) == "a")
    rest = space.events("Lease", str(version(first[-1])), is_last)
    assert told(rest) == [("ADDED", "b"), ("ADDED", "last")]


def test_events_come_while_the_watch_is_open(space: Space) -> None:
    with space.api.watch(space.path("Lease", resourceVersion=space.version("Lease"))) as events:
        for name in ("a", "b"):
            space.create(lease(name))
            assert told([next(events)]) == [("ADDED", name)]


def test_a_watch_without_a_version_begins_with_what_is_there(space: Space) -> None:
    space.create(lease("a"))
    space.create(lease("b"))
    for number, query in enumerate(({}, {"resourceVersion": "0"})):
        with space.api.watch(space.path("Lease", **query)) as events:
            there = [("ADDED", name) for name in ("a", "b", *map(str, range(number)))]
            assert sorted(told([next(events) for _ in there])) == sorted(there)
            space.create(lease(str(number)))
            assert told([next(events)]) == [("ADDED", str(number))]


def test_a_watch_ends_when_its_time_is_over(space: Space) -> None:
    assert watched(space, resourceVersion=space.version("Lease")) == []


def test_an_object_that_leaves_the_selection_is_told_as_deleted(space: Space) -> None:
    space.create(lease("a", labels={"color": "red"}))
    since = space.version("Lease")
    space.patch("Lease", "a", {"spec": {"holderIdentity": "b"}})
    space.patch("Lease", "a", {"metadata": {"labels": {"color": "blue"}}})
    space.patch("Lease", "a", {"spec": {"holderIdentity": "c"}})
    space.patch("Lease", "a", {"metadata": {"labels": {"color": "red"}}})
    space.create(lease("last", labels={"color": "red"}))
    red = space.events("Lease", since, is_last, labelSelector="color=red")
    assert told(red) == [("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("ADDED", "last")]
    assert red[1]["object"]["metadata"]["labels"] == {"color": "red"}  # as it was when it was last selected
    assert version(red[0]) < version(red[1]) < version(red[2])  # but with the version of the change that took it out


def test_a_watch_obeys_field_selectors(space: Space) -> None:
    since = space.version("Lease")
    space.create(lease("a"))
    space.create(lease("last"))
    assert told(space.events("Lease", since, is_last, fieldSelector="metadata.name=last")) == [("ADDED", "last")]


def test_who_asks_for_bookmarks_gets_one_before_the_watch_ends(space: Space) -> None:
    query = {"resourceVersion": space.version("Lease"), "timeoutSeconds": "6"}  # it comes in the last two
    made = space.create(lease("a"))

    def marked() -> Items | None:
        """Bookmarks are a favour: a server that is busy in those two seconds sends none."""
        asking = space.path("Lease", allowWatchBookmarks="true", **query)
        with space.api.watch(asking) as asked, space.api.watch(space.path("Lease", **query)) as plain:
            seen = list(asked)
            assert told(list(plain)) == [("ADDED", "a")]
        return seen if len(seen) > 1 else None

    events = until("a watch has a bookmark", marked)
    assert told(events[:1]) == [("ADDED", "a")]
    assert {event["type"] for event in events[1:]} == {"BOOKMARK"}
    assert version(events[-1]) >= int(made["metadata"]["resourceVersion"])
    assert events[-1]["object"]["kind"] == "Lease"
    assert "name" not in events[-1]["object"]["metadata"]


def test_a_streamed_list_ends_with_a_marked_bookmark_and_goes_on_as_a_watch(space: Space) -> None:
    for name in ("a", "b"):
        space.create(lease(name))
    with space.api.watch(space.path("Lease", **STREAMED)) as events:
        initial = [next(events) for _ in range(3)]
        assert sorted(told(initial[:2])) == [("ADDED", "a"), ("ADDED", "b")]
        assert initial[2]["type"] == "BOOKMARK"
        assert initial[2]["object"]["metadata"]["annotations"] == {END: "true"}
        assert version(initial[2]) >= max(map(version, initial[:2]))
        space.create(lease("c"))
        assert told([next(events)]) == [("ADDED", "c")]


def test_a_streamed_list_is_as_new_as_it_was_asked_to_be(space: Space) -> None:
    made = space.create(lease("a"))["metadata"]["resourceVersion"]
    with space.api.watch(space.path("Lease", resourceVersion=made, **STREAMED)) as events:
        assert told([next(events)]) == [("ADDED", "a")]
        assert version(next(events)) >= int(made)


def test_an_empty_streamed_list_is_its_bookmark(space: Space) -> None:
    with space.api.watch(space.path("Lease", **STREAMED)) as events:
        only = next(events)
    assert (only["type"], only["object"]["metadata"]["annotations"]) == ("BOOKMARK", {END: "true"})


def test_a_streamed_list_must_say_how_its_version_is_meant(space: Space) -> None:
    with refusal(422, "Invalid"):
        watched(space, sendInitialEvents="true", allowWatchBookmarks="true")


@pytest.fixture
def fresh_kind(space: Space) -> Iterator[Widgets]:
    with widgets(space.cluster) as made:
        yield made


def test_a_watch_from_before_the_history_is_told_that_it_is_gone(space: Space, fresh_kind: Widgets) -> None:
    # Nobody has kept what a kind was before there was this kind.

    def from_the_beginning() -> Items | None:
        try:
            with space.api.watch(f"{fresh_kind.path(space.name)}?resourceVersion=1&timeoutSeconds=5") as events:
                return list(events)
        except ApiError as error:
            if error.code != 429:
                raise
            return None  # the kind's storage is about to start

    (only,) = until("the watch is answered", from_the_beginning)
    assert only["type"] == "ERROR"
    status = only["object"]
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    assert (status["code"], status["reason"]) == (410, "Expired")
    # What to do then: list again, and watch from there.
    listed = space.api.get(fresh_kind.path(space.name))["metadata"]["resourceVersion"]
    space.api.post(fresh_kind.path(space.name), fresh_kind.widget("a"))
    with space.api.watch(f"{fresh_kind.path(space.name)}?resourceVersion={listed}") as events:
        assert told([next(events)]) == [("ADDED", "a")]


def test_a_watch_in_a_namespace_tells_nothing_of_others(space: Space) -> None:
    since = space.version("Lease")
    other = space.path("Lease").replace(space.name, "default")
    space.api.post(other, lease(f"elsewhere-{space.name[-8:]}"))
    try:
        space.create(lease("last"))
        assert told(space.events("Lease", since, is_last)) == [("ADDED", "last")]
    finally:
        space.api.delete(f"{other}/elsewhere-{space.name[-8:]}")
