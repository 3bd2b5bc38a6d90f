"""Names of migrations: fit for objects and labels, the same for the same occasion, and different for any other."""

from __future__ import annotations

import re

import pytest

from rescheduler.model.migration import migration_name, plan_name

# A DNS subdomain, as names of objects are; its characters are all allowed in a label's value.
_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_PART}(\.{_PART})*")


@pytest.mark.parametrize(
    "pod",
    ["web", "web-6d5f9c-x2x9z", "a" * 253, "x" * 53 + "-" + "y" * 20, "x" * 53 + "." + "y" * 20, "a.b.c", "7"],
)
def test_a_name_is_a_dns_name_and_a_label_value(pod: str) -> None:
    name = migration_name(pod, "uid")
    assert len(name) <= 63
    assert _NAME.fullmatch(name), name
    assert name.startswith(pod[:20])


def test_the_same_pod_and_occasion_give_the_same_name() -> None:
    assert migration_name("web", "uid", "plan") == migration_name("web", "uid", "plan")


def test_another_pod_uid_or_occasion_gives_another_name() -> None:
    names = {
        migration_name("web", "uid", "plan"),
        migration_name("web", "other", "plan"),
        migration_name("web", "uid", "other"),
        migration_name("web", "uidplan"),
        migration_name("web", "uidp", "lan"),
        migration_name("web"),
    }
    assert len(names) == 6


def test_pods_whose_names_are_cut_alike_are_told_apart() -> None:
    assert migration_name("x" * 100 + "a", "") != migration_name("x" * 100 + "b", "")


def test_a_plans_name_is_short_typable_and_stands_for_that_plan_only() -> None:
    names = [plan_name(str(number)) for number in range(1000)]
    assert len(set(names)) == 1000
    assert all(re.fullmatch(r"[b-df-hj-np-tv-xz2-9]{6}", name) for name in names)
    assert plan_name("a", "bc") != plan_name("ab", "c")
    assert plan_name("a", "b") == plan_name("a", "b")
