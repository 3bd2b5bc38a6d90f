"""In which form a client wants its answer, and in which form it sends its bodies.

`Accept` says the encoding (JSON, or YAML where one answer is all there is) and the shape: the objects themselves, their
metadata alone, or a Table as kubectl prints it. Nothing is answered in protobuf, and clients that know nothing else are
told so: Go clients ask for JSON as their second choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kubemini.refusals import Refusal

JSON = "application/json"
YAML = "application/yaml"
METADATA = "PartialObjectMetadata"
METADATA_LIST = "PartialObjectMetadataList"
TABLE = "Table"
DISCOVERY = "APIGroupDiscoveryList"

_SHAPES = {
    ("meta.k8s.io", TABLE): ("v1", "v1beta1"),
    ("meta.k8s.io", METADATA): ("v1", "v1beta1"),
    ("meta.k8s.io", METADATA_LIST): ("v1", "v1beta1"),
    ("apidiscovery.k8s.io", DISCOVERY): ("v2",),
}
_ENCODINGS = {JSON: JSON, "application/*": JSON, "*/*": JSON, YAML: YAML}


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was agreed on."""

    encoding: str = JSON
    shape: str = ""
    version: str = "v1"
    """Of the shape."""


def accepted(header: str, *shapes: str, yaml: bool = True) -> Accepted:
    """The best form that the client accepts and the place has; `shapes` are those besides the objects themselves."""
    for media, parameters in _clauses(header or "*/*"):
        encoding = _ENCODINGS.get(media)
        if encoding is None or (encoding == YAML and not yaml):
            continue
        shape = parameters.get("as", "")
        if not shape:
            return Accepted(encoding)
        version = parameters.get("v", "")
        if shape in shapes and version in _SHAPES.get((parameters.get("g", ""), shape), ()):
            return Accepted(encoding, shape, version)
    offered = ", ".join((JSON, YAML) if yaml else (f"{JSON};stream=watch",))
    raise Refusal(406, "NotAcceptable", f"only the following media types are accepted: {offered}")


def content_type(header: str) -> str:
    """The bare media type of a body."""
    return header.partition(";")[0].strip().lower()


def unsupported_body(detail: str = "") -> Refusal:
    """A body that is not in a form that is read here."""
    why = f"the body of the request was in an unknown format - accepted media types include: {JSON}, {YAML}"
    return Refusal(415, "UnsupportedMediaType", f"{why} ({detail})" if detail else why)


def _clauses(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The clauses of an Accept header, the most wanted first."""
    ranked = []
    for clause in header.split(","):
        media, *rest = (part.strip() for part in clause.split(";"))
        parameters = {}
        for part in rest:
            key, _, value = part.partition("=")
            parameters[key.strip()] = value.strip().strip('"')
        try:
            weight = float(parameters.get("q", "1"))
        except ValueError:
            weight = 1.0
        if weight > 0:
            ranked.append((-weight, media.lower(), parameters))
    ranked.sort(key=lambda each: each[0])
    for _, media, parameters in ranked:
        yield media, parameters
