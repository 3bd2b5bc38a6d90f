"""What a request's query asks for, read and checked as the real API server does it.

`listing` and `watching` take ListOptions, `writing` WriteOptions and the deletion's options. What makes no sense is
refused with the field's name, in the words of the real one, because people search for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubemini.api import Deletion
from kubemini.kinds import Kind
from kubemini.refusals import Fault, Json, bad_request, invalid

Query = Mapping[str, str]

_PROPAGATIONS = ("Foreground", "Background", "Orphan")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_META = "meta.k8s.io"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What of a collection is wanted, at which version, and how it goes on."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    version: int | None = None
    match: str = ""
    watch: bool = False
    seconds: int = 0
    bookmarks: bool = False
    initial: bool | None = None
    """Whether a watch shall begin with what is there (`sendInitialEvents`); nothing said is the old way."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How an object is written."""

    dry_run: bool = False
    manager: str = ""
    force: bool = False
    validation: str = ""


def list_options(query: Query, *, watch: bool = False) -> ListOptions:
    """The options of a list or a watch."""
    watch = watch or flag(query, "watch")
    given = query.get("resourceVersion", "")
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=max(_integer(query, "limit"), 0),
        token=query.get("continue", ""),
        version=version_of(given) if given else None,
        match=query.get("resourceVersionMatch", ""),
        watch=watch,
        seconds=max(_integer(query, "timeoutSeconds"), 0),
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial=flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
    )
    faults = _watch_faults(options) if watch else _list_faults(options)
    if faults:
        raise invalid(Kind(_META, "v1", "ListOptions", "listoptions"), "", faults)
    if options.token and options.version:
        raise bad_request("specifying resource version is not allowed when using continue")
    return options


def write_options(query: Query, name: str) -> WriteOptions:
    """The options of a create, an update or a patch; `name` is what they are called (`CreateOptions`)."""
    faults = _dry_run_faults([query["dryRun"]] if "dryRun" in query else [])
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        faults.append(Fault("fieldValidation", "Unsupported value", _supported(*_VALIDATIONS), validation))
    if faults:
        raise invalid(Kind(_META, "v1", name, name.lower()), "", faults)
    return WriteOptions("dryRun" in query, query.get("fieldManager", ""), flag(query, "force"), validation)


def deletion_options(query: Query, body: Json | None) -> Deletion:
    """How to delete: from the body if there is one, else from the query."""
    options: Json = {} if body is None else body
    if body is None:
        if "gracePeriodSeconds" in query:
            options["gracePeriodSeconds"] = _integer(query, "gracePeriodSeconds")
        if "orphanDependents" in query:
            options["orphanDependents"] = flag(query, "orphanDependents")
        if "propagationPolicy" in query:
            options["propagationPolicy"] = query["propagationPolicy"]
        if "dryRun" in query:
            options["dryRun"] = [query["dryRun"]]
    if not isinstance(options.get("gracePeriodSeconds") or 0, int):
        raise bad_request("gracePeriodSeconds must be an integer")
    propagation, orphan = options.get("propagationPolicy"), options.get("orphanDependents")
    dry_run = options.get("dryRun") or []
    faults = _dry_run_faults(dry_run)
    if propagation is not None and orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        faults.append(Fault("propagationPolicy", "Invalid value", why, propagation))
    elif propagation is not None and propagation not in _PROPAGATIONS:
        faults.append(Fault("propagationPolicy", "Unsupported value", _supported(*_PROPAGATIONS, "nil"), propagation))
    if faults:
        raise invalid(Kind(_META, "v1", "DeleteOptions", "deleteoptions"), "", faults)
    preconditions = options.get("preconditions") or {}
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    return Deletion(
        grace=options.get("gracePeriodSeconds"),
        uid=preconditions.get("uid") or "",
        version=preconditions.get("resourceVersion") or "",
        propagation=propagation or "",
        dry_run=bool(dry_run),
    )


def flag(query: Query, name: str) -> bool:
    """A switch: there and not `false` or `0`, as Kubernetes reads them (`?watch` is on)."""
    return name in query and query[name].lower() not in ("false", "0")


def version_of(text: str) -> int:
    """A resource version's number."""
    if not text.isascii() or not text.isdigit():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {why}')
    return int(text)


def _list_faults(options: ListOptions) -> list[Fault]:
    faults = []
    if options.match:
        if options.version is None:
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            faults.append(Fault("resourceVersionMatch", "Forbidden", why))
        if options.token:
            why = "resourceVersionMatch is forbidden when continue is provided"
            faults.append(Fault("resourceVersionMatch", "Forbidden", why))
        if options.match not in ("Exact", "NotOlderThan"):
            known = _supported("Exact", "NotOlderThan", "")
            faults.append(Fault("resourceVersionMatch", "Unsupported value", known, options.match))
        if options.match == "Exact" and options.version == 0:
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            faults.append(Fault("resourceVersionMatch", "Forbidden", why))
    if options.initial is not None:
        faults.append(Fault("sendInitialEvents", "Forbidden", "sendInitialEvents is forbidden for list"))
    return faults


def _watch_faults(options: ListOptions) -> list[Fault]:
    if options.initial is None:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        return [Fault("resourceVersionMatch", "Forbidden", why)] if options.match else []
    faults = []
    if options.match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        faults.append(Fault("resourceVersionMatch", "Forbidden", why))
        if options.match:
            known = _supported("NotOlderThan")
            faults.append(Fault("resourceVersionMatch", "Unsupported value", known, options.match))
    if options.token:
        faults.append(Fault("continue", "Forbidden", "sendInitialEvents is forbidden with continue"))
    return faults


def _dry_run_faults(values: list[str]) -> list[Fault]:
    known = _supported("All")
    return [Fault("dryRun", "Unsupported value", known, values)] if any(each != "All" for each in values) else []


def _supported(*values: str) -> str:
    quoted = ", ".join(f'"{value}"' for value in values)
    return f"supported values: {quoted}"


def _integer(query: Query, name: str) -> int:
    text = query.get(name, "0")
    try:
        return int(text or "0")
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
