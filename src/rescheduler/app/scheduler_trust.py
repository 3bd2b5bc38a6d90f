"""How kube-scheduler can tell that it is our extender that answers: by whose signature, and under which name.

`rescheduler scheduler-config` asks: for the authority in a file, or for our own in the Secret that the webhook keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import msgspec

from rescheduler.admission.certificates import CertificateError, ends_at, joined, names_of, split
from rescheduler.app.connecting import Live
from rescheduler.app.planning import InputError
from rescheduler.kube.backoff import Backoff
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ClusterError

SERVICE = "kube-rescheduler-webhook"
"""Our Service, and the Secret that keeps its certificates."""
_QUICK = 5.0  # seconds for a look that is not essential


class _Secret(msgspec.Struct):
    """Whoever keeps it: we, or somebody who makes certificates for us."""

    data: dict[str, bytes] = {}


@dataclass(frozen=True, slots=True)
class Trust:
    """What an https address is checked with; nothing means the authorities of the scheduler's system."""

    authority: bytes = b""
    """PEM, for the file itself."""
    authority_path: str = ""
    """A file beside the scheduler."""
    server_name: str = ""
    """Whose certificate it must be, where that is not the host of the address."""
    insecure: bool = False

    @property
    def is_given(self) -> bool:
        """Whether anything says whom to trust."""
        return bool(self.authority or self.authority_path or self.insecure)

    @property
    def ends(self) -> datetime | None:
        """When the first of the authorities ends, if we know them."""
        found = split(self.authority)
        return min((each.not_valid_after_utc for each in found), default=None)


def authority_from_file(path: str) -> bytes:
    """The certificates of a PEM file, and nothing else that is in it; InputError says what is wrong with it."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        cure = "for a path that only the scheduler sees, give --scheduler-ca-file"
        raise InputError(f"--ca-file {path}: cannot be read: {error.strerror or error}; {cure}") from None
    try:
        found = joined(raw)
    except CertificateError as error:
        raise InputError(f"--ca-file {path}: {error}") from None
    if not found:
        raise InputError(f"--ca-file {path}: holds no PEM certificate (-----BEGIN CERTIFICATE-----)")
    return found


async def own_trust(live: Live, namespace: str, host: str) -> Trust:
    """Our own authority, as the webhook keeps it; ClusterError says why it can't be had.

    The certificate need not name the host by which the scheduler reaches us: then it is known by the Service's name.
    """
    timeout = live.request_timeout or _QUICK
    async with ApiClient(live.connection(), request_timeout=timeout, backoff=Backoff(tries=1)) as client:
        answer = await client.find(f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets/{SERVICE}")
    secret = f"Secret {namespace}/{SERVICE}"
    if answer is None:
        cure = "the webhook makes it when it first runs; -n says in which namespace that is"
        raise ClusterError(f"there is no {secret}: {cure}")
    try:
        return _trust_in(msgspec.json.decode(answer, type=_Secret).data, namespace, host)
    except (CertificateError, msgspec.MsgspecError) as error:
        raise ClusterError(f"{secret}: {error}") from None


def _trust_in(data: Mapping[str, bytes], namespace: str, host: str) -> Trust:
    authority = joined(data.get("ca.crt", b""), data.get("previous-ca.crt", b""))
    if not authority:
        raise CertificateError("its key ca.crt holds no PEM certificate")
    names = names_of(data["tls.crt"]) if data.get("tls.crt") else frozenset({host})
    return Trust(authority, server_name="" if host in names else f"{SERVICE}.{namespace}.svc")


def is_over(authority: bytes) -> bool:
    """Whether an authority has ended, so that nothing that it signed is believed."""
    return ends_at(authority) <= datetime.now(UTC).timestamp()
