"""`make chaos`: hundreds of kills and minutes of faults on a real control plane, and a table of what came of them.

    python -m tests.chaos --kills 200 --fault-minutes 10 --seed 1

Exits with 1 if any invariant was broken; the logs of those rounds are kept, and it is said where.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.cases import CASES, stage
from tests.chaos.faults import run_faults
from tests.chaos.kills import Kill, chosen_kills, rounds_of, run_round
from tests.chaos.lives import PATIENT, Setting
from tests.chaos.tally import Tally
from tests.support.both_clusters import ClusterUnderTest
from tests.support.embedded import EmbeddedControlPlane
from tests.support.fault_proxy import FaultProxy, Upstream
from tests.support.migrations import pod_migrations
from tests.testbed import TestbedUnavailable
from tests.testbed.binaries import binaries
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import NodeShape

MOST_CHOICES = 5  # of kills; each makes up for the points that were not reached in those before


def main() -> int:
    options = _parser().parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    started = time.monotonic()
    try:
        with _cluster(embedded=options.embedded) as cluster, pod_migrations(cluster):
            nodes = cluster.add_nodes(4, NodeShape(), prefix="chaos")
            broken = _kills(cluster, nodes, options) if options.kills or options.only else 0
            broken += _faults(cluster, nodes, options) if options.fault_minutes else 0
    except TestbedUnavailable as reason:
        print(f"chaos: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(f"\n{(time.monotonic() - started) / 60:.1f} minutes, {broken} broken invariants", flush=True)
    return 1 if broken else 0


def _kills(cluster: ClusterUnderTest, nodes: list[str], options: argparse.Namespace) -> int:
    """Rounds of kills until there were enough: some points are not reached, and then others are chosen."""
    tally, started = Tally(), time.monotonic()
    if options.only:
        _rounds(cluster, nodes, rounds_of(Kill(*each.split(":")) for each in options.only), tally)
    else:
        for seed in range(options.seed, options.seed + MOST_CHOICES):
            if (missing := options.kills - tally.kills) > 0:
                _rounds(cluster, nodes, rounds_of(chosen_kills(missing, seed)), tally)
        if tally.kills < options.kills:
            tally.broken.append(f"only {tally.kills} of {options.kills} kills came about")
    print(f"\nKills on {cluster.version}, seed {options.seed}, {(time.monotonic() - started) / 60:.1f} minutes")
    print(tally.table(), flush=True)
    return len(tally.broken)


def _rounds(cluster: ClusterUnderTest, nodes: list[str], rounds: list[list[Kill]], tally: Tally) -> None:
    """All on one stage, or on a new one after one that is broken."""
    while rounds:
        with stage(cluster, nodes, CASES) as made:
            while rounds:
                with _folder(cluster) as (setting, keep):
                    done = run_round(made, setting, rounds.pop(0), _tell)
                    tally.add(done)
                    _tell(f"{tally.kills} kills, {len(rounds)} rounds to go, {len(tally.broken)} broken invariants")
                    if done.broken:
                        _tell("\n    ".join(["BROKEN", *done.broken, f"the log is {keep()}"]))
                        break
                made.clear()


def _faults(cluster: ClusterUnderTest, nodes: list[str], options: argparse.Namespace) -> int:
    with (
        stage(cluster, nodes, CASES) as made,
        _folder(cluster) as (direct, keep),
        FaultProxy(Upstream.of(cluster.kubeconfig), options.seed) as proxy,
    ):
        setting = Setting(proxy.kubeconfig(direct.folder / "kubeconfig"), direct.folder, PATIENT)
        weather = run_faults(made, setting, proxy, options.fault_minutes * 60, _tell)
        print(f"\nFaults on {cluster.version}, seed {options.seed}")
        print(weather.table(), flush=True)
        if weather.broken:
            _tell(f"the log is {keep()}")
    return len(weather.broken)


@contextmanager
def _cluster(*, embedded: bool) -> Iterator[ClusterUnderTest]:
    if embedded:
        with EmbeddedControlPlane() as small:
            yield small
    else:
        with ControlPlane(binaries()) as real:
            yield real


@contextmanager
def _folder(cluster: ClusterUnderTest) -> Iterator[tuple[Setting, Callable[[], Path]]]:
    """A setting in a folder of its own, which is removed at the end unless it is to be kept."""
    folder, kept = Path(tempfile.mkdtemp(prefix="rescheduler-chaos-")), list[Path]()
    setting = Setting(cluster.kubeconfig, folder)

    def keep() -> Path:
        kept.append(setting.log)
        return setting.log

    try:
        yield setting, keep
    except BaseException:
        _tell(f"the log is {keep()}")
        raise
    finally:
        if not kept:
            shutil.rmtree(folder)


def _tell(text: str) -> None:
    print(f"… {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=200, help="at least so many lives to end (%(default)s)")
    parser.add_argument("--fault-minutes", type=float, default=10.0, help="of faults (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of kills and faults (%(default)s)")
    parser.add_argument(
        "--only", action="append", default=[], help="a kill, as case:step:point[:point of rolling back, or deleted]"
    )
    parser.add_argument("--embedded", action="store_true", help="on the embedded cluster")
    return parser


if __name__ == "__main__":
    sys.exit(main())
