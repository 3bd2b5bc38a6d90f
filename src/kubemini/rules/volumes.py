"""The volumes of pods: what is filled in, and what must hold for those that pods of today use.

`pod_spec` asks. Volumes of the clouds of old are let through as they are; the real API server looks at them closer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.claim_spec import claim_spec_faults, default_claim_spec
from kubemini.rules.environment import VOLUME_FIELDS, field_reference_faults, resource_reference_faults
from kubemini.rules.faults import duplicate, each_wrong, not_allowed, required, too_long, unsupported, wrong
from kubemini.rules.images import pull_policy
from kubemini.rules.metadata import annotations_faults
from kubemini.rules.quantities import amount
from kubemini.rules.selectors import labels_faults

_FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATHS = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_DEFAULT_MODE = 0o644
_TOKEN_LIFE = (600, 2**32)


def default_volumes(spec: Json) -> None:
    """Fill in what the volumes of a pod leave open."""
    for volume in spec.get("volumes", ()):
        if len(volume) == 1:
            volume["emptyDir"] = {}
        for sort in _WITH_MODE:
            if sort in volume:
                volume[sort].setdefault("defaultMode", _DEFAULT_MODE)
        if "hostPath" in volume:
            volume["hostPath"].setdefault("type", "")
        if "image" in volume:
            volume["image"].setdefault("pullPolicy", pull_policy(volume["image"].get("reference", "")))
        if template := (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
            default_claim_spec(template["spec"])
        for item in (volume.get("downwardAPI") or {}).get("items", ()):
            _default_reference(item)
        for source in (volume.get("projected") or {}).get("sources") or ():
            if "serviceAccountToken" in source:
                source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
            for item in (source.get("downwardAPI") or {}).get("items", ()):
                _default_reference(item)


def volume_faults(path: str, volumes: Iterable[Json], pod: str = "") -> tuple[dict[str, Json], list[Fault]]:
    """The volumes that can be mounted, and what is wrong with the others; `pod` is the pod's name, if it has one."""
    volumes = list(volumes)
    sound: dict[str, Json] = {}
    faults: list[Fault] = []
    claims = {f"{pod}-{volume['name']}" for volume in volumes if pod and "ephemeral" in volume}
    for number, volume in enumerate(volumes):
        at, name = f"{path}[{number}]", volume["name"]
        found = list(_source(at, volume, pod))
        found += each_wrong(f"{at}.name", name, names.label(name)) if name else [required(f"{at}.name")]
        if name in sound:
            found.append(duplicate(f"{at}.name", name))
        if not found:
            sound[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in claims:
            why = "must not reference a PVC that gets created for an ephemeral volume"
            found.append(wrong(f"{at}.persistentVolumeClaim.claimName", claim, why))
        faults += found
    return sound, faults


def backstep_faults(path: str, text: str) -> Iterator[Fault]:
    """What is wrong with a path that must not lead upwards."""
    if ".." in text.split("/"):
        yield wrong(path, text, "must not contain '..'")


def descending_faults(path: str, text: str) -> Iterator[Fault]:
    """What is wrong with a path that must stay inside a folder."""
    if text.startswith("/"):
        yield wrong(path, text, "must be a relative path")
    yield from backstep_faults(path, text)


def driver_faults(path: str, driver: str) -> Iterator[Fault]:
    """What is wrong with the name of a storage driver."""
    if not driver:
        yield required(path)
        return
    if len(driver) > 63:
        yield too_long(path, 63)
    yield from each_wrong(path, driver, names.subdomain(driver.lower()))


def host_path_faults(path: str, source: Json) -> Iterator[Fault]:
    """What is wrong with a folder of the node."""
    if not source["path"]:
        yield required(f"{path}.path")
        return
    yield from backstep_faults(f"{path}.path", source["path"])
    if source.get("type", "") not in _HOST_PATHS:
        yield unsupported(f"{path}.type", source["type"], _HOST_PATHS)


def _default_reference(item: Json) -> None:
    if "fieldRef" in item:
        item["fieldRef"].setdefault("apiVersion", "v1")


def _source(path: str, volume: Json, pod: str) -> Iterator[Fault]:
    sorts = [key for key in volume if key != "name"]
    if not sorts:
        yield required(path, "must specify a volume type")
        return
    for more in sorts[1:]:
        yield not_allowed(f"{path}.{more}", "may not specify more than 1 volume type")
    sort = sorts[0]
    if sort == "ephemeral":
        yield from _ephemeral(f"{path}.ephemeral", volume["ephemeral"], volume["name"], pod)
    elif sort in _CHECKS:
        yield from _CHECKS[sort](f"{path}.{sort}", volume[sort])


def _empty(path: str, source: Json) -> Iterator[Fault]:
    if "sizeLimit" in source and amount(source["sizeLimit"]) < 0:
        yield not_allowed(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _claimed(path: str, source: Json) -> Iterator[Fault]:
    if not source["claimName"]:
        yield required(f"{path}.claimName")


def _fields(path: str, source: Json) -> Iterator[Fault]:
    yield from _mode(f"{path}.defaultMode", source.get("defaultMode"))
    for item in source.get("items", ()):
        yield from _field_file(path, item)


def _projected(path: str, source: Json) -> Iterator[Fault]:
    yield from _mode(f"{path}.defaultMode", source.get("defaultMode"))
    yield from _projections(path, source["sources"] or ())


def _driven(path: str, source: Json) -> Iterator[Fault]:
    yield from driver_faults(f"{path}.driver", source["driver"])


def _image(path: str, source: Json) -> Iterator[Fault]:
    if not source.get("reference"):
        yield required(f"{path}.reference")


def nfs_faults(path: str, source: Json) -> Iterator[Fault]:
    """What is wrong with a folder of a file server."""
    for key in ("server", "path"):
        if not source[key]:
            yield required(f"{path}.{key}")
    if not source["path"].startswith("/"):
        yield wrong(f"{path}.path", source["path"], "must be an absolute path")


def _keyed(named: str, path: str, source: Json) -> Iterator[Fault]:
    if not source.get(named):
        yield required(f"{path}.{named}")
    yield from _mode(f"{path}.defaultMode", source.get("defaultMode"))
    for number, item in enumerate(source.get("items", ())):
        yield from _key_file(f"{path}.items[{number}]", item)


def _key_file(path: str, item: Json) -> Iterator[Fault]:
    if not item["key"]:
        yield required(f"{path}.key")
    yield from _file(path, item)


def _field_file(path: str, item: Json) -> Iterator[Fault]:
    yield from _file(path, item)
    if "fieldRef" in item:
        yield from field_reference_faults(f"{path}.fieldRef", item["fieldRef"], VOLUME_FIELDS)
        if "resourceFieldRef" in item:
            why = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield wrong(path, "resource", why)
    elif "resourceFieldRef" in item:
        yield from resource_reference_faults(f"{path}.resourceFieldRef", item["resourceFieldRef"], volume=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")


def _file(path: str, item: Json) -> Iterator[Fault]:
    text = item["path"]
    if not text:
        yield required(f"{path}.path")
    yield from descending_faults(f"{path}.path", text)
    if text.startswith("..") and not text.startswith("../"):
        yield wrong(f"{path}.path", text, "must not start with '..'")
    yield from _mode(f"{path}.mode", item.get("mode"))


def _projections(path: str, sources: Iterable[Json]) -> Iterator[Fault]:
    taken: set[str] = set()
    for number, source in enumerate(sources):
        at = f"{path}.sources[{number}]"
        for sort in ("secret", "configMap"):
            if sort in source:
                if not source[sort].get("name"):
                    yield required(f"{at}.{sort}.name")
                for index, item in enumerate(source[sort].get("items", ())):
                    yield from _key_file(f"{at}.{sort}.items[{index}]", item)
                    if item["path"] in taken:
                        yield wrong(path, source[sort].get("name", ""), "conflicting duplicate paths")
                    taken.add(item["path"])
        for item in (source.get("downwardAPI") or {}).get("items", ()):
            yield from _field_file(f"{at}.downwardAPI", item)
            if item["path"] in taken:
                yield wrong(path, item["path"], "conflicting duplicate paths")
            taken.add(item["path"])
        if (token := source.get("serviceAccountToken")) is not None:
            yield from _token(path, at, token)
        if len(source) > 1:
            yield not_allowed(at, "may not specify more than 1 volume type")


def _token(path: str, at: str, token: Json) -> Iterator[Fault]:
    life = token["expirationSeconds"]
    if life < _TOKEN_LIFE[0]:
        why = "may not specify a duration less than 10 minutes"
        yield wrong(f"{at}.serviceAccountToken.expirationSeconds", life, why)
    if life > _TOKEN_LIFE[1]:
        why = "may not specify a duration larger than 2^32 seconds"
        yield wrong(f"{at}.serviceAccountToken.expirationSeconds", life, why)
    if not token["path"]:
        yield required(f"{path}.path")
    else:
        yield from descending_faults(f"{path}.path", token["path"])


def _ephemeral(path: str, source: Json, volume: str, pod: str) -> Iterator[Fault]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        yield required(f"{path}.volumeClaimTemplate")
        return
    at, metadata = f"{path}.volumeClaimTemplate", template["metadata"]
    yield from annotations_faults(f"{at}.metadata.annotations", metadata.get("annotations", {}))
    yield from labels_faults(f"{at}.metadata.labels", metadata.get("labels", {}))
    for key in metadata:
        if key not in ("annotations", "labels"):
            yield not_allowed(f"{at}.metadata.{key}", "cannot be set")
    yield from claim_spec_faults(f"{at}.spec", template["spec"])
    if pod and volume:
        for detail in names.subdomain(f"{pod}-{volume}"):
            yield wrong(f"{path.rpartition('.')[0]}.name", volume, f'PVC name "{pod}-{volume}": {detail}')


def _mode(path: str, mode: int | None) -> Iterator[Fault]:
    if mode is not None and not 0 <= mode <= 0o777:
        yield wrong(path, mode, _FILE_MODE)


_CHECKS: dict[str, Callable[[str, Json], Iterator[Fault]]] = {
    "emptyDir": _empty,
    "hostPath": host_path_faults,
    "secret": partial(_keyed, "secretName"),
    "configMap": partial(_keyed, "name"),
    "persistentVolumeClaim": _claimed,
    "nfs": nfs_faults,
    "downwardAPI": _fields,
    "projected": _projected,
    "csi": _driven,
    "image": _image,
}
