"""`rescheduler run` as a process on the embedded cluster whose configuration file is edited: rehearsals follow it, too,
and flags stay over it. tests/e2e/test_reload.py has the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space
from tests.support.config_volumes import replace_file
from tests.support.controller_process import Controller, write_config
from tests.support.embedded import EmbeddedControlPlane
from tests.support.manifests import deployment
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until

CHANGED = "configuration reloaded"
OPTIMIZATION = ["ResourceOptimization"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedControlPlane]:
    with EmbeddedControlPlane() as embedded:
        yield embedded


@pytest.fixture
def space(request: pytest.FixtureRequest, cluster: EmbeddedControlPlane) -> Iterator[Space]:
    """A namespace with three pods on one node, which use 60 per cent of it; another node is empty."""
    node, other = cluster.add_nodes(2, prefix="reload")
    with own_namespace(cluster.api, request.node.name) as name:
        made = Space(cluster, name)
        with made.cordoned(other):
            made.create(deployment("web", 3, cpu="800m"))
            made.rolled_out("web")
        yield made
    cluster.remove_nodes([node, other])


def says(controller: Controller, message: str) -> Json:
    def found() -> Json | None:
        return next((each for each in controller.said() if each["msg"] == message), None)

    return until(f"the controller says {message!r}", found, [controller])


def edited(path: Path, space: Space, **fields: object) -> None:
    """The file is replaced by one with these fields."""
    beside = write_config(path.with_name("beside.yaml"), space.name, enabledStrategies=OPTIMIZATION, **fields)
    replace_file(path, beside.read_text())


def test_a_rehearsal_follows_its_file_and_flags_stay_over_it(space: Space, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config.yaml", space.name, enabledStrategies=OPTIMIZATION)
    flags = ("--dry-run", "--memory-threshold", "80")
    with Controller(space.cluster.kubeconfig, config, tmp_path / "log", *flags) as controller:
        says(controller, "planned")
        edited(config, space, cpuThreshold=50, memoryThreshold=70)
        assert says(controller, CHANGED)["changed"] == "cpuThreshold"
        says(controller, "would move")
        said = [each["msg"] for each in controller.said()]
        assert said.index(CHANGED) < said.index("would move")
        assert controller.stop() == 0
    assert not any("Configuration" in each["reason"] for each in space.list("Event")), "a rehearsal writes nothing"
