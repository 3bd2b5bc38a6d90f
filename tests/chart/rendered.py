"""What a rendering of the chart holds, by kind and name, for tests to look at."""

from __future__ import annotations

from collections.abc import Sequence

from rescheduler.model.json import Json


def of_kind(objects: Sequence[Json], kind: str) -> list[Json]:
    return [each for each in objects if each["kind"] == kind]


def only(objects: Sequence[Json], kind: str, name: str = "") -> Json:
    """The one object of a kind, or of this name; an error says which there are."""
    found = [each for each in of_kind(objects, kind) if not name or each["metadata"]["name"] == name]
    assert len(found) == 1, f"{kind} {name}: {[each['metadata']['name'] for each in found]}"
    return found[0]


def pod_of(objects: Sequence[Json]) -> Json:
    """The template of the Deployment's pods."""
    template: Json = only(objects, "Deployment")["spec"]["template"]
    return template


def container_of(objects: Sequence[Json]) -> Json:
    (found,) = pod_of(objects)["spec"]["containers"]
    container: Json = found
    return container


def config_of(objects: Sequence[Json]) -> str:
    """The text of the controller's configuration."""
    (found,) = (each for each in of_kind(objects, "ConfigMap") if "config.yaml" in each["data"])
    text: str = found["data"]["config.yaml"]
    return text


def names(objects: Sequence[Json]) -> set[tuple[str, str]]:
    return {(each["kind"], each["metadata"]["name"]) for each in objects}
