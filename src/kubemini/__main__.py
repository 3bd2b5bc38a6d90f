"""An embedded cluster for experiments: `python -m kubemini --nodes 20 --pods 100`.

Prints how to reach it, and ends with Ctrl-C. Nothing is kept: each start is a new cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal

import click

from kubemini.api import Target
from kubemini.cluster import EmbeddedCluster
from kubemini.errors import Json
from kubemini.kinds import DEPLOYMENT, POD

_PER_DEPLOYMENT = 20
_IMAGE = "hollow:1"  # never pulled: nothing really runs


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(0, 5000), help="How many nodes.")
@click.option("--pods", default=0, show_default=True, type=click.IntRange(0, 150_000), help="How many pods.")
@click.option(
    "--late-nodes",
    default=0,
    show_default=True,
    type=click.IntRange(0, 5000),
    help="How many more nodes come when all pods are placed: then the cluster is out of balance.",
)
@click.option("--metrics", is_flag=True, help="Serve metrics.k8s.io: what pods use, by their annotations or requests.")
def main(nodes: int, pods: int, late_nodes: int, metrics: bool) -> None:  # noqa: FBT001
    """Start a small Kubernetes in this process, for experiments."""
    asyncio.run(_serve(nodes, pods, late_nodes, metrics=metrics))


async def _serve(nodes: int, pods: int, late_nodes: int, *, metrics: bool) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with EmbeddedCluster() as cluster:
        if metrics:
            cluster.serve_metrics()
        with cluster.kubeconfig_file() as path:
            click.echo(f"API server: {cluster.url}\nexport KUBECONFIG={path}\nCtrl-C ends it.")
            await cluster.add_nodes(nodes)
            for first in range(0, pods, _PER_DEPLOYMENT):
                body = _deployment(f"app-{first // _PER_DEPLOYMENT}", min(_PER_DEPLOYMENT, pods - first))
                await cluster.api.create(Target(DEPLOYMENT, "default"), body)
            while not stop.is_set() and not (cluster.idle and len(cluster.api.store.entries(POD)) >= pods):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), 0.1)
            await cluster.add_nodes(late_nodes)
            click.echo(f"{nodes + late_nodes} nodes, {pods} pods: all is there.")
            await stop.wait()


def _deployment(name: str, replicas: int) -> Json:
    labels = {"app": name}
    container = {"name": "main", "image": _IMAGE, "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


if __name__ == "__main__":
    main()
