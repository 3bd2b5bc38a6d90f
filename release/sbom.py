"""The bill of materials of a release: CycloneDX 1.6 in JSON, from requirements.lock and the packages' own metadata.

`dist` writes it beside wheels and sdists. It lists what the product needs to run, with the hashes that the lock
accepts, licences and who needs whom; nothing of development. It is the same bytes for the same lock, version and time:
its serial number is made of its content.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from release.lock import Entry, Lock, closure, entries, needs, parts
from release.tree import ROOT, version

NAME = "kube-rescheduler"
LICENSE = "Apache-2.0"
SPEC_VERSION = "1.6"
Json = dict[str, Any]


def sbom(seconds: int, root: Path = ROOT) -> Json:
    """The document, as of this time in seconds since 1970."""
    lock = entries(root)
    roots = parts(root)[0].roots
    chosen = closure(roots, lock)
    document: Json = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": _product(version(root)),
            "lifecycles": [{"phase": "build"}],
        },
        "components": [_component(entry) for entry in chosen],
        "dependencies": _dependencies(version(root), sorted(roots), chosen, lock),
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{serial}"}


def sbom_text(seconds: int, root: Path = ROOT) -> str:
    """The same as text, always the same bytes."""
    return json.dumps(sbom(seconds, root), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def purl(name: str, release: str) -> str:
    """The address of a package of PyPI, as bills of materials have it."""
    return f"pkg:pypi/{name}@{release}"


def _product(release: str) -> Json:
    return {
        "type": "application",
        "bom-ref": purl(NAME, release),
        "name": NAME,
        "version": release,
        "purl": purl(NAME, release),
        "licenses": [{"license": {"id": LICENSE}}],
    }


def _component(entry: Entry) -> Json:
    hashes = [{"alg": "SHA-256", "content": each.removeprefix("sha256:")} for each in sorted(entry.hashes)]
    found: Json = {
        "type": "library",
        "bom-ref": purl(entry.name, entry.version),
        "name": entry.name,
        "version": entry.version,
        "purl": purl(entry.name, entry.version),
        "scope": "optional" if entry.marker else "required",
        # One of these is the file that was installed; a component's own hashes would have to be those of one file.
        "externalReferences": [{"type": "distribution", "url": purl(entry.name, entry.version), "hashes": hashes}],
    }
    if entry.marker:
        found["properties"] = [{"name": "python:marker", "value": entry.marker}]
    if licenses := _licenses(entry.name):
        found["licenses"] = licenses
    return found


def _licenses(name: str) -> list[Json]:
    """As the package says it: an SPDX expression, else the name of a licence, else what its classifiers say."""
    try:
        said = metadata.metadata(name)
    except metadata.PackageNotFoundError:  # for another platform
        return []
    if "License-Expression" in said:
        return [{"expression": said["License-Expression"]}]
    text = said["License"].strip() if "License" in said else ""
    if text and "\n" not in text and len(text) < 80:  # some put the whole licence there
        return [_named(text)]
    classified = [line.rsplit(" :: ", 1)[-1] for line in said.get_all("Classifier") or [] if line.startswith("License")]
    return [{"license": {"name": each}} for each in sorted(classified)]


def _named(text: str) -> Json:
    """A licence by its SPDX expression where the text is one, else by the text: scanners know only the former."""
    try:
        return {"expression": canonicalize_license_expression(text)}
    except InvalidLicenseExpression:
        return {"license": {"name": text}}


def _dependencies(release: str, roots: Iterable[str], chosen: list[Entry], lock: Lock) -> list[Json]:
    def refs(names: Iterable[str]) -> list[str]:
        return [purl(name, entry.version) for name in names for entry in lock[name]]

    own = {"ref": purl(NAME, release), "dependsOn": refs(roots)}
    others = [(purl(each.name, each.version), needs(each.name, lock)) for each in chosen]
    return [own, *({"ref": ref, "dependsOn": refs(names)} for ref, names in others)]
