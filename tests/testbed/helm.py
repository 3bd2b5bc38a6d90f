"""The real helm, for the tests of the chart: built once from its Go module, pinned by `modules/helm`.

`make tools` builds it by `python -m tests.testbed.helm`, which prints where it is; `tests/chart` and
`tests/e2e/test_chart.py` run it as `Helm`. It never looks at the settings, caches or plugins of the user.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

import yaml

from rescheduler.model.json import Json
from tests.testbed import TestbedUnavailable, require_tool
from tests.testbed.binaries import MODULES, Component, built
from tests.testbed.toolchain import cache_folder, last_lines

CHART = Path(__file__).parents[2] / "charts" / "kube-rescheduler"
MODULE = "helm.sh/helm/v4"


class HelmRefused(AssertionError):  # noqa: N818 - it says what helm did, and a test that is not about it fails by it
    """Helm ended with an error; the message is what it said."""


def program() -> Path:
    """The machine's, if RESCHEDULER_HELM says where; else the pinned one, built now if it never was."""
    require_tool("helm")
    if given := os.environ.get("RESCHEDULER_HELM"):
        return Path(given)
    component = Component(MODULES / "helm", MODULE, {"helm": f"{MODULE}/cmd/helm"})
    return built(component, cache_folder())["helm"]


@dataclass(frozen=True)
class Helm:
    """Helm on one cluster, or on none."""

    kubeconfig: Path | None = None
    command: Path = field(default_factory=program)

    def __call__(self, *args: str | Path, stdin: str = "") -> str:
        """What it prints on stdout; HelmRefused says what it said where it ends with an error."""
        ran = self.ran(*args, stdin=stdin)
        if ran.returncode:
            raise HelmRefused(f"helm {' '.join(map(str, args))}:\n{last_lines(ran.stdout + ran.stderr, 60)}")
        return ran.stdout

    def ran(self, *args: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """However it ends."""
        return subprocess.run(
            [self.command, *args], input=stdin, capture_output=True, text=True, check=False, env=self._environment()
        )

    def rendered(self, values: Json | None = None, *flags: str) -> list[Json]:
        """The objects that the chart gives with these values, as release and namespace `kube-rescheduler`."""
        return [each for each in yaml.safe_load_all(self.template(values, *flags)) if each]

    def template(self, values: Json | None = None, *flags: str) -> str:
        """The same as text."""
        named = ("kube-rescheduler", CHART, "--namespace", "kube-rescheduler", "--include-crds")
        return self("template", *named, "--values", "-", *flags, stdin=yaml.safe_dump(values or {}))

    def _environment(self) -> dict[str, str]:
        nowhere = str(Path(gettempdir()) / "rescheduler-no-helm")  # no repositories, plugins or settings
        homes = {f"HELM_{each}_HOME": nowhere for each in ("CACHE", "CONFIG", "DATA")}
        # Without a kubeconfig that exists, no cluster can be meant by mistake.
        return {"PATH": os.environ["PATH"], "HOME": nowhere, **homes, "KUBECONFIG": str(self.kubeconfig or nowhere)}


def main() -> int:
    try:
        print(program())
    except TestbedUnavailable as reason:
        print(f"testbed: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
