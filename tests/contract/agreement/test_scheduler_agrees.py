"""The real kube-scheduler binds pods exactly where our feasibility says that it would.

`make agree CASES=10000` tries more cases. Each disagreement is written to a file, and the failure names the command
that replays it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rescheduler.planning.predicates.node_ports import NodePorts
from tests.contract.agreement.corners import a_port_is_taken_on_the_first_node, corner_world
from tests.contract.agreement.rules import RULES
from tests.contract.agreement.run import describe, how_to_replay, replay, roll_worlds, run_cases
from tests.support.examples import examples
from tests.testbed.cluster import ControlPlane

pytestmark = pytest.mark.cluster

CASES = examples(few=1000, many=2000)
SEED = 1


def test_the_scheduler_binds_a_pod_exactly_where_our_feasibility_says(
    control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = run_cases(control_plane, roll_worlds(control_plane.version, SEED), CASES)
    with capsys.disabled():
        print(f"\n{tally.table()}")
    if tally.disagreements:
        said = "\n".join(describe(case) for case in tally.disagreements[:10])
        pytest.fail(f"{len(tally.disagreements)} disagreements; replay: {how_to_replay(tally)}\n{said}", pytrace=False)
    # Agreement means something only if both answers are common, and if each predicate had cases of its own.
    assert tally.cases >= CASES
    assert 25 <= tally.yes_percent <= 75
    assert {name: tally.alone[name] for name in RULES if tally.alone[name] < tally.cases / 200} == {}
    assert len(tally.unsteady) <= tally.cases / 100


def test_a_wrong_answer_of_ours_is_found_and_written_down_so_that_it_can_be_replayed(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    world = corner_world("mistaken", a_port_is_taken_on_the_first_node, control_plane.version)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodePorts, "mask", lambda self, pod: None)
        tally = run_cases(control_plane, [world], 1, tmp_path)
    [wrong] = tally.disagreements
    assert wrong.ours
    assert "free ports" in wrong.theirs.said
    # As it would be after the mistake is corrected:
    [path] = tally.written
    again = replay(control_plane, path)
    assert again.agreed
    assert set(again.refusals) == {"NodePorts"}
