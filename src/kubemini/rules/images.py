"""What the name of a container image says about when it is pulled."""

from __future__ import annotations

import re
from functools import lru_cache

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[A-Fa-f0-9:]+\])(?::[0-9]+)?"
_LONGEST = 255
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[A-Za-z0-9+._-]+:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """When an image is pulled if nobody says so: always, if its tag is or means `latest`."""
    found = _REFERENCE.fullmatch(image)
    if found is None or len(_full(found["name"])) > _LONGEST:  # what is no name of an image has no tag either
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _full(name: str) -> str:
    """The name with the registry that is meant where none is named."""
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"docker.io/{name}"
