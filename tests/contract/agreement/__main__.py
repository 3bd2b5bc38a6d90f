"""The agreement by hand: `python -m tests.contract.agreement run --cases 10000` and `… replay FILE`.

Each starts a real control plane of its own, and leaves nothing behind but the files of disagreements.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.contract.agreement.run import describe, how_to_replay, replay, roll_worlds, run_cases
from tests.testbed import TestbedUnavailable
from tests.testbed.binaries import binaries
from tests.testbed.cluster import ControlPlane


def main() -> int:
    options = _parser().parse_args()
    try:
        with ControlPlane(binaries(options.version)) as cluster:
            return _run(cluster, options) if options.command == "run" else _replay(cluster, options.file)
    except TestbedUnavailable as reason:
        print(f"agreement: {reason}", file=sys.stderr)
        return 2


def _run(cluster: ControlPlane, options: argparse.Namespace) -> int:
    tally = run_cases(cluster, roll_worlds(cluster.version, options.seed), options.cases)
    print(tally.table())
    if tally.disagreements:
        print(how_to_replay(tally))
    return 1 if tally.disagreements else 0


def _replay(cluster: ControlPlane, paths: list[Path]) -> int:
    cases = [replay(cluster, path) for path in paths]
    for case in cases:
        print(describe(case))
    return 0 if all(case.agreed for case in cases) else 1


def _parser() -> argparse.ArgumentParser:
    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m tests.contract.agreement", description=about)
    parser.add_argument("--version", help="of Kubernetes ($RESCHEDULER_TESTBED_VERSION, else the newest)")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="try many cases")
    run.add_argument("--cases", type=int, default=10_000, help="at least so many (%(default)s)")
    run.add_argument("--seed", type=int, default=1, help="of the first world (%(default)s)")
    again = commands.add_parser("replay", help="try written cases again")
    again.add_argument("file", type=Path, nargs="+")
    return parser


if __name__ == "__main__":
    sys.exit(main())
