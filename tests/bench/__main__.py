"""`make bench`: quality and speed of planning on generated skewed clusters, each figure beside its goal.

Every time is a ratio to a reference that is measured in the same run, so that it means the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.skewed import write_cluster

SIZES = ((1_000, 30_000), (5_000, 150_000))
Figures = dict[str, float]


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="only the smaller cluster")
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, seed {options.seed}\n")
    found: list[tuple[Figures, Figures]] = []
    for nodes, pods in SIZES[:1] if options.small else SIZES:
        with tempfile.TemporaryDirectory(prefix="rescheduler-bench-") as folder:
            path = Path(folder) / "cluster.json"
            _tell(f"generating {nodes:,} nodes and {pods:,} pods")
            with path.open("wb") as out:
                write_cluster(out, nodes, pods, options.seed)
            found.append(_size(path))
    if len(found) == 2:
        small, large = (plan["plan"] / plan["pods"] for plan, _ in found)
        _line("planning time per pod, large ÷ small", f"{large / small:.2f}", large / small <= 1.5, "≤ 1.5")


def _size(path: Path) -> tuple[Figures, Figures]:
    decode = _measured("decode", path)
    shed = _measured("ResourceOptimization", path)
    balance = _measured("LoadBalancing", path)
    print(f"{shed['nodes']:,.0f} nodes, {shed['pods']:,.0f} pods, {decode['file_mb']:,.0f} MB of JSON")
    _line(
        "ResourceOptimization 70/80 %: hot nodes",
        f"{shed['hot_before']:.0f} → {shed['hot_after']:.0f}",
        not shed["hot_after"],
        "0",
    )
    ratio = shed["moves"] / max(shed["least"], 1)
    _line(
        "  moves ÷ least possible", f"{shed['moves']:.0f} ÷ {shed['least']:.0f} = {ratio:.3f}", ratio <= 1.05, "≤ 1.05"
    )
    share = shed["plan"] / decode["structs"]
    _line(
        "  planning ÷ msgspec into structs",
        f"{shed['plan']:.2f} s ÷ {decode['structs']:.2f} s = {share:.2f}",
        share <= 0.3,
        "≤ 0.3",
    )
    share = shed["plan"] / decode["dicts"]
    _line(
        "  planning ÷ msgspec into dicts",
        f"{shed['plan']:.2f} s ÷ {decode['dicts']:.2f} s = {share:.2f}",
        share <= 0.3,
        "≤ 0.3",
    )
    _line("  peak memory, reading included", f"{shed['peak_mb']:.0f} MB", shed["peak_mb"] <= 1000, "≤ 1,000 MB")
    _line(
        "  reading ÷ msgspec into dicts",
        f"{shed['read']:.1f} s ÷ {decode['dicts']:.2f} s = {shed['read'] / decode['dicts']:.2f}",
    )
    for resource in ("cpu", "memory"):
        spread = f"{balance[f'{resource}_spread_before']:.1f} → {balance[f'{resource}_spread_after']:.1f}"
        deviation = f"{balance[f'{resource}_stddev_before']:.1f} → {balance[f'{resource}_stddev_after']:.1f}"
        _line(f"LoadBalancing: {resource} spread, stddev (% points)", f"{spread}, {deviation}")
    _line(
        "  moves, planning",
        f"{balance['moves']:.0f}, {balance['plan']:.2f} s ({balance['plan'] / decode['structs']:.2f} of structs)",
    )
    print()
    return shed, balance


def _measured(what: str, path: Path) -> Figures:
    _tell(f"measuring {what}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.measure", what, str(path)], stdout=subprocess.PIPE, check=True, text=True
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def _line(name: str, figure: str, met: bool | None = None, goal: str = "") -> None:
    verdict = "" if met is None else f"  (goal {goal}: {'met' if met else 'MISSED'})"
    print(f"  {name:<48} {figure}{verdict}", flush=True)


def _tell(text: str) -> None:
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
