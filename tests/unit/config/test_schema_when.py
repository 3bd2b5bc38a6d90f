"""The sections `when` and `filters`: what they come to, and the sentences with which they refuse."""

from __future__ import annotations

import pytest

from rescheduler.model.policy import Filters, NoEviction, Timing
from tests.support.configs import errors_of, native, parse, plugin_form

WHEN = """
when:
  windows: ['Mon-Fri  22:00-05:00', 'Sat,Sun']
  timeZone: Europe/Berlin
  movesPerHour: 12
  movesPerHourPerNamespace: 3
  restAfterScaling: 5m
"""
FILTERS = """
filters:
  namespaces: [shop]
  namespaceSelector: team=shop
  podSelector: tier in (web)
  nodeSelector: pool=cpu
  priorityThreshold: 10000
  minReplicas: 2
  persistentVolumes: false
  protectedStorageClasses: [fast]
  withoutController: false
  withoutDisruptionBudget: false
  noEvictionPolicy: mandatory
  honourEvictMark: false
"""


def test_nothing_given_is_always_and_everything() -> None:
    policy = parse(native()).policy()
    assert policy.when == Timing()
    assert policy.filters == Filters()


def test_windows_are_in_their_time_zone() -> None:
    windows = ("Mon-Fri 22:00-05:00", "Sat,Sun")
    wanted = Timing(windows, "Europe/Berlin", 12, 3, 300.0)
    assert parse(native(WHEN)).policy().when == wanted
    assert parse(plugin_form(WHEN)).policy().when == wanted
    unlimited = "when: {movesPerHour: unlimited, movesPerHourPerNamespace: unlimited}"
    assert parse(native(unlimited)).policy().when == Timing()
    assert not Timing().limits
    assert parse(native("when: {movesPerHourPerNamespace: 1}")).policy().when.limits


def test_filters_are_those_of_the_model() -> None:
    assert parse(native(FILTERS)).policy().filters == Filters(
        namespaces=("shop",),
        namespace_selector="team=shop",
        pod_selector="tier in (web)",
        node_selector="pool=cpu",
        priority_threshold=10000,
        min_replicas=2,
        persistent_volumes=False,
        protected_storage_classes=("fast",),
        without_controller=False,
        without_disruption_budget=False,
        no_eviction_policy=NoEviction.MANDATORY,
        honour_evict_mark=False,
    )
    assert parse(native("filters: {priorityThreshold: high}")).policy().filters.priority_threshold == "high"


@pytest.mark.parametrize("body", [WHEN, FILTERS, "filters: {priorityThreshold: high}"])
def test_what_is_printed_means_the_same(body: str) -> None:
    config = parse(native(body))
    assert parse(config.effective_yaml()) == config


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("when: {windows: [Sat, Foo]}", "when.windows[1]: 'Foo': Foo is not a day of the week"),
        (
            "when: {timeZone: Berlin}",
            "when.timeZone: 'Berlin' is not a time zone such as Europe/Berlin or UTC; did you",
        ),
        ("when: {movesPerHour: 0}", "when.movesPerHour: 0 is not an integer of at least 1 or the word unlimited"),
        (
            "when: {movesPerHourInNamespace: 1}",
            "when.movesPerHourInNamespace: is not a known field, did you mean movesPerHourPerNamespace?",
        ),
        ("when: {restAfterScaling: -5s}", "when.restAfterScaling: "),
        ("filters: {namespaces: [Shop]}", 'filters.namespaces[0]: "Shop" is not a namespace'),
        ("filters: {priorityThreshold: 1.5}", "filters.priorityThreshold: 1.5 is not a"),
        ("filters: {priorityThreshold: High!}", 'filters.priorityThreshold: "High!" is not an object name'),
        ("filters: {priorityThreshold: 4294967296}", "filters.priorityThreshold: 4294967296 is not a priority"),
        ("filters: {noEvictionPolicy: never}", 'filters.noEvictionPolicy: "never" is not one of preferred, mandatory'),
        (
            "filters: {protectedStorageClasses: [fast]}",
            "filters.protectedStorageClasses: says nothing unless persistentVolumes is false",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(body: str, error: str) -> None:
    (found,) = errors_of(native(body))
    assert error in found
