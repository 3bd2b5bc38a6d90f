"""Our own authority and what it signs: as PEM, checked by OpenSSL and by the functions that decide about renewal."""

from __future__ import annotations

import ssl
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.admission.certificates import (
    AUTHORITY_LIFE,
    SERVING_LIFE,
    CertificateError,
    KeyPair,
    check,
    ends_at,
    is_due,
    is_signed_by,
    issued_at,
    joined,
    names_of,
    new_authority,
    new_serving,
    split,
    valid_at,
)
from tests.support.examples import examples

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = ("hook.ours.svc", "127.0.0.1", "::1")


def authority(now: float = NOW) -> KeyPair:
    return new_authority("test", now)


def test_an_authority_lives_ten_years_and_a_serving_certificate_ninety_days() -> None:
    ours = authority()
    serving = new_serving(ours, NAMES, NOW)
    assert ends_at(ours.certificate) - NOW == AUTHORITY_LIFE.total_seconds()
    assert ends_at(serving.certificate) - NOW == SERVING_LIFE.total_seconds()
    assert issued_at(serving.certificate) == NOW


def test_a_serving_certificate_has_its_names_and_its_authoritys_signature() -> None:
    ours, other = authority(), authority()
    serving = new_serving(ours, NAMES, NOW)
    check(serving)
    check(ours)
    assert names_of(serving.certificate) == set(NAMES)
    assert is_signed_by(serving.certificate, ours.certificate)
    assert is_signed_by(serving.certificate, joined(other.certificate, ours.certificate))
    assert not is_signed_by(serving.certificate, other.certificate)
    assert not is_signed_by(serving.certificate, b"")


def test_an_authority_signs_no_other_authorities_and_a_serving_certificate_signs_nothing() -> None:
    ours = authority()
    constraints = [
        x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.BasicConstraints).value
        for pem in (ours.certificate, new_serving(ours, NAMES, NOW).certificate)
    ]
    assert [(each.ca, each.path_length) for each in constraints] == [(True, 0), (False, None)]


def test_no_two_authorities_share_a_subject() -> None:
    found = [split(authority().certificate)[0].subject for _ in range(3)]
    assert len(set(found)) == 3


def test_openssl_takes_the_authority_with_its_strictest_rules() -> None:
    context = ssl.create_default_context(cadata=authority().certificate.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert len(context.get_ca_certs()) == 1


def test_a_serving_certificate_does_not_outlive_its_authority() -> None:
    ours = new_authority("short", NOW, timedelta(days=10))
    assert ends_at(new_serving(ours, NAMES, NOW).certificate) == ends_at(ours.certificate)


@pytest.mark.parametrize(
    ("after", "due"), [(-2 * 3600.0, True), (-1800.0, False), (0.0, False), (59 * DAY, False), (61 * DAY, True)]
)
def test_a_certificate_is_due_when_a_third_of_its_life_is_left_or_it_is_not_valid_yet(after: float, due: bool) -> None:
    assert is_due(new_serving(authority(), NAMES, NOW).certificate, NOW + after) is due


@given(days=st.floats(1, 4000), at=st.floats(-1, 1.5))
def test_whatever_is_not_due_is_valid(days: float, at: float) -> None:
    life = timedelta(days=days)
    pem = new_serving(new_authority("test", NOW), NAMES, NOW, life).certificate
    moment = NOW + at * life.total_seconds()
    found = split(pem)[0]
    valid = found.not_valid_before_utc.timestamp() <= moment < found.not_valid_after_utc.timestamp()
    assert is_due(pem, moment) or valid


def test_a_key_of_another_certificate_is_refused() -> None:
    one, two = authority(), authority()
    with pytest.raises(CertificateError, match="the key is not the certificate's"):
        check(KeyPair(one.certificate, two.key))


def test_an_encrypted_key_is_refused_with_the_cure() -> None:
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    with pytest.raises(CertificateError, match=r"encrypted.*store it decrypted"):
        check(KeyPair(authority().certificate, key))


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_garbage_is_refused_in_words(certificate: bytes, key: bytes) -> None:
    with pytest.raises(CertificateError):
        check(KeyPair(certificate, key))


@settings(max_examples=examples(few=50, many=500))
@given(st.integers(0, 1000), st.integers(0, 255))
def test_a_certificate_with_a_wrong_byte_is_refused_or_still_fits(at: int, byte: int) -> None:
    pair = PAIR
    spoilt = bytearray(pair.certificate)
    spoilt[at % len(spoilt)] = byte
    try:
        check(KeyPair(bytes(spoilt), pair.key))
        names_of(bytes(spoilt))
        is_due(bytes(spoilt), NOW)
        is_signed_by(bytes(spoilt), pair.certificate)
    except CertificateError:
        pass


def test_a_bundle_holds_each_certificate_once_and_can_lose_those_that_have_ended() -> None:
    old, new = new_authority("old", NOW, timedelta(days=1)).certificate, authority().certificate
    bundle = joined(b"# a comment\n" + old, new, old)
    assert len(split(bundle)) == 2
    assert valid_at(bundle, NOW) == bundle
    assert valid_at(bundle, NOW + 2 * DAY) == joined(new)


PAIR = new_serving(authority(), NAMES, NOW)
