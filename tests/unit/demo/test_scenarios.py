"""The demo's scenarios: known to the help, configured soundly at any speed, with a workload of the size asked for."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.json import Json
from rescheduler.model.quantity import amount
from rescheduler_demo.controller import PortTakenError, make_configuration, try_port
from rescheduler_demo.scenarios import SCENARIOS, FailingNode, Scenario
from rescheduler_demo.workloads import NODE_CPU, Pace, Size, make_workloads
from tests.support.cli import succeeded

SCALED = ("Deployment", "StatefulSet")


def test_the_help_names_every_scenario() -> None:
    told = " ".join(succeeded("demo", "--help").out.split())
    assert f"[{'|'.join(SCENARIOS)}]" in told


@pytest.mark.parametrize("speed", [0.1, 50.0])
@pytest.mark.parametrize("scenario", SCENARIOS.values())
def test_every_scenario_is_configured_soundly_at_any_speed(scenario: type[Scenario], speed: float) -> None:
    config = make_configuration(120, Pace(speed), scenario().config())
    assert config.fields.web.bind_address == config.fields.webhook.bind_address == "127.0.0.1"
    assert config.fields.rescheduling_interval >= 1.0
    assert config.fields.min_pod_age < 60


@pytest.mark.parametrize("scenario", SCENARIOS.values())
@pytest.mark.parametrize("nodes", [3, 12, 100])
def test_every_scenario_has_the_nodes_that_were_asked_for(scenario: type[Scenario], nodes: int) -> None:
    layout = scenario().layout(Size(nodes, 10 * nodes))
    joining = 1 if scenario is FailingNode else 0
    assert layout.first >= 1
    assert layout.first + layout.late + joining == nodes


@given(pods=st.integers(6, 3000), nodes=st.integers(1, 100), percent=st.floats(10, 90))
def test_a_workload_has_as_many_pods_as_wanted_and_no_app_of_one(pods: int, nodes: int, percent: float) -> None:
    made = list(make_workloads(Size(nodes, pods), percent, Pace()))
    sizes = [body["spec"]["replicas"] for body in made if body["kind"] in SCALED]
    assert sum(sizes) == pods
    assert min(sizes) >= 2
    asked = sum(body["spec"]["replicas"] * cpu_of(body) for body in made if body["kind"] in SCALED)
    assert asked <= max(nodes * NODE_CPU * percent / 100, pods), "each asks for a thousandth at least"
    names = [(body["kind"], body["metadata"]["name"]) for body in made]
    assert len(set(names)) == len(names)


def test_a_workload_is_of_every_kind() -> None:
    kinds = {body["kind"] for body in make_workloads(Size(4, 120), 88.0, Pace())}
    assert kinds == {"Deployment", "StatefulSet", "Job", "PodDisruptionBudget"}


def cpu_of(body: Json) -> int:
    container = body["spec"]["template"]["spec"]["containers"][0]
    return amount("cpu", container["resources"]["requests"]["cpu"])


def test_a_free_port_is_free_and_a_taken_one_is_told() -> None:
    taken = []
    for _ in range(5):  # somebody else may take one before it is looked at
        try:
            try_port(try_port())
        except PortTakenError as error:
            taken.append(error)
    assert len(taken) < 5
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTakenError, match=str(port)):
            try_port(port)
