"""Years of rotation: at no moment is a certificate served that callers cannot verify, whoever is late."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.admission.certificates import (
    PREVIOUS_KEPT,
    CertificateState,
    ends_at,
    is_due,
    is_signed_by,
    next_state,
    split,
)
from tests.support.examples import examples

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = frozenset({"hook.ours.svc", "127.0.0.1"})


def first() -> CertificateState:
    return next_state(None, NAMES, b"", NOW)


def test_nothing_is_due_on_what_was_just_made() -> None:
    holding = first()
    assert next_state(holding, NAMES, holding.bundle, NOW + DAY) is holding


def test_what_is_written_is_read_again() -> None:
    holding = next_state(first(), NAMES, b"", NOW + 3000 * DAY)
    assert holding.previous
    assert CertificateState.from_data(holding.to_data()) == holding


def test_a_certificate_that_is_due_is_renewed_by_the_same_authority() -> None:
    before = first()
    after = next_state(before, NAMES, before.bundle, NOW + 61 * DAY)
    assert after.authority == before.authority
    assert after.serving != before.serving


def test_another_name_asks_for_another_certificate_and_fewer_names_do_not() -> None:
    before = first()
    assert next_state(before, NAMES | {"more"}, before.bundle, NOW).serving != before.serving
    assert next_state(before, frozenset({"127.0.0.1"}), before.bundle, NOW) is before


def test_a_new_authority_keeps_the_old_one_trusted_for_a_day() -> None:
    before = first()
    late = NOW + 2500 * DAY
    after = next_state(before, NAMES, before.bundle, late)
    assert after.previous == before.authority.certificate
    assert next_state(after, NAMES, after.bundle, late + PREVIOUS_KEPT - 1) is after
    assert next_state(after, NAMES, after.bundle, late + PREVIOUS_KEPT) == CertificateState(
        after.authority, after.serving
    )


def test_what_is_made_from_nothing_trusts_those_whom_callers_trust() -> None:
    lost = first()
    assert is_signed_by(lost.serving.certificate, next_state(None, NAMES, lost.bundle, NOW).bundle)


def test_an_authority_that_has_ended_is_not_trusted_any_more() -> None:
    lost = first()
    assert next_state(None, NAMES, lost.bundle, ends_at(lost.authority.certificate) + 1).previous == b""


@settings(max_examples=examples(few=10, many=40))
@given(st.lists(st.floats(0.01, 120.0), min_size=1, max_size=60))
def test_over_the_years_each_certificate_is_valid_and_trusted(pauses: list[float]) -> None:
    """The pauses are days between two looks of a leader; longer than a month is a long outage."""
    holding, now = first(), NOW
    for days in pauses:
        before = holding
        now += min(days, 29.0) * DAY * 8  # through a decade or more
        holding = next_state(before, NAMES, before.bundle, now)
        assert not is_due(holding.serving.certificate, now)
        assert is_signed_by(holding.serving.certificate, holding.bundle)
        if ends_at(before.serving.certificate) > now and now - NOW > 0 and holding.authority != before.authority:
            assert is_signed_by(before.serving.certificate, holding.bundle)
        assert 1 <= len(split(holding.bundle)) <= 3
        assert next_state(holding, NAMES, holding.bundle, now) == holding
