"""The bill of materials: what CycloneDX 1.6 asks of it, that it is complete, and always the same bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from release.lock import closure, entries, parts
from release.sbom import sbom, sbom_text

from rescheduler import __version__

SECONDS = 1_700_000_000
COMPONENT_TYPES = {"application", "framework", "library", "container", "platform", "file", "data"}
SERIAL = r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# The members that the schema of 1.6 knows, of those objects that we write; it refuses others.
KNOWN = {
    "bom": {"$schema", "bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies"},
    "metadata": {"timestamp", "lifecycles", "component"},
    "component": {
        *("type", "bom-ref", "name", "version", "purl", "scope", "licenses", "externalReferences", "properties"),
    },
}


def every_component(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [document["metadata"]["component"], *document["components"]]


def test_it_has_what_cyclonedx_requires_and_nothing_it_does_not_know() -> None:
    document = sbom(SECONDS)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["version"] >= 1
    assert re.fullmatch(SERIAL, document["serialNumber"])
    assert document["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert set(document) <= KNOWN["bom"]
    assert set(document["metadata"]) <= KNOWN["metadata"]
    for component in every_component(document):
        assert {"type", "name"} <= set(component) <= KNOWN["component"]
        assert component["type"] in COMPONENT_TYPES
        assert component.get("scope", "required") in {"required", "optional", "excluded"}


def test_licences_are_an_expression_alone_or_named_ones() -> None:
    for component in every_component(sbom(SECONDS)):
        licenses = component["licenses"]  # every package that we need says which it has
        assert licenses, component["name"]
        if any("expression" in each for each in licenses):
            assert len(licenses) == 1
            assert set(licenses[0]) == {"expression"}
        else:
            assert all(set(each) == {"license"} and len(each["license"]) == 1 for each in licenses)


def test_a_licence_that_spdx_knows_is_told_as_spdx_has_it() -> None:
    found = {each["name"]: each["licenses"] for each in sbom(SECONDS)["components"]}
    assert found["pyyaml"] == [{"expression": "MIT"}]  # of the older field, in which anything may stand
    assert found["tzdata"] == [{"expression": "Apache-2.0"}]
    assert found["aiosignal"] == [{"license": {"name": "Apache 2.0"}}]  # not SPDX's spelling: nothing is guessed


def test_hashes_are_those_of_the_lock() -> None:
    lock = entries()
    for component in sbom(SECONDS)["components"]:
        (reference,) = component["externalReferences"]
        hashes = {f"sha256:{each['content']}" for each in reference["hashes"] if each["alg"] == "SHA-256"}
        (entry,) = [each for each in lock[component["name"]] if each.version == component["version"]]
        assert hashes == set(entry.hashes)
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes)


def test_references_are_unique_and_every_dependency_is_a_component() -> None:
    document = sbom(SECONDS)
    refs = [component["bom-ref"] for component in every_component(document)]
    assert len(set(refs)) == len(refs)
    assert {each["ref"] for each in document["dependencies"]} == set(refs)
    assert len(document["dependencies"]) == len(refs)
    for each in document["dependencies"]:
        assert set(each["dependsOn"]) <= set(refs)
        assert len(set(each["dependsOn"])) == len(each["dependsOn"])


def test_everything_is_needed_by_the_product_in_the_end() -> None:
    document = sbom(SECONDS)
    edges = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}
    reached, waiting = set(), [f"pkg:pypi/kube-rescheduler@{__version__}"]
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += edges[ref]
    assert reached == set(edges)


@pytest.mark.release
def test_what_is_installed_with_the_wheel_is_in_it(from_wheel: Path) -> None:
    folders = (from_wheel.parent / "lib").glob("python*/site-packages/*.dist-info")
    installed = {tuple(folder.name.removesuffix(".dist-info").rsplit("-", 1)) for folder in folders}
    listed = {(each["name"], each["version"]) for each in every_component(sbom(SECONDS))}
    assert {(canonicalize_name(name), version) for name, version in installed} <= listed


def test_it_is_the_same_bytes_each_time_and_another_number_for_other_content() -> None:
    assert sbom_text(SECONDS) == sbom_text(SECONDS)
    assert sbom_text(SECONDS).endswith("}\n")
    assert json.loads(sbom_text(SECONDS)) == sbom(SECONDS)
    assert sbom(SECONDS)["serialNumber"] != sbom(SECONDS + 1)["serialNumber"]


def test_it_has_the_runtime_of_the_lock_and_nothing_of_development() -> None:
    listed = {(each["name"], each["version"]) for each in sbom(SECONDS)["components"]}
    assert listed == {(each.name, each.version) for each in closure(parts()[0].roots, entries())}
    assert not {name for name, _ in listed} & {"pytest", "mypy", "ruff", "hatchling", "kubernetes", "playwright"}
