"""Runs worlds until enough cases were tried, and writes down each disagreement so that it can be replayed."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from tests.contract.agreement.doorkeeper import doorkeeper
from tests.contract.agreement.roll import roll_world
from tests.contract.agreement.stage import staged
from tests.contract.agreement.tally import Tally
from tests.contract.agreement.trial import Case, Trial
from tests.contract.agreement.world import World, name_of
from tests.testbed.cluster import ControlPlane

FOLDER = Path(tempfile.gettempdir()) / "kube-rescheduler-disagreements"
MOST_WRITTEN = 25  # more files would not help


def roll_worlds(version: str, first_seed: int = 1) -> Iterator[World]:
    """Without end."""
    return (roll_world(seed, version) for seed in count(first_seed))


def run_cases(control_plane: ControlPlane, worlds: Iterable[World], cases: int, folder: Path = FOLDER) -> Tally:
    """Run at least that many cases, if the worlds have them; print disagreements at once, and write them to files."""
    tally = Tally()
    started = time.monotonic()
    with doorkeeper(control_plane) as keeper:
        trial = Trial(control_plane, keeper)
        for world in worlds:
            with staged(control_plane, world):
                for case in trial.cases(world):
                    tally.add(case)
                    if not case.agreed:
                        print(describe(case), flush=True)
                        _write(case, world, control_plane.version, folder, tally)
            tally.worlds += 1
            tally.seconds = time.monotonic() - started
            if tally.cases >= cases:
                break
    return tally


def _write(case: Case, world: World, version: str, folder: Path, tally: Tally) -> None:
    if len(tally.written) >= MOST_WRITTEN:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{version}-{name_of(case.pod)}-on-{case.node}.json"
    path.write_text(json.dumps(case.to_json(world, version), indent=1))
    tally.written.append(path)


def replay(control_plane: ControlPlane, path: Path) -> Case:
    """A written case, tried once more on the cluster of today with the feasibility of today."""
    document = json.loads(path.read_text())
    world = World(**document["world"])
    with doorkeeper(control_plane) as keeper, staged(control_plane, world):
        [case] = Trial(control_plane, keeper).cases(world, [document["node"]])
    return case


def describe(case: Case) -> str:
    """What each side says."""
    ours = "; ".join(f"{name}: {why}" for name, why in case.refusals.items()) or "could be there"
    verdict = "agreed" if case.agreed else "DISAGREED"
    return f"{verdict}: {name_of(case.pod)} on {case.node}\n  ours:   {ours}\n  theirs: {case.theirs.said}"


def how_to_replay(tally: Tally) -> str:
    """One command for all the files that were written."""
    files = " ".join(str(path) for path in tally.written)
    return f".venv/bin/python -m tests.contract.agreement replay {files}" if files else ""
