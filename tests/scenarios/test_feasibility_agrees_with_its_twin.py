"""The vectorised feasibility against its plain twin, on generated clusters: every predicate, every pod, every node."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.whatif import WhatIf
from tests.support.examples import examples, seeds
from tests.support.generated import clusters, random_cluster
from tests.support.twin import World, keeps_rules, refusals


def feasibility_of(snapshot: ClusterSnapshot) -> Feasibility:
    return Feasibility(WhatIf(Columns(snapshot)))


@given(clusters(min_pods=1), st.data())
@settings(max_examples=examples(few=40, many=400))
def test_each_predicate_refuses_exactly_where_the_twin_does(snapshot: ClusterSnapshot, data: st.DataObject) -> None:
    feasible = feasibility_of(snapshot)
    world = World(snapshot)
    for index in data.draw(st.sets(st.integers(0, len(snapshot.pods) - 1), min_size=1, max_size=6)):
        pod = snapshot.pods[index]
        for number, node in enumerate(snapshot.nodes):
            assert feasible.refused_by(index, number) == refusals(world, pod, node.name), (pod.name, node.name)


@given(clusters(min_pods=1), st.data())
@settings(max_examples=examples(few=30, many=300))
def test_an_eviction_is_judged_as_if_the_pod_had_gone(snapshot: ClusterSnapshot, data: st.DataObject) -> None:
    feasible = feasibility_of(snapshot)
    placed = [i for i in range(len(snapshot.pods)) if feasible.whatif.at[i] >= 0]
    if not placed:
        return
    index = data.draw(st.sampled_from(placed))
    pod = snapshot.pods[index]
    world = World(snapshot).without(pod)
    with feasible.whatif.trial():
        feasible.whatif.remove(index, int(feasible.whatif.at[index]))
        for number, node in enumerate(snapshot.nodes):
            assert feasible.refused_by(index, number) == refusals(world, pod, node.name), (pod.name, node.name)


@given(clusters(min_pods=2), st.data())
@settings(max_examples=examples(few=30, many=300))
def test_after_any_moves_the_counts_are_those_of_a_fresh_look(snapshot: ClusterSnapshot, data: st.DataObject) -> None:
    """Counts are kept up to date move by move; a twin that reckons anew must see the same world."""
    feasible = feasibility_of(snapshot)
    world = World(snapshot)
    placed = [i for i in range(len(snapshot.pods)) if feasible.whatif.at[i] >= 0 and snapshot.pods[i].node]
    movers = data.draw(st.lists(st.sampled_from(placed), max_size=4, unique=True)) if placed else []
    asked_early = data.draw(
        st.booleans()
    )  # counts that exist before the moves must follow them, later ones must start right
    if asked_early:
        for index in range(len(snapshot.pods)):
            feasible.count_refusals(index, -1)
    for index in movers:
        target = data.draw(st.integers(0, len(snapshot.nodes) - 1))
        if target == feasible.whatif.at[index]:
            continue
        feasible.try_move(index, target, side_by_side=data.draw(st.booleans()))
        world = world.without(snapshot.pods[index]).plus(snapshot.pods[index], snapshot.nodes[target].name)
    for index, pod in enumerate(snapshot.pods):
        for number, node in enumerate(snapshot.nodes):
            assert feasible.refused_by(index, number) == refusals(world, pod, node.name), (pod.name, node.name)


@given(clusters(min_pods=2), st.data())
@settings(max_examples=examples(few=40, many=400))
def test_a_move_that_we_call_safe_keeps_the_rules_once_the_original_has_gone(
    snapshot: ClusterSnapshot, data: st.DataObject
) -> None:
    feasible = feasibility_of(snapshot)
    placed = [i for i in range(len(snapshot.pods)) if feasible.whatif.at[i] >= 0 and snapshot.pods[i].node]
    if not placed or len(snapshot.nodes) < 2:
        return
    index = data.draw(st.sampled_from(placed))
    source = int(feasible.whatif.at[index])
    target = data.draw(st.integers(0, len(snapshot.nodes) - 1).filter(lambda node: node != source))
    names = (snapshot.nodes[source].name, snapshot.nodes[target].name)
    kept = keeps_rules(World(snapshot), snapshot.pods[index], *names)
    with feasible.whatif.trial():
        lost = feasible.try_move(index, target, side_by_side=True)
    if not lost:
        assert kept, names
    with feasible.whatif.trial():
        assert bool(feasible.try_move(index, target, side_by_side=False)) == bool(lost)


def test_an_undone_trial_leaves_everything_as_it_was() -> None:
    for seed in seeds(few=5, many=20):
        snapshot = random_cluster(seed, nodes=12, pods=60)
        feasible = feasibility_of(snapshot)
        before = [feasible.count_refusals(pod, -1) for pod in range(len(snapshot.pods))]
        with feasible.whatif.trial():
            for pod in range(len(snapshot.pods)):
                source = int(feasible.whatif.at[pod])
                if source >= 0:
                    feasible.try_move(pod, (source + 1) % len(snapshot.nodes), side_by_side=bool(pod % 2))
        assert before == [feasible.count_refusals(pod, -1) for pod in range(len(snapshot.pods))]
        assert (feasible.whatif.used == feasible.whatif.columns.used).all()
        assert (feasible.whatif.at == feasible.whatif.columns.pod_at).all()
