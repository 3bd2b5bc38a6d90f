"""The real kube-scheduler and our feasibility agree in every corner that was found so far."""

from __future__ import annotations

import pytest

from tests.contract.agreement.corners import CORNERS, Corner, corner_world
from tests.contract.agreement.doorkeeper import doorkeeper
from tests.contract.agreement.run import describe
from tests.contract.agreement.stage import staged
from tests.contract.agreement.trial import Case, Trial
from tests.testbed.cluster import ControlPlane

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def asked(control_plane: ControlPlane) -> dict[Corner, list[Case]]:
    """Every corner's cases: asked together, because each start of the scheduler takes a second."""
    found: dict[Corner, list[Case]] = {}
    with doorkeeper(control_plane) as keeper:
        trial = Trial(control_plane, keeper)
        for number, corner in enumerate(CORNERS):
            world = corner_world(f"corner{number}", corner, control_plane.version)
            with staged(control_plane, world):
                found[corner] = list(trial.cases(world))
    return found


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: corner.__name__)
def test_both_agree_where(asked: dict[Corner, list[Case]], corner: Corner) -> None:
    said = "\n".join(describe(case) for case in asked[corner])
    assert all(case.agreed for case in asked[corner]), said
