"""Writes what is made from elsewhere: of the chart, of deploy/, and the tables of values. `python -m charts.generate`.

Into the chart go the version, the definition of PodMigration, rules and dashboard, and values.schema.json; out of it
come the plain manifests of deploy/, rendered by the real helm, and the tables. `--check` only says what is out of step,
as `tests/chart/test_in_step.py` does.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.testbed.helm import CHART, Helm

from charts.value_comments import table, values_of
from charts.value_schema import value_schema
from rescheduler import __version__
from rescheduler.cli.output import format_document
from rescheduler.migration.crd import POD_MIGRATION

ROOT = CHART.parents[1]
_MADE = "Made by `python -m charts.generate` from charts/kube-rescheduler: change the chart and run it again."
_TABLE = re.compile(r"(<!-- values:begin [^\n]*-->\n).*?(<!-- values:end -->)", re.DOTALL)
_OF_HELM = re.compile(r"^(# Source: .*|\s+helm\.sh/\S+: .*|\s+app\.kubernetes\.io/managed-by: Helm)\n", re.MULTILINE)
PLAIN = {"nameOverride": "rescheduler", "fullnameOverride": "rescheduler"}
"""Names that plain manifests had before there was a chart."""
RIGHTS = ("serviceaccount", "clusterrole", "role", "rbac-crds", "rbac-webhook", "rbac-page", "webhook-configuration")

_NAMESPACE = """\
---
apiVersion: v1
kind: Namespace
metadata:
  name: kube-rescheduler
  labels:
    app.kubernetes.io/name: rescheduler
    # The pods need nothing that this standard forbids.
    pod-security.kubernetes.io/enforce: restricted
"""
_INSTALL = f"""\
# All of kube-rescheduler for `kubectl apply -f`, with the default values of the chart: see README.md beside this file.
# {_MADE}
"""
_RIGHTS = f"""\
# What the controller (`rescheduler run`) may do, and nothing else: each rule says what it is for. install.yaml has the
# same, but for the right to install the definition of PodMigration, which it brings along.
# tests/e2e/test_rbac.py runs the controller with exactly these rights and compares them with the audit log of the API
# server: nothing is refused, and nothing is granted without use or a reason. The webhook's configuration is here, too,
# since the controller may only fill it.
#
# All of it is in the namespace kube-rescheduler, which must exist; see README.md beside this file.
# {_MADE}
"""
_SERVICE = f"""\
# {_MADE}
# It selects the pods of `rescheduler run`, which listen on port 9443.
"""


def chart_version(version: str) -> str:
    """A version of Python's packages as helm wants it: 0.1.0.dev0 is 0.1.0-dev.0, 1.2.0rc1 is 1.2.0-rc.1."""
    found = re.fullmatch(r"(\d+\.\d+\.\d+)(?:\.?(dev|a|b|rc)(\d+))?", version)
    if found is None:
        raise ValueError(f"{version} in src/rescheduler/__init__.py is no version that helm can have, such as 1.2.0rc1")
    return f"{found[1]}-{found[2]}.{found[3]}" if found[2] else found[1]


def for_the_chart() -> Iterator[tuple[Path, str]]:
    """What goes into the chart, and its tables."""
    deploy, files = ROOT / "deploy", CHART / "files"
    named = _read(CHART / "Chart.yaml")
    named = re.sub(r"(?m)^version: .*$", f"version: {chart_version(__version__)}", named)
    yield CHART / "Chart.yaml", re.sub(r"(?m)^appVersion: .*$", f"appVersion: {__version__}", named)
    yield files / "podmigrations.yaml", format_document(POD_MIGRATION, "yaml")
    for name in ("prometheus-rules.yaml", "grafana-dashboard.json"):
        yield files / name, _read(deploy / name)
    values = values_of(_read(CHART / "values.yaml"))
    yield CHART / "values.schema.json", json.dumps(value_schema(values), indent=2, ensure_ascii=False) + "\n"
    for page in (CHART / "README.md", ROOT / "docs" / "installing.md"):
        text = _read(page)
        if not _TABLE.search(text):
            raise ValueError(f"{page.relative_to(ROOT)} has no place for the table of values: see _TABLE")
        yield page, _TABLE.sub(lambda found: f"{found[1]}{table(values)}{found[2]}", text)


def from_the_chart(helm: Helm) -> Iterator[tuple[Path, str]]:
    """What comes out of the chart as it is now."""
    deploy = ROOT / "deploy"
    yield deploy / "install.yaml", _INSTALL + _NAMESPACE + _plain(helm.template(PLAIN))
    shown = [flag for name in RIGHTS for flag in ("--show-only", f"templates/{name}.yaml")]
    yield deploy / "rbac.yaml", _RIGHTS + _plain(helm.template(PLAIN | {"crds": {"by": "controller"}}, *shown))
    service = helm.template(PLAIN, "--show-only", "templates/service-webhook.yaml")
    yield deploy / "webhook-service.yaml", _SERVICE + _plain(service)


def _plain(rendered: str) -> str:
    """Without the marks of helm: whoever applies it is not helm."""
    return re.sub(r"\n{2,}---", "\n---", _OF_HELM.sub("", rendered))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def differences(wanted: Iterator[tuple[Path, str]]) -> list[str]:
    """The lines of a diff from the files as they are to the files as they should be."""
    found: list[str] = []
    for path, text in wanted:
        there, name = _read(path) if path.exists() else "", str(path.relative_to(ROOT))
        found += difflib.unified_diff(there.splitlines(), text.splitlines(), name, "generated", lineterm="")
    return found


def main() -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say what is out of step")
    helm = Helm()
    if parser.parse_args().check:
        lines = differences(for_the_chart()) or differences(from_the_chart(helm))
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return 1 if lines else 0
    for part in (for_the_chart(), from_the_chart(helm)):  # what comes out is made from what has gone in
        for path, text in part:
            path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
