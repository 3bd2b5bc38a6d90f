"""Writes the module files from which one Kubernetes version is built: `python -m tests.testbed pin v1.37.1`.

People run it to add a version; what it writes into `modules/kubernetes/<version>` is committed, and `binaries` builds
from it. Kubernetes' own go.mod replaces its staging modules by folders of its repository, which no other module sees,
so ours replaces each by the version that was published with that release: v1.37.1 goes with v0.37.1.
"""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.testbed import TestbedUnavailable
from tests.testbed.binaries import KUBERNETES_PROGRAMS, MODULES
from tests.testbed.toolchain import Go, cache_folder, go_for

STAGING = "./staging/"
TOOLS = """//go:build tools

// Package tools names the programs that the test bed builds, so that `go mod tidy` keeps what they need.
package tools

import (
{imports}
)
"""


def pin(version: str) -> Path:
    """The folder, with go.mod, go.sum and tools.go as they shall be committed."""
    if not re.fullmatch(r"v1\.\d+\.\d+", version):
        raise TestbedUnavailable(f"{version} is no version of Kubernetes: say v1.37.1 or the like")
    folder = MODULES / "kubernetes" / version
    with TemporaryDirectory() as scratch:
        empty = Path(scratch)
        (empty / "go.mod").write_text("module rescheduler.io/testbed/empty\n\ngo 1.24.0\n")
        upstream = _upstream(go_for(empty, cache_folder()), empty, version)
    imports = "\n".join(f'\t_ "k8s.io/kubernetes/cmd/{program}"' for program in KUBERNETES_PROGRAMS)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(_go_mod(version, upstream))
    (folder / "tools.go").write_text(TOOLS.format(imports=imports))
    # -e: tests of packages that we never build import modules that were never published.
    go_for(folder, cache_folder()).run("mod", "tidy", "-e", folder=folder)
    return folder


def _upstream(go: Go, folder: Path, version: str) -> dict[str, object]:
    """Kubernetes' own go.mod, as Go reads it."""
    found = json.loads(go.run("mod", "download", "-json", f"k8s.io/kubernetes@{version}", folder=folder))
    upstream: dict[str, object] = json.loads(go.run("mod", "edit", "-json", found["GoMod"], folder=folder))
    return upstream


def _go_mod(version: str, upstream: dict[str, object]) -> str:
    replaced = upstream["Replace"]
    assert isinstance(replaced, list)
    staging = [each["Old"]["Path"] for each in replaced if each["New"]["Path"].startswith(STAGING)]
    published = version.replace("v1.", "v0.", 1)
    lines = [
        *("module rescheduler.io/testbed/kubernetes", "", f"go {upstream['Go']}", ""),
        *(f"require k8s.io/kubernetes {version}", "", "replace ("),
        *(f"\t{module} => {module} {published}" for module in sorted(staging)),
        *(")", ""),
    ]
    return "\n".join(lines)
