"""How nodes are used is kept up change by change, and is always what planning's own picture says."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.decode.cache import ClusterCache
from rescheduler.model import labels
from rescheduler.model.plan import ClusterLoad, NodeLoad
from rescheduler.model.policy import Policy, Pool, ThresholdMode, Thresholds, Utilization
from rescheduler.model.snapshot import MeasuredUsage
from rescheduler.planning.planner import Planner
from rescheduler.planning.thresholds import other_percents, resources_over
from rescheduler.web.node_stats import COUNT, CPU, MEMORY, NodeStatsTracker
from tests.support.examples import examples
from tests.support.planning import threshold_fields
from tests.support.pod_migrations import replace
from tests.support.showing import NOW, node, pod

POLICY = Policy(cpu_threshold=70.0, memory_threshold=80.0)
GPU = "example.com/gpu"
NODES = ("a", "b", "c", "d")
PLACES = ("", *NODES, "nowhere")
PODS = ("p", "q", "r", "s", "t")
OWNERS = ("", "web-1", "web-2")
GIB = 2**30

some_nodes = st.builds(
    lambda name, cpu, memory, pool, ready, pods, gpu: (
        "Node",
        name,
        _with_gpu(
            node(
                name,
                cpu=cpu,
                memory=memory,
                pods=pods,
                labels={labels.CONTROL_PLANE_ROLES[0]: ""} if pool == "control" else {"pool": pool},
                ready=ready,
            ),
            gpu,
        ),
    ),
    st.sampled_from(NODES),
    st.sampled_from(("0", "1", "4", "333m")),
    st.sampled_from(("1Gi", "7777777", "8Gi")),
    st.sampled_from(("gpu", "small", "", "control")),
    st.booleans(),
    st.sampled_from(("0", "2", "110")),
    st.sampled_from(("", "0", "4")),
)
some_pods = st.builds(
    lambda name, place, nominated, cpu, memory, phase, more: (
        "Pod",
        ("shop", name),
        _asking_gpu(pod(name, place, nominated=nominated, cpu=cpu, memory=memory, phase=phase, owner=more[0]), more[1]),
    ),
    st.sampled_from(PODS),
    st.sampled_from(PLACES),
    st.sampled_from(PLACES),
    st.sampled_from(("0", "100m", "250m", "3", "9000000000000000")),
    st.sampled_from(("0", "512Mi", "3333333", "9E")),
    st.sampled_from(("Pending", "Running", "Succeeded", "Failed", "Unknown")),
    st.tuples(st.sampled_from(OWNERS), st.sampled_from(("", "1", "3"))),
)
gone = st.one_of(
    st.sampled_from(NODES).map(lambda name: ("Node", name, None)),
    st.sampled_from(PODS).map(lambda name: ("Pod", ("shop", name), None)),
)
changes_of_a_cluster = st.lists(st.one_of(some_nodes, some_pods, gone), max_size=40)
some_thresholds = st.builds(
    Thresholds,
    st.sampled_from((5.0, 33.3, 70.0, 100.0)),
    st.sampled_from((5.0, 33.3, 80.0)),
    st.sampled_from(((), (("pods", 50.0),), ((GPU, 30.0),), ((GPU, 75.0), ("pods", 90.0)))),
    st.sampled_from(ThresholdMode),
)
some_policies = st.builds(
    lambda top, gpu, small, utilization: Policy(
        **threshold_fields(top),
        pools=tuple(
            Pool(name, f"pool={name}", **threshold_fields(thresholds))
            for name, thresholds in (("gpu", gpu), ("small", small))
            if thresholds is not None
        ),
        utilization=utilization,
    ),
    some_thresholds,
    st.none() | some_thresholds,
    st.none() | some_thresholds,
    st.sampled_from(Utilization),
)
amounts = st.one_of(
    st.tuples(st.integers(0, 9000), st.integers(0, 9 * GIB)).map(lambda got: (("cpu", got[0]), ("memory", got[1]))),
    st.integers(0, 9000).map(lambda cpu: (("cpu", cpu),)),
)
some_measured = st.none() | st.builds(
    MeasuredUsage,
    st.dictionaries(st.sampled_from(NODES), amounts),
    st.dictionaries(st.sampled_from([("shop", name) for name in PODS]), amounts),
    st.dictionaries(st.sampled_from([("ReplicaSet", "shop", name) for name in OWNERS if name]), amounts),
)


def _with_gpu(body: dict[str, object], gpu: str) -> dict[str, object]:
    if gpu:
        body["status"]["allocatable"][GPU] = gpu  # type: ignore[index] # the builder's own
    return body


def _asking_gpu(body: dict[str, object], gpu: str) -> dict[str, object]:
    if gpu:
        body["spec"]["containers"][0]["resources"]["requests"][GPU] = gpu  # type: ignore[index] # as above
    return body


def pictured(loads: NodeStatsTracker) -> ClusterLoad:
    """What the page shows, as a plan would say it."""
    standing = loads.stats()
    frame, spread, percent, judging = standing.table, standing.load, standing.percent, standing.table.rules
    known = [row for row, name in zip(judging.rows, judging.counted, strict=True) if name in ("cpu", "memory", "pods")]
    there = [row for row in judging.rows if row in known or _is_known(loads, judging.resources[row])]
    names = [judging.resources[row] for row in there]
    pools = ["", *(pool.name for pool in judging.policy.node_pools)]
    rows = tuple(
        NodeLoad(
            name,
            round(float(percent[CPU, at]), 2),
            round(float(percent[MEMORY, at]), 2),
            int(standing.used[COUNT, at]),
            resources_over(judging.counted, standing.over[:, at]),
            pools[frame.pool_number[at] + 1],
            other_percents(percent[there, at], frame.capacity[there, at]),
        )
        for at, name in enumerate(frame.names)
        if frame.workers[at]
    )
    others = {name: each for name, each in spread.others.items() if name in names}
    return ClusterLoad(spread.cpu, spread.memory, spread.hot_nodes, rows, others, spread.hot_nodes_by_pool)


def _is_known(loads: NodeStatsTracker, resource: str) -> bool:
    """Whether anybody has or asks for it: a plan says nothing about what nobody has heard of."""
    nodes, pods = loads._cache.rows("Node"), loads._pods.values()
    asked = (name for each in pods for name, _ in each.shape.requests)
    return resource in {*asked, *(name for each in nodes for name, _ in each.allocatable)}


def picture_of(cache: ClusterCache, policy: Policy, measured: MeasuredUsage | None = None) -> ClusterLoad:
    snapshot = replace(cache.snapshot(NOW), measured=measured)
    return Planner(snapshot, policy).build_plan().before


def changed(cache: ClusterCache, change: tuple[str, object, object]) -> None:
    kind, key, body = change
    if body is None:
        cache.drop(kind, key)
    else:
        cache.put(kind, msgspec.json.encode(body))


@settings(max_examples=examples(few=30, many=300))
@given(changes_of_a_cluster, st.integers(0, 40), some_policies)
def test_after_any_changes_the_figures_are_those_of_plannings_own_picture(changes, first, policy) -> None:  # type: ignore[no-untyped-def] # hypothesis fills them in
    cache = ClusterCache("test")
    loads: NodeStatsTracker | None = None
    for number, change in enumerate(changes):
        if number == first:  # what was there before it listened counts, too
            loads = NodeStatsTracker(cache, policy)
        changed(cache, change)
        if loads is not None and number % 5 == 0:
            assert pictured(loads) == picture_of(cache, policy)
    loads = loads or NodeStatsTracker(cache, policy)
    assert pictured(loads) == picture_of(cache, policy)
    assert loads.names() == sorted(row.name for row in cache.rows("Node"))
    for name in loads.names():
        there = {(p.namespace, p.name) for p in cache.rows("Pod") if (p.node or p.nominated) == name}
        assert {(p.namespace, p.name) for p in loads.pods_on(name)} == there


@settings(max_examples=examples(few=30, many=300))
@given(changes_of_a_cluster, st.lists(some_measured, min_size=1, max_size=3), some_policies)
def test_measured_use_is_that_of_plannings_own_picture_too_however_it_changes(changes, told, policy) -> None:  # type: ignore[no-untyped-def] # as above
    async def live() -> None:
        cache, measured = ClusterCache("test"), None
        loads = NodeStatsTracker(cache, policy)
        for number, change in enumerate(changes):
            changed(cache, change)
            if number % 7 == 0:
                measured = told[number // 7 % len(told)]
                await loads.use_measured(measured)
            if number % 3 == 0:
                assert pictured(loads) == picture_of(cache, policy, measured)
        await loads.use_measured(told[-1])
        assert pictured(loads) == picture_of(cache, policy, told[-1])
        assert loads.measured == (told[-1] is not None and policy.utilization is not Utilization.REQUESTS)

    asyncio.run(live())


@settings(max_examples=examples(few=15, many=150))
@given(changes_of_a_cluster, st.lists(some_policies, min_size=2, max_size=3), some_measured)
def test_another_policy_counts_from_the_moment_on_and_measured_use_from_the_next_measurement(  # type: ignore[no-untyped-def] # as above
    changes, policies, measured
) -> None:
    async def live() -> None:
        cache = ClusterCache("test")
        loads = NodeStatsTracker(cache, policies[0])
        for number, change in enumerate(changes):
            changed(cache, change)
            if number % 9 == 0:
                loads.use_policy(policies[number // 9 % len(policies)])
                await loads.use_measured(measured)
        loads.use_policy(policies[-1])
        await loads.use_measured(measured)
        assert pictured(loads) == picture_of(cache, policies[-1], measured)

    asyncio.run(live())


async def test_pods_that_come_while_a_measurement_is_summed_count() -> None:
    cache = ClusterCache("test")
    policy = replace(POLICY, utilization=Utilization.USAGE)
    loads = NodeStatsTracker(cache, policy)
    for number in range(200):
        cache.put("Node", msgspec.json.encode(node(f"n{number}")))
        cache.put("Pod", msgspec.json.encode(pod(f"p{number}", f"n{number}")))
    measured = MeasuredUsage(pods={("shop", f"p{number}"): (("cpu", number), ("memory", 1)) for number in range(400)})
    summing = asyncio.create_task(loads.use_measured(measured))
    for number in range(200, 400):
        await asyncio.sleep(0)
        cache.put("Pod", msgspec.json.encode(pod(f"p{number}", f"n{number - 200}")))
        loads.stats()  # somebody looks meanwhile
    cache.drop("Node", "n7")
    await summing
    assert pictured(loads) == picture_of(cache, policy, measured)


async def test_a_measurement_touches_the_nodes_whose_figures_it_changes_and_no_others() -> None:
    cache = ClusterCache("test")
    loads = NodeStatsTracker(cache, replace(POLICY, utilization=Utilization.USAGE))
    for name in NODES:
        cache.put("Node", msgspec.json.encode(node(name)))
    cache.put("Pod", msgspec.json.encode(pod("p", "a", cpu="500m", memory="1Gi")))
    loads.stats()
    loads.touched.clear()
    await loads.use_measured(MeasuredUsage(nodes={"b": (("cpu", 5),), "c": (("cpu", 0),)}))
    assert loads.touched == {"b"}
    loads.touched.clear()
    await loads.use_measured(MeasuredUsage(pods={("shop", "p"): (("cpu", 7), ("memory", 1))}))
    assert loads.touched == {"a", "b"}
    found = cache.row("Pod", ("shop", "p"))
    assert found is not None
    assert loads.usage(found) == (("cpu", 7), ("memory", 1))
    await loads.use_measured(None)
    assert (loads.measured, loads.usage(found), loads.stats().used[CPU].tolist()) == (False, None, [500, 0, 0, 0])


def test_what_changes_nothing_that_is_shown_touches_no_node() -> None:
    cache = ClusterCache("test")
    loads = NodeStatsTracker(cache, POLICY)
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
    cache = ClusterCache("test")
    loads = NodeStatsTracker(cache, POLICY)
    cache.put("Node", msgspec.json.encode(node("a")))
    layout = loads.layout
    cache.put("Node", msgspec.json.encode(node("a", ready=False)))
    cache.put("Node", msgspec.json.encode(node("a", cpu="8", unschedulable=True)))
    assert loads.layout == layout
    cache.put("Node", msgspec.json.encode(node("a", labels={"topology.kubernetes.io/zone": "z"})))
    assert loads.layout == layout + 1
    cache.drop("Node", "a")
    assert loads.layout == layout + 2
    assert loads.stats().load.cpu.max == 0.0


def test_a_node_stands_in_the_pool_of_the_configuration_and_in_the_clouds_where_it_has_none() -> None:
    cache = ClusterCache("test")
    gpu = Pool("gpu", "tier=gpu", cpu_threshold=90.0)
    loads = NodeStatsTracker(cache, replace(POLICY, pools=(gpu,)))
    cloud = {"karpenter.sh/nodepool": "general"}
    cache.put("Node", msgspec.json.encode(node("a", labels={"tier": "gpu", **cloud})))
    cache.put("Node", msgspec.json.encode(node("b", labels=cloud)))
    standing = loads.stats()
    assert [each.pool for each in standing.table.infos] == ["gpu", "general"]
    assert [standing.thresholds_of(at)["cpu"] for at in (0, 1)] == [90.0, 70.0]


def test_more_nodes_come_and_go_than_there_was_room_for() -> None:
    cache = ClusterCache("test")
    loads = NodeStatsTracker(cache, POLICY)
    for number in range(200):
        cache.put("Node", msgspec.json.encode(node(f"n{number}", cpu="10")))
        cache.put("Pod", msgspec.json.encode(pod(f"p{number}", f"n{number}", cpu="1")))
        if number % 3 == 0:
            cache.drop("Node", f"n{number}")
    assert pictured(loads) == picture_of(cache, POLICY)
