"""The embedded API server judges objects as the real one does: what it refuses, for which fields, and what it fills in.

Hundreds of objects and changes, good and bad, go to the real API server as dry runs and to the embedded rules. Code,
reason and the fields at fault must be the same, and an object that is accepted must come out the same, with every
default. The tables by which the embedded one reads objects are held against what the real one publishes about itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from kubemini.rules.forms import Form
from kubemini.rules.typed import form_of
from tests.contract.rules_agree.both import KINDS, Embedded, Real
from tests.contract.rules_agree.cases import Case, Update
from tests.contract.rules_agree.cron_jobs import CRON_JOB_CASES, CRON_JOB_UPDATES
from tests.contract.rules_agree.mutations import mutated, mutated_version, standing
from tests.contract.rules_agree.others import OTHER_CASES
from tests.contract.rules_agree.pods import POD_CASES
from tests.contract.rules_agree.published import disagreements
from tests.contract.rules_agree.updates import UPDATES
from tests.contract.rules_agree.workloads import WORKLOAD_CASES
from tests.testbed.api import Json
from tests.testbed.cluster import ControlPlane
from tests.testbed.namespaces import own_namespace

NEW_OBJECTS = 500
NEW_VERSIONS = 25  # of each kind

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def both(control_plane: ControlPlane) -> Iterator[tuple[Real, Embedded]]:
    """Both API servers, with a namespace of the same name."""
    if not control_plane.version.startswith("v1.37."):
        pytest.skip("the embedded rules are those of v1.37")
    with own_namespace(control_plane.api, "rules-agree") as name:
        yield Real(control_plane.api, name), Embedded(name)


@pytest.mark.parametrize("case", [*POD_CASES, *WORKLOAD_CASES, *CRON_JOB_CASES, *OTHER_CASES], ids=str)
def test_a_new_object_is_judged_and_filled_in_alike(both: tuple[Real, Embedded], case: Case) -> None:
    real, embedded = both
    assert embedded.create(case) == real.create(case)


@pytest.mark.parametrize("update", [*UPDATES, *CRON_JOB_UPDATES], ids=str)
def test_a_change_is_judged_alike(both: tuple[Real, Embedded], update: Update) -> None:
    real, embedded = both
    there, answer = real.update(update)
    assert embedded.update(update, there) == answer


def test_objects_with_something_wrong_at_a_random_place_are_judged_alike(both: tuple[Real, Embedded]) -> None:
    real, embedded = both
    differing = []
    for number in range(NEW_OBJECTS):
        case = mutated(number)
        ours, theirs = embedded.create(case), real.create(case)
        if ours != theirs:
            differing.append((case, ours, theirs))
    assert differing == []


def test_changes_at_a_random_place_are_judged_alike(both: tuple[Real, Embedded]) -> None:
    real, embedded = both
    differing = []
    for case in standing():
        name = real.stand(case)
        for number in range(NEW_VERSIONS):
            subresource = "status" if "status" in KINDS[case.kind].subresources and number % 3 == 0 else ""
            renew = partial(_renewed, number, subresource)
            words, there, body, theirs = real.replace(case.kind, name, subresource, renew)
            ours = embedded.replace(case.kind, subresource, there, body)
            if ours != theirs:
                differing.append((case.kind, subresource, number, words, ours, theirs))
        real.fall(case, name)
    assert differing == []


def _renewed(number: int, subresource: str, there: Json) -> tuple[str, Json]:
    return mutated_version(number, there, subresource)


def test_objects_have_the_fields_that_the_real_server_publishes(control_plane: ControlPlane) -> None:
    if not control_plane.version.startswith("v1.37."):
        pytest.skip("the embedded rules are those of v1.37")
    forms: dict[str, Form] = {}
    for kind in KINDS.values():
        if (form := form_of(kind)) is not None:
            forms[f"{kind.group or 'core'}/{kind.version}/{kind.name}"] = form
    differing = disagreements(control_plane.api, forms)
    assert differing == []
