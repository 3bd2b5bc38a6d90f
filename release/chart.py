"""Packs the Helm chart as `helm package` would, but always as the same bytes: one time, one owner, sorted names.

`dist` puts the archive beside wheel and sdist. helm itself is not needed for it; a test has the real one read it.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path

from release import tree
from release.tree import ROOT, ReleaseError

FOLDER = "charts/kube-rescheduler"


def chart_version(root: Path = ROOT) -> str:
    """The chart's own version, after a look at whether it is the chart of this version of the product."""
    text = (root / FOLDER / "Chart.yaml").read_text(encoding="utf-8")
    fields: dict[str, str] = dict(re.findall(r'^(version|appVersion): "?([^"\n]+)"?$', text, re.MULTILINE))
    if fields.get("appVersion") != tree.version(root):
        raise ReleaseError(
            f"{FOLDER}/Chart.yaml: appVersion is {fields.get('appVersion')}, the product is {tree.version(root)}: "
            "run `python -m charts.generate`"
        )
    return fields["version"]


def chart_name(root: Path = ROOT) -> str:
    """What the archive is called."""
    return f"kube-rescheduler-{chart_version(root)}.tgz"


def packed(seconds: int, root: Path = ROOT) -> bytes:
    """The archive, as of this time in seconds since 1970."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in (path for path in tree.files(root) if path.startswith(f"{FOLDER}/")):
            content = (root / path).read_bytes()
            member = tarfile.TarInfo(path.removeprefix("charts/"))
            member.size, member.mtime, member.mode = len(content), seconds, 0o644
            archive.addfile(member, io.BytesIO(content))
    # Neither name nor time in the head of the archive; level and program are Python's own.
    return gzip.compress(raw.getvalue(), compresslevel=9, mtime=0)
