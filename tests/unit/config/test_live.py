"""Which fields wait for a restart, and that everything else of a new configuration is taken over."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.config.live import RESTART_ONLY, keep_restart_only, list_changes
from rescheduler.config.schema import Configuration, Fields
from tests.support.configs import native, parse

_TEXTS = {
    "web": ("", "web: {port: 8080}", "web: {page: false, bindAddress: 127.0.0.1}"),
    "webhook": ("", "webhook: {enabled: true}", "webhook: {enabled: true, steering: nominate}"),
    "extender": ("", "extender: {enabled: true, insecurePort: 9000}"),
    "leaderElection": ("", "leaderElection: {leaderElect: false}", "leaderElection: {resourceName: other}"),
    "clientConnection": ("", "clientConnection: {qps: 50}"),
    "cpuThreshold": ("", "cpuThreshold: 70"),
    "strategies": ("", "strategies: {LoadBalancing: {maxRounds: 3}}"),
    "excludedNamespaces": ("", "excludedNamespaces: [shop]"),
    "recovery": ("", "recovery: {enabled: false}"),
}
_configurations = st.tuples(*map(st.sampled_from, _TEXTS.values())).map(
    lambda lines: parse(native("\n".join(line for line in lines if line)))
)


def test_what_waits_for_a_restart_are_sections_that_exist() -> None:
    assert set(RESTART_ONLY) <= {each.name for each in dataclasses.fields(Fields)}


@pytest.mark.parametrize(
    ("body", "waiting"),
    [
        ("", ()),
        ("cpuThreshold: 70", ()),
        ("leaderElection: {leaseDuration: 20s}", ("leaderElection.leaseDuration",)),
        ("clientConnection: {qps: 50, burst: 70}", ("clientConnection.qps", "clientConnection.burst")),
        ("web: {port: 8080, bindAddress: 127.0.0.1}", ("web.bindAddress", "web.port")),
        ("webhook: {certificates: {certificateFile: a, keyFile: b}}",
         ("webhook.certificates.certificateFile", "webhook.certificates.keyFile")),
        ("extender: {enabled: true, insecurePort: 9000}", ("extender.enabled", "extender.insecurePort")),
    ],
)  # fmt: skip
def test_fields_that_wait_are_named_one_by_one(body: str, waiting: tuple[str, ...]) -> None:
    assert keep_restart_only(parse(native()), parse(native(body)))[1] == waiting


@given(_configurations, _configurations)
def test_all_is_taken_over_but_what_waits(running: Configuration, wanted: Configuration) -> None:
    taken, waiting = keep_restart_only(running, wanted)
    for name in (each.name for each in dataclasses.fields(Fields)):
        source = running if name in RESTART_ONLY else wanted
        assert getattr(taken.fields, name) == getattr(source.fields, name)
    assert taken.settings == wanted.settings
    assert waiting == list_changes(taken, wanted)
    assert (waiting == ()) == (taken == wanted)
    assert parse(taken.effective_yaml()) == taken, "what is in force is itself a sound configuration"


def test_changes_are_named_by_field_down_to_a_strategys_setting() -> None:
    before, after = (
        parse(native()),
        parse(native("excludedNamespaces: []\nstrategies: {LoadBalancing: {maxRounds: 3}}")),
    )
    assert list_changes(before, after) == ("excludedNamespaces", "strategies.LoadBalancing.maxRounds")
    assert list_changes(after, after) == ()
