"""PodMigrations are read back as they were stored, and what makes no sense is named by its path."""

from __future__ import annotations

import re
from enum import Enum
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.kube.migrations import InvalidMigrationError, decode_migration, encode_migration, encode_status
from rescheduler.migration.crd import POD_MIGRATION
from rescheduler.migration.lifecycle import ROLL_BACK
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import (
    MigrationSpec,
    MigrationStatus,
    Phase,
)
from rescheduler.model.time import Duration, Timestamp, format_duration, parse_duration
from tests.support.pod_migrations import migration_spec, pod_migration, replace

NOW = 1_800_000_000.0
SCHEMA = POD_MIGRATION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]

_names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
_SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.one_of(st.just(""), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    bool: st.booleans(),
    int: st.integers(1, 100),
    float: st.floats(-100, 100),
    Timestamp: st.integers(0, 2**33).map(float),
    Duration: st.integers(1, 10**9).map(lambda milliseconds: milliseconds / 1000),
}


def values(hint: Any, *, required: bool = False) -> st.SearchStrategy[Any]:
    """Any value of a field of this type."""
    if get_origin(hint) is Annotated:
        return values(get_args(hint)[0], required=required)
    if get_origin(hint) is UnionType:
        return st.one_of(st.none(), values(get_args(hint)[0]))
    if get_origin(hint) is tuple:
        return st.lists(values(get_args(hint)[0], required=True), max_size=3).map(tuple)
    if issubclass(hint, msgspec.Struct):
        return st.builds(
            hint,
            **{f.name: values(f.type, required=f.required or bool(f.default)) for f in msgspec.structs.fields(hint)},
        )
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    return _names if required and hint is str else _SIMPLE[hint]


def made(order: MigrationSpec | None = None) -> Json:
    """The object of a new migration as the API server gives it back."""
    body = encode_migration(pod_migration("shop", "m", order or migration_spec("web")))
    body["metadata"] |= {
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2027-01-15T08:00:00Z",
    }
    return body


def merged(body: Any, patch: Any) -> Any:
    """A merge patch laid over a body (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(body) if isinstance(body, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def stored(body: Json, progress: MigrationStatus, now: float = NOW) -> Json:
    """The object after progress was stored over it."""
    result: Json = merged(body, {"status": encode_status(decode_migration(body), progress, now)})
    return result


def conditions(body: Json) -> dict[str, tuple[str, str, str]]:
    return {
        each["type"]: (each["status"], each["reason"], each["lastTransitionTime"])
        for each in body["status"]["conditions"]
    }


@settings(deadline=None)
@given(values(MigrationSpec))
def test_every_field_of_a_spec_is_in_the_definition_and_is_read_as_it_was_written(spec: MigrationSpec) -> None:
    body = made(spec)
    assert set(body["spec"]) <= set(SCHEMA["spec"]["properties"])
    assert decode_migration(body).spec == spec


@settings(deadline=None)
@given(st.lists(values(MigrationStatus), min_size=1, max_size=3))
def test_every_field_of_a_status_is_in_the_definition_and_is_read_whatever_was_there(
    history: list[MigrationStatus],
) -> None:
    body = made()
    for status in history:
        patch = encode_status(decode_migration(body), status, NOW)
        assert set(patch) == set(SCHEMA["status"]["properties"])
        body = stored(body, status)
        # These two are worked out when a status is written.
        found = replace(decode_migration(body).status, observed_generation=0, conditions=())
        assert found == replace(status, observed_generation=0, conditions=())
    msgspec.json.encode(body)


def test_a_proposal_is_read_as_it_was_written() -> None:
    order = migration_spec("web", proposal="p", members=2)
    assert decode_migration(made(order)).spec == order


def test_a_status_says_which_generation_it_is_about() -> None:
    body = made()
    body["metadata"]["generation"] = 7
    body = stored(body, MigrationStatus())
    assert body["status"]["observedGeneration"] == 7
    assert {each["observedGeneration"] for each in body["status"]["conditions"]} == {7}
    assert decode_migration(body).metadata.generation == 7


@pytest.mark.parametrize(
    ("progress", "true", "reason"),
    [
        (MigrationStatus(), "", "Waiting"),
        (MigrationStatus(attempts=1), "", "WaitingToRetry"),
        (MigrationStatus(Phase.IN_PROGRESS), "Progressing", "Beginning"),
        (MigrationStatus(Phase.IN_PROGRESS, "AwaitReady"), "Progressing", "AwaitReady"),
        (MigrationStatus(Phase.IN_PROGRESS, ROLL_BACK), "Progressing", "RollingBack"),
        (MigrationStatus(Phase.COMPLETED, attempts=1), "Completed", "Moved"),
        (MigrationStatus(Phase.FAILED, attempts=1), "Failed", "RolledBack"),
        (MigrationStatus(Phase.FAILED), "Failed", "NotPossible"),
    ],
)
def test_exactly_the_condition_of_the_phase_is_true(progress: MigrationStatus, true: str, reason: str) -> None:
    found = conditions(stored(made(), progress))
    assert {name: status for name, (status, _, _) in found.items()} == {
        name: "True" if name == true else "False" for name in ("Progressing", "Completed", "Failed")
    }
    assert {told for _, told, _ in found.values()} == {reason}


def test_a_paused_migration_says_so() -> None:
    assert conditions(stored(made(migration_spec("web", paused=True)), MigrationStatus()))["Progressing"][1] == "Paused"


def test_one_that_waits_for_approval_says_so_and_knows_who_gave_it() -> None:
    body = made(migration_spec("web", approval_required=True))
    assert conditions(stored(body, MigrationStatus()))["Progressing"][1] == "AwaitingApproval"
    body["metadata"]["annotations"] = {labels.APPROVED: "me"}
    assert conditions(stored(body, MigrationStatus()))["Progressing"][1] == "Waiting"
    told = MigrationStatus(message="waits for approval of shop/other, which belongs to it")
    assert conditions(stored(body, told))["Progressing"][1] == "AwaitingApproval"
    body["metadata"]["annotations"] = {labels.REJECTED: "jane"}
    assert (decode_migration(body).approved_by, decode_migration(body).rejected_by) == ("", "jane")


@pytest.mark.parametrize("said", ["false", "No", " false ", "", "  "])
def test_false_says_neither_yes_nor_no(said: str) -> None:
    body = made(migration_spec("web", approval_required=True))
    body["metadata"]["annotations"] = {labels.APPROVED: said, labels.REJECTED: said}
    found = decode_migration(body)
    assert (found.approved_by, found.rejected_by, found.awaits_approval) == ("", "", True)


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    begun = stored(made(), MigrationStatus(Phase.IN_PROGRESS, "Mark"), NOW)
    later = stored(begun, MigrationStatus(Phase.IN_PROGRESS, "Evict"), NOW + 60)
    over = stored(later, MigrationStatus(Phase.COMPLETED), NOW + 120)
    assert [conditions(each)["Progressing"][2] for each in (begun, later, over)] == [
        "2027-01-15T08:00:00Z",
        "2027-01-15T08:00:00Z",
        "2027-01-15T08:02:00Z",
    ]
    assert conditions(over)["Failed"][2] == "2027-01-15T08:00:00Z"


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("spec", "pod", "name"), "", "spec.pod.name: is empty"),
        (("spec", "pod"), 3, "spec.pod: Expected `object`, got `int`"),
        (("spec", "timeout"), "5x", "spec.timeout: '5x' has the unknown unit 'x': use h, m, s, ms, us or ns"),
        (("spec", "method"), "teleport", "spec.method: Invalid enum value 'teleport'"),
        (("spec", "paused"), "yes", "spec.paused: Expected `bool`, got `str`"),
        (("status",), [], "status: Expected `object`, got `array`"),
        (("status", "phase"), "Lost", "status.phase: Invalid enum value 'Lost'"),
        (("status", "triedMethods"), ["evict", "fly"], "status.triedMethods[1]: Invalid enum value 'fly'"),
        (("status", "startTime"), "noon", "status.startTime: 'noon' is not a time such as 2026-11-15T08:30:00Z"),
        (("status", "replacement"), {"kind": "Pod"}, "status.replacement: Object missing required field `name`"),
    ],
)
def test_what_makes_no_sense_is_named_by_object_and_path(path: tuple[str, ...], value: object, complaint: str) -> None:
    body = made() | {"status": {}}
    place = body
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(InvalidMigrationError) as raised:
        decode_migration(body)
    assert str(raised.value) == f"PodMigration shop/m: {complaint}"


def test_an_object_without_a_spec_is_named_too() -> None:
    body = made()
    del body["spec"]
    with pytest.raises(InvalidMigrationError, match=r"^PodMigration shop/m: Object missing required field `spec`$"):
        decode_migration(body)


def described(schema: Json, path: str) -> list[str]:
    missing = [] if schema.get("description") or not path else [path]
    for name, part in schema.get("properties", {}).items():
        missing += described(part, f"{path}.{name}")
    return missing


def test_every_field_of_the_definition_has_a_description() -> None:
    assert described(SCHEMA["spec"], "spec") + described(SCHEMA["status"], "status") == []


_TIMEOUT = SCHEMA["spec"]["properties"]["timeout"]


def fits(text: str) -> bool:
    return _TIMEOUT["minLength"] <= len(text) <= _TIMEOUT["maxLength"] and bool(re.fullmatch(_TIMEOUT["pattern"], text))


@settings(deadline=None)
@given(st.from_regex(_TIMEOUT["pattern"], fullmatch=True).filter(fits))
def test_every_timeout_that_the_definition_accepts_can_be_read(text: str) -> None:
    assert parse_duration(text) >= 0


@given(st.integers(1, 10**12).map(lambda milliseconds: milliseconds / 1000))
def test_every_timeout_that_we_write_is_accepted_by_the_definition(seconds: float) -> None:
    assert fits(format_duration(seconds))


@pytest.mark.parametrize("text", ["10", "1.2.3s", "s", "", "-1m", "1d", "10 m", "9999999h"])
def test_a_timeout_that_makes_no_sense_is_refused_by_the_definition(text: str) -> None:
    assert not fits(text)
