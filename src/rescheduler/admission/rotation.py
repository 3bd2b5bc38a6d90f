"""What our Secret holds, and what it is to hold next: pure, so that years of rotation can be tried in a moment.

`registering` asks the leader's question (is anything due?), `keeping` reads what is to be served. Whoever calls us
trusts every authority in the bundle, which is the present one and those before it for a day: so that replicas which
still serve an older certificate are believed. The new authority is announced before anything that it signed is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rescheduler.admission.certificates import (
    CertificateError,
    Pair,
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

AUTHORITY_NAME = "kube-rescheduler webhook CA"
PREVIOUS_KEPT = 24 * 3600.0  # seconds for which an authority is trusted after another one has taken over
_KEYS = ("ca.crt", "ca.key", "tls.crt", "tls.key")
_PREVIOUS = "previous-ca.crt"


@dataclass(frozen=True, slots=True)
class Holding:
    """An authority, the certificate that it signed for us, and earlier authorities that are still trusted."""

    authority: Pair
    serving: Pair
    previous: bytes = b""

    @property
    def bundle(self) -> bytes:
        """Whom to trust."""
        return joined(self.authority.certificate, self.previous)

    @classmethod
    def read(cls, data: Mapping[str, bytes]) -> Holding:
        """From a Secret; a CertificateError says what is wrong with it."""
        lacking = [key for key in _KEYS if not data.get(key)]
        if lacking:
            raise CertificateError(f"it lacks {', '.join(lacking)}")
        authority, serving = Pair(data["ca.crt"], data["ca.key"]), Pair(data["tls.crt"], data["tls.key"])
        previous = data.get(_PREVIOUS, b"")
        looks: tuple[tuple[str, Callable[[], object]], ...] = (
            ("ca.crt and ca.key", lambda: check(authority)),
            ("tls.crt and tls.key", lambda: check(serving)),
            (_PREVIOUS, lambda: split(previous)),
        )
        for where, look in looks:
            try:
                look()
            except CertificateError as error:
                raise CertificateError(f"{where}: {error}") from error
        return cls(authority, serving, previous)

    def written(self) -> dict[str, bytes]:
        """For a Secret."""
        pairs = (self.authority.certificate, self.authority.key, self.serving.certificate, self.serving.key)
        return dict(zip(_KEYS, pairs, strict=True)) | ({_PREVIOUS: self.previous} if self.previous else {})


def following(holding: Holding | None, names: frozenset[str], trusted: bytes, now: float) -> Holding:
    """What is to be held now; the same, if nothing is due. `trusted` are the authorities that callers know already."""
    if holding is None:
        return _anew(names, trusted, now)
    authority = holding.authority
    if is_due(authority.certificate, now) or ends_at(authority.certificate) <= now:
        return _anew(names, joined(authority.certificate, holding.previous), now)
    if not _serves(holding, names, now):
        return Holding(authority, new_serving(authority, sorted(names), now), holding.previous)
    if holding.previous and now >= issued_at(holding.serving.certificate) + PREVIOUS_KEPT:
        return Holding(authority, holding.serving)
    return holding


def _anew(names: frozenset[str], trusted: bytes, now: float) -> Holding:
    authority = new_authority(AUTHORITY_NAME, now)
    return Holding(authority, new_serving(authority, sorted(names), now), valid_at(trusted, now))


def _serves(holding: Holding, names: frozenset[str], now: float) -> bool:
    certificate = holding.serving.certificate
    known = is_signed_by(certificate, holding.authority.certificate)
    return known and names <= names_of(certificate) and not is_due(certificate, now)
