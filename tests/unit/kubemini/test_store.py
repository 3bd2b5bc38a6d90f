"""The store keeps versions, history and look-ups; what it has given out never changes."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubemini import store as store_module
from kubemini.errors import StatusError
from kubemini.kinds import NODE, POD
from kubemini.store import Change, Store


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata}}


def owned_by(*uids: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "Thing", "name": uid, "uid": uid, "controller": True} for uid in uids]


def test_a_replacement_of_an_older_version_is_a_conflict_and_changes_nothing() -> None:
    store = Store()
    first = store.create(POD, pod("a"))
    newest = store.replace(POD, pod("a", labels={"x": "1"}), first.version)
    with pytest.raises(StatusError) as refused:
        store.replace(POD, pod("a", labels={"x": "2"}), first.version)
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert store.get(POD, ("default", "a")) is newest


def test_what_a_reader_does_to_an_object_does_not_reach_the_store() -> None:
    store = Store()
    store.create(POD, pod("a"))
    for entry in store.entries(POD):
        entry.object()["metadata"]["name"] = "changed"
    assert [entry.object()["metadata"]["name"] for entry in store.entries(POD)] == ["a"]


def test_fields_that_are_not_set_can_be_selected_as_empty_and_switches_as_false() -> None:
    store = Store()
    assert store.create(POD, pod("a")).fields["spec.nodeName"] == ""
    node = {"kind": "Node", "metadata": {"name": "n", "uid": "u"}}
    assert store.create(NODE, node).fields["spec.unschedulable"] == "false"


def test_a_version_that_is_no_longer_kept_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "HISTORY", 2)
    store = Store()
    versions = [store.create(POD, pod(name)).version for name in "abcd"]
    with pytest.raises(StatusError) as refused:
        store.since(POD, versions[0])
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert [change.entry.key[1] for change in store.since(POD, versions[1])] == ["c", "d"]


def test_subscribers_hear_of_their_kinds_only_and_until_they_unsubscribe() -> None:
    store = Store()
    heard: list[Change] = []
    unsubscribe = store.subscribe(heard.append, POD)
    store.create(NODE, {"kind": "Node", "metadata": {"name": "n", "uid": "u"}})
    store.create(POD, pod("a"))
    unsubscribe()
    store.create(POD, pod("b"))
    assert [change.entry.key[1] for change in heard] == ["a"]


class StoreBesideADictionary(RuleBasedStateMachine):
    """Whatever is written in whatever order, look-ups say what a plain dictionary says, and the history replays it."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.twin: dict[str, str] = {}
        self.heard: list[Change] = []
        self.store.subscribe(self.heard.append, POD)

    @rule(name=st.sampled_from("abcdef"), owner=st.sampled_from("xyz"))
    def create(self, name: str, owner: str) -> None:
        if name in self.twin:
            with pytest.raises(StatusError):
                self.store.create(POD, pod(name))
        else:
            self.store.create(POD, pod(name, ownerReferences=owned_by(owner)))
            self.twin[name] = owner

    @precondition(lambda self: self.twin)
    @rule(data=st.data(), owner=st.sampled_from("xyz"))
    def give_to(self, data: st.DataObject, owner: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.twin)))
        entry = self.store.get(POD, ("default", name))
        assert entry is not None
        self.store.replace(POD, pod(name, ownerReferences=owned_by(owner)), entry.version)
        self.twin[name] = owner

    @precondition(lambda self: self.twin)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.twin)))
        entry = self.store.get(POD, ("default", name))
        assert entry is not None
        self.store.delete(POD, entry.object(), entry.version)
        del self.twin[name]

    @invariant()
    def looks_like_the_dictionary(self) -> None:
        assert [entry.key[1] for entry in self.store.entries(POD)] == sorted(self.twin)
        for owner in "xyz":
            owned = {entry.key[1] for entry in self.store.owned(POD, owner)}
            assert owned == {name for name, each in self.twin.items() if each == owner}

    @invariant()
    def its_history_replays_it(self) -> None:
        assert self.store.since(POD, 1) == self.heard
        replayed: set[str] = set()
        for change in self.heard:
            (replayed.discard if change.type == "DELETED" else replayed.add)(change.entry.key[1])
        assert replayed == set(self.twin)


TestStoreBesideADictionary = StoreBesideADictionary.TestCase
