"""How nodes are used is kept up change by change, and is always what planning's own picture says."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.cluster.cache import Cache
from rescheduler.model import marks
from rescheduler.model.plan import NodeLoad, Picture
from rescheduler.model.policy import Policy, Thresholds
from rescheduler.planning.planner import Planner
from rescheduler.web.loads import Loads
from rescheduler.web.standing import COUNT, CPU, MEMORY
from tests.support.showing import NOW, node, pod

THRESHOLDS = Thresholds(cpu=70.0, memory=80.0)
NODES = ("a", "b", "c", "d")
PLACES = ("", *NODES, "nowhere")
PODS = ("p", "q", "r", "s", "t")

some_nodes = st.builds(
    lambda name, cpu, memory, control, ready: (
        "Node",
        name,
        node(
            name,
            cpu=cpu,
            memory=memory,
            labels={marks.CONTROL_PLANE_ROLES[0]: ""} if control else {},
            ready=ready,
        ),
    ),
    st.sampled_from(NODES),
    st.sampled_from(("0", "1", "4", "333m")),
    st.sampled_from(("1Gi", "7777777", "8Gi")),
    st.booleans(),
    st.booleans(),
)
some_pods = st.builds(
    lambda name, place, nominated, cpu, memory, phase: (
        "Pod",
        ("shop", name),
        pod(name, place, nominated=nominated, cpu=cpu, memory=memory, phase=phase),
    ),
    st.sampled_from(PODS),
    st.sampled_from(PLACES),
    st.sampled_from(PLACES),
    st.sampled_from(("0", "100m", "250m", "3", "9000000000000000")),
    st.sampled_from(("0", "512Mi", "3333333", "9E")),
    st.sampled_from(("Pending", "Running", "Succeeded", "Failed", "Unknown")),
)
gone = st.one_of(
    st.sampled_from(NODES).map(lambda name: ("Node", name, None)),
    st.sampled_from(PODS).map(lambda name: ("Pod", ("shop", name), None)),
)


def pictured(loads: Loads) -> Picture:
    standing = loads.standing()
    spread, percent = standing.spread, standing.percent
    figures = zip(standing.frame.names, percent[CPU], percent[MEMORY], standing.used[COUNT], strict=True)
    rows = [NodeLoad(name, round(float(c), 2), round(float(m), 2), int(p)) for name, c, m, p in figures]
    workers = tuple(row for row, worker in zip(rows, standing.frame.workers, strict=True) if worker)
    return Picture(spread.cpu, spread.memory, spread.hot_nodes, workers)


def picture_of(cache: Cache) -> Picture:
    return Planner(cache.snapshot(NOW), Policy(thresholds=THRESHOLDS)).outcome().before


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(some_nodes, some_pods, gone), max_size=40), st.integers(0, 40))
def test_after_any_changes_the_figures_are_those_of_plannings_own_picture(changes, first) -> None:  # type: ignore[no-untyped-def] # hypothesis fills them in
    cache = Cache("test")
    loads: Loads | None = None
    for number, (kind, key, body) in enumerate(changes):
        if number == first:  # what was there before it listened counts, too
            loads = Loads(cache, THRESHOLDS)
        if body is None:
            cache.drop(kind, key)
        else:
            cache.put(kind, msgspec.json.encode(body))
        if loads is not None and number % 5 == 0:
            assert pictured(loads) == picture_of(cache)
    loads = loads or Loads(cache, THRESHOLDS)
    assert pictured(loads) == picture_of(cache)
    assert loads.names() == sorted(row.name for row in cache.rows("Node"))
    for name in loads.names():
        there = {(p.namespace, p.name) for p in cache.rows("Pod") if (p.node or p.nominated) == name}
        assert {(p.namespace, p.name) for p in loads.pods_on(name)} == there


def test_what_changes_nothing_that_is_shown_touches_no_node() -> None:
    cache = Cache("test")
    loads = Loads(cache, THRESHOLDS)
    cache.put("Node", msgspec.json.encode(node("a")))
    cache.put("Pod", msgspec.json.encode(pod("p", "a")))
    loads.touched.clear()
    changes = loads.changes
    cache.put("Node", msgspec.json.encode(node("a")))  # a heartbeat
    cache.put("Pod", msgspec.json.encode(pod("p", "a") | {"status": {"phase": "Running"}}))  # not Ready any more
    assert (loads.touched, loads.changes) == (set(), changes)
    cache.put("Pod", msgspec.json.encode(pod("p", "a", cpu="1")))
    assert loads.touched == {"a"}


def test_the_map_is_laid_out_anew_only_when_nodes_come_go_or_stand_elsewhere() -> None:
    cache = Cache("test")
    loads = Loads(cache, THRESHOLDS)
    cache.put("Node", msgspec.json.encode(node("a")))
    layout = loads.layout
    cache.put("Node", msgspec.json.encode(node("a", ready=False)))
    cache.put("Node", msgspec.json.encode(node("a", cpu="8", unschedulable=True)))
    assert loads.layout == layout
    cache.put("Node", msgspec.json.encode(node("a", labels={"topology.kubernetes.io/zone": "z"})))
    assert loads.layout == layout + 1
    cache.drop("Node", "a")
    assert loads.layout == layout + 2
    assert loads.standing().spread.cpu.max == 0.0


def test_more_nodes_come_and_go_than_there_was_room_for() -> None:
    cache = Cache("test")
    loads = Loads(cache, THRESHOLDS)
    for number in range(200):
        cache.put("Node", msgspec.json.encode(node(f"n{number}", cpu="10")))
        cache.put("Pod", msgspec.json.encode(pod(f"p{number}", f"n{number}", cpu="1")))
        if number % 3 == 0:
            cache.drop("Node", f"n{number}")
    assert pictured(loads) == picture_of(cache)
