"""A page that applies what it is told always shows what it would show if it looked anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, Phase
from rescheduler.model.plan import Method
from rescheduler.web.push import Broadcaster, EventHub, Subscriber
from rescheduler.web.views import columns, migrations
from tests.support.examples import examples
from tests.support.pod_migrations import migration_spec
from tests.support.showing import Stage

NODES = ("a", "b", "c")
ZONE = "topology.kubernetes.io/zone"

node_changes = st.tuples(
    st.just("node"), st.sampled_from(NODES), st.sampled_from(("2", "4")), st.booleans(), st.sampled_from(("", "z"))
)
pod_changes = st.tuples(
    st.just("pod"), st.sampled_from("pqr"), st.sampled_from(("", *NODES)), st.sampled_from(("100m", "1"))
)
move_changes = st.tuples(
    st.just("move"), st.sampled_from("mn"), st.sampled_from(list(Phase)), st.sampled_from(NODES), st.sampled_from(NODES)
)
gone = st.tuples(st.just("gone"), st.sampled_from(("Node a", "Node b", "Pod p", "Pod q", "Move m")))
others = st.sampled_from([("beat",), ("beat",), ("look",)])
acts = st.lists(st.one_of(node_changes, pod_changes, move_changes, gone, others), max_size=40)


@dataclass
class Client:
    """What a page holds, and how it takes events."""

    stage: Stage
    broadcaster: Broadcaster
    map: Json = field(default_factory=dict)
    rows: dict[str, Json] = field(default_factory=dict)

    def look(self) -> None:
        self.map = columns(self.stage.page.state, self.broadcaster.revision)

    def take(self, event: str, data: Any) -> None:
        if event == "nodes" and data["revision"] > self.map["revision"]:
            if data.get("reset"):
                self.look()
                return
            self.map["revision"] = data["revision"]
            for at, cpu, memory, pods, state in data["rows"]:
                for column, value in (("cpu", cpu), ("memory", memory), ("pods", pods), ("state", state)):
                    self.map[column] = [*self.map[column][:at], value, *self.map[column][at + 1 :]]
        elif event == "migration":
            self.rows[data["name"]] = data
        elif event == "gone":
            self.rows.pop(data["name"], None)


def act(stage: Stage, kind: str, *said: Any) -> None:
    match kind, said:
        case "node", (name, cpu, ready, zone):
            stage.node(name, cpu=cpu, ready=ready, labels={ZONE: zone} if zone else {})
        case "pod", (name, place, cpu):
            stage.pod(name, place, cpu=cpu)
        case "move", (name, phase, source, target):
            way = MigrationStatus(phase=phase, method=Method.HANDOFF, source=source, target=target)
            stage.migration(name, migration_spec("p"), way)
        case "gone", (what,):
            thing, name = what.split()
            if thing == "Move":
                stage.watching.migrations.drop(("shop", name))
            else:
                stage.watching.cache.drop(thing, name if thing == "Node" else ("shop", name))


@settings(max_examples=examples(few=10, many=100))
@given(acts)
def test_whenever_it_looks_and_whatever_happens_it_ends_with_what_is_there(done: list[tuple[Any, ...]]) -> None:
    stage, hub = Stage(), EventHub()
    hub._readers.add(Subscriber(lambda: None))  # somebody listens
    broadcaster = Broadcaster(stage.page.state, hub)
    client = Client(stage, broadcaster)
    hub.publish = client.take  # type: ignore[method-assign] # what is told is heard at once
    client.look()
    for kind, *said in done:
        if kind == "beat":
            broadcaster.publish_changes()
        elif kind == "look":
            client.look()
        else:
            act(stage, kind, *said)
    broadcaster.publish_changes()
    assert client.map == columns(stage.page.state, broadcaster.revision)
    there = {row["name"]: row for row in migrations(stage.page.state)["migrations"]}
    assert client.rows.keys() == there.keys()
    assert {name: row["phase"] for name, row in client.rows.items()} == {n: r["phase"] for n, r in there.items()}
