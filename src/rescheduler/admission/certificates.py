"""Our own certificate authority and the certificates that it signs, as PEM. Pure functions; the time is a parameter.

`next_state` decides what the Secret holds next. A certificate is valid from an hour before it is made, because clocks
differ, and is renewed when a third of its life is left, so the controller may be down for weeks.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, types
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=90)
SKEW = timedelta(hours=1)


class CertificateError(ValueError):
    """Says what is wrong with a certificate or key."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (with intermediates, if any) and its key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def new_authority(name: str, now: float, life: timedelta = AUTHORITY_LIFE) -> KeyPair:
    """Make a self-signed authority that may sign serving certificates, and no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Each has a subject of its own: where two are trusted, a client must not confuse them.
    serial = x509.random_serial_number()
    subject = _make_name(f"{name} {serial % 16**8:08x}")
    end = datetime.fromtimestamp(now, UTC) + life
    builder = x509.CertificateBuilder().subject_name(subject).serial_number(serial).not_valid_after(end)
    return _issue(builder, key, subject, key, now)


def new_serving(authority: KeyPair, names: Iterable[str], now: float, life: timedelta = SERVING_LIFE) -> KeyPair:
    """Make a serving certificate for these DNS names and IP addresses; it expires no later than its authority."""
    issuer, issuer_key = _parse_first(authority.certificate), _parse_key(authority.key)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the authority's key is not ours: it is no ECDSA key")
    builder = (
        x509.CertificateBuilder()
        .subject_name(_make_name("kube-rescheduler webhook"))
        .serial_number(x509.random_serial_number())
        .not_valid_after(min(datetime.fromtimestamp(now, UTC) + life, issuer.not_valid_after_utc))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_make_general_name(name) for name in names]), critical=False)
    )
    return _issue(builder, ec.generate_private_key(ec.SECP256R1()), issuer.subject, issuer_key, now)


def check(pair: KeyPair) -> None:
    """Raise CertificateError if a pair cannot be served: no PEM, or the key of another certificate."""
    if _parse_first(pair.certificate).public_key() != _parse_key(pair.key).public_key():
        raise CertificateError("the key is not the certificate's")


def names_of(certificate: bytes) -> frozenset[str]:
    """List the DNS names and IP addresses of a certificate."""
    try:
        found = _parse_first(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(each) for each in found.get_values_for_type(x509.IPAddress))
    return frozenset({*found.get_values_for_type(x509.DNSName), *addresses})


def issued_at(certificate: bytes) -> float:
    """When one of our certificates was made."""
    return (_parse_first(certificate).not_valid_before_utc + SKEW).timestamp()


def ends_at(certificate: bytes) -> float:
    """When it ends."""
    return _parse_first(certificate).not_valid_after_utc.timestamp()


def is_due(certificate: bytes, now: float) -> bool:
    """Whether it is time for a new one: a third of its life is left, or less, or it is not valid yet."""
    found = _parse_first(certificate)
    begin, end = found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
    return now < begin or now >= end - (end - begin) / 3


def is_signed_by(certificate: bytes, authority: bytes) -> bool:
    """Whether the certificate was signed by one of these authorities."""
    found = _parse_first(certificate)
    return any(_has_signed(issuer, found) for issuer in split(authority))


def split(bundle: bytes) -> list[x509.Certificate]:
    """Parse a bundle; text around the certificates is skipped."""
    if b"-----BEGIN CERTIFICATE-----" not in bundle:
        return []
    try:
        found = x509.load_pem_x509_certificates(bundle)
        for each in found:  # the library parses these on first use; errors should show here
            _ = each.public_key(), each.extensions, each.subject, each.issuer, each.not_valid_after_utc
    except Exception as error:  # of several kinds, which differ between versions of the library
        raise CertificateError(f"holds a broken certificate ({error})") from error
    return found


def joined(*bundles: bytes) -> bytes:
    """Join bundles, each certificate once, in this order."""
    found = {each.public_bytes(serialization.Encoding.PEM): None for bundle in bundles for each in split(bundle)}
    return b"".join(found)


def valid_at(bundle: bytes, now: float) -> bytes:
    """Keep the certificates of a bundle that have not expired."""
    kept = [each for each in split(bundle) if each.not_valid_after_utc.timestamp() > now]
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in kept)


def _has_signed(issuer: x509.Certificate, found: x509.Certificate) -> bool:
    try:
        found.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _parse_first(pem: bytes) -> x509.Certificate:
    found = split(pem)
    if not found:
        raise CertificateError("holds no PEM certificate")
    return found[0]


def _parse_key(pem: bytes) -> types.PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise CertificateError("the key is encrypted, which is not supported; store it decrypted") from error
    except Exception as error:  # of several kinds, which differ between versions of the library
        raise CertificateError(f"holds no usable PEM key ({error})") from error


def _make_name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _make_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _issue(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: float,
) -> KeyPair:
    """Sign a certificate for TLS handshakes with elliptic curves, or one that signs others if it is its own issuer."""
    signs = key is issuer_key
    usage = x509.KeyUsage(
        key_cert_sign=signs, crl_sign=signs, digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    signed = (
        builder.issuer_name(issuer)
        .public_key(key.public_key())
        .not_valid_before(datetime.fromtimestamp(now, UTC) - SKEW)
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(authority_id, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(signed.public_bytes(serialization.Encoding.PEM), private)


AUTHORITY_NAME = "kube-rescheduler webhook CA"
PREVIOUS_KEPT = 24 * 3600.0  # seconds for which an authority is trusted after it was replaced
_KEYS = ("ca.crt", "ca.key", "tls.crt", "tls.key")
_PREVIOUS = "previous-ca.crt"


@dataclass(frozen=True, slots=True)
class CertificateState:
    """An authority, the certificate that it signed for us, and earlier authorities that are still trusted."""

    authority: KeyPair
    serving: KeyPair
    previous: bytes = b""

    @property
    def bundle(self) -> bytes:
        """The authorities to trust."""
        return joined(self.authority.certificate, self.previous)

    @classmethod
    def from_data(cls, data: Mapping[str, bytes]) -> CertificateState:
        """Read a Secret's data; CertificateError says what is wrong with it."""
        lacking = [key for key in _KEYS if not data.get(key)]
        if lacking:
            raise CertificateError(f"it lacks {', '.join(lacking)}")
        authority, serving = KeyPair(data["ca.crt"], data["ca.key"]), KeyPair(data["tls.crt"], data["tls.key"])
        previous = data.get(_PREVIOUS, b"")
        checks: tuple[tuple[str, Callable[[], object]], ...] = (
            ("ca.crt and ca.key", lambda: check(authority)),
            ("tls.crt and tls.key", lambda: check(serving)),
            (_PREVIOUS, lambda: split(previous)),
        )
        for where, run in checks:
            try:
                run()
            except CertificateError as error:
                raise CertificateError(f"{where}: {error}") from error
        return cls(authority, serving, previous)

    def to_data(self) -> dict[str, bytes]:
        """Make a Secret's data."""
        pairs = (self.authority.certificate, self.authority.key, self.serving.certificate, self.serving.key)
        return dict(zip(_KEYS, pairs, strict=True)) | ({_PREVIOUS: self.previous} if self.previous else {})


def next_state(state: CertificateState | None, names: frozenset[str], trusted: bytes, now: float) -> CertificateState:
    """Decide what the Secret holds next; the same state if nothing is due. `trusted` are the clients' authorities."""
    if state is None:
        return _new_state(names, trusted, now)
    authority = state.authority
    if is_due(authority.certificate, now) or ends_at(authority.certificate) <= now:
        return _new_state(names, joined(authority.certificate, state.previous), now)
    if not _serves(state, names, now):
        return CertificateState(authority, new_serving(authority, sorted(names), now), state.previous)
    if state.previous and now >= issued_at(state.serving.certificate) + PREVIOUS_KEPT:
        return CertificateState(authority, state.serving)
    return state


def _new_state(names: frozenset[str], trusted: bytes, now: float) -> CertificateState:
    authority = new_authority(AUTHORITY_NAME, now)
    return CertificateState(authority, new_serving(authority, sorted(names), now), valid_at(trusted, now))


def _serves(state: CertificateState, names: frozenset[str], now: float) -> bool:
    certificate = state.serving.certificate
    known = is_signed_by(certificate, state.authority.certificate)
    return known and names <= names_of(certificate) and not is_due(certificate, now)
