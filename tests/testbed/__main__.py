"""The test bed for people: `python -m tests.testbed build` and `python -m tests.testbed up --nodes 20 --pods 100`.

`make testbed` and `make cluster` call it. `build` builds what is missing and prints where it is; `up` starts a
cluster to play with, prints the path of its kubeconfig, waits for Ctrl-C and leaves nothing behind; `pin` writes the
module files for another Kubernetes version. Paths go to stdout, everything else to stderr, so that scripts can use
them.
"""

import argparse
import signal
import sys

from tests.testbed import TestbedUnavailable
from tests.testbed.binaries import DEFAULT_VERSION, binaries, metrics_server, versions
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import NodeShape, deployment
from tests.testbed.pins import pin
from tests.testbed.processes import until

PODS_PER_DEPLOYMENT = 10


def main() -> int:
    options = _parser().parse_args()
    # A terminal that closes and a `kill` end it as tidily as Ctrl-C does, also where a script left Ctrl-C ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        if options.command == "pin":
            print(pin(options.version))
        elif options.command == "build":
            for path in (*binaries(options.version).paths.values(), metrics_server()):
                print(path)
        else:
            _up(options)
    except TestbedUnavailable as reason:
        print(f"testbed: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _up(options: argparse.Namespace) -> None:
    with ControlPlane(binaries(options.version)) as cluster:
        if options.nodes:
            shape = NodeShape(cpu=options.cpu, memory=options.memory, zones=options.zones.split(","))
            cluster.add_nodes(options.nodes, shape)
        _fill(cluster, options.pods)
        print(f"Kubernetes {cluster.version} is up. Ctrl-C ends it. Try:", file=sys.stderr)
        print(f"  export KUBECONFIG={cluster.kubeconfig}", file=sys.stderr, flush=True)
        print(cluster.kubeconfig, flush=True)
        signal.pause()


def _fill(cluster: ControlPlane, pods: int) -> None:
    """Deployments in the default namespace, with this many pods in all; those that fit are waited for."""
    for number, first in enumerate(range(0, pods, PODS_PER_DEPLOYMENT)):
        replicas = min(PODS_PER_DEPLOYMENT, pods - first)
        cluster.api.post("/apis/apps/v1/namespaces/default/deployments", deployment(f"app-{number}", replicas))

    def all_tried() -> bool:
        """Every pod is running, or the scheduler has said that it fits nowhere."""
        found = cluster.api.get("/api/v1/namespaces/default/pods")["items"]
        conditions = [each["status"].get("conditions", ()) for each in found]
        refused = sum(
            any(each["type"] == "PodScheduled" and each["status"] == "False" for each in c) for c in conditions
        )
        running = sum(each["status"]["phase"] == "Running" for each in found)
        return bool(running + refused >= pods)

    until(f"{pods} pods are running or refused", all_tried, seconds=60 + pods / 10)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build the programs once, print where they are")
    up = commands.add_parser("up", help="start a cluster to play with")
    for command in (build, up):
        known = f"one of: {', '.join(versions())} ($RESCHEDULER_TESTBED_VERSION, else {DEFAULT_VERSION})"
        command.add_argument("--version", help=known)
    up.add_argument("--nodes", type=int, default=20, help="hollow nodes (%(default)s)")
    up.add_argument("--pods", type=int, default=100, help="pods, in Deployments of ten (%(default)s)")
    up.add_argument("--cpu", default=NodeShape.cpu, help="of each node (%(default)s)")
    up.add_argument("--memory", default=NodeShape.memory, help="of each node (%(default)s)")
    up.add_argument("--zones", default=",".join(NodeShape.zones), help="dealt out to the nodes in turn (%(default)s)")
    pins = commands.add_parser("pin", help="write the module files of another Kubernetes version")
    pins.add_argument("version", help="such as v1.37.1")
    return parser


if __name__ == "__main__":
    sys.exit(main())
