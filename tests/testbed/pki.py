"""The keys and certificates of one control plane, made afresh for every start and thrown away with it.

`cluster` asks for them before it starts anything: a CA, the API server's certificate for loopback, client
certificates (who somebody is, in Kubernetes, is the certificate's CN, and their groups are its O), and the key that
signs service account tokens. Kubeconfigs are written here too, since they are little more than these paths.
"""

import base64
import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=2)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, on disk."""

    certificate: Path
    key: Path


class Authority:
    """A CA of our own, and all that it signs, in one folder that only we can read.

    With `bare`, its certificates are like those of old installers: without key identifiers and key usages.
    """

    def __init__(self, folder: Path, *, bare: bool = False) -> None:
        folder.mkdir(mode=0o700, parents=True)
        self._folder = folder
        self._bare = bare
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("kube-rescheduler testbed")
        authority = _builder(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.certificate = self._write_certificate("ca", authority, self._key)

    def server(self, name: str, *names: str) -> Pair:
        """For whatever listens on loopback under the names that a cluster calls its API server, or under others."""
        alternatives: list[x509.GeneralName] = [x509.DNSName(each) for each in (*SERVER_NAMES, *names)]
        alternatives.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        return self._issue(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, *groups: str) -> Pair:
        return self._issue(user.replace(":", "-"), _name(user, *groups), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def signing_key(self, name: str) -> Pair:
        """A bare key pair, for service account tokens; its `certificate` is the public key."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = self._folder / f"{name}.pub"
        public.write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        return Pair(public, self._write_key(name, key))

    def kubeconfig(self, path: Path, server: str, client: Pair) -> Path:
        """With the files' contents inside, so that it can be copied anywhere while the cluster lives."""
        entry = {
            "certificate-authority-data": _encode(self.certificate),
            "server": server,
        }
        user = {
            "client-certificate-data": _encode(client.certificate),
            "client-key-data": _encode(client.key),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "testbed", "cluster": entry}],
            "users": [{"name": client.certificate.stem, "user": user}],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": client.certificate.stem}}],
            "current-context": "testbed",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    def _issue(
        self, file: str, subject: x509.Name, usage: x509.ObjectIdentifier, names: list[x509.GeneralName]
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Pair(self._write_certificate(file, builder, key), self._write_key(file, key))

    def _write_certificate(self, file: str, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> Path:
        signed = (builder if self._bare else add_identifiers(builder, key, self._key)).sign(self._key, hashes.SHA256())
        path = self._folder / f"{file}.crt"
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return path

    def _write_key(self, file: str, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self._folder / f"{file}.key"
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return path


def _name(common_name: str, *organizations: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def add_identifiers(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, issuer: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """With what strict verifiers (Python 3.13 and later) ask for: whose key it is, who signs it, what it is for.

    A certificate that its own key signs is an authority's.
    """
    usage = x509.KeyUsage(
        key_cert_sign=key is issuer, crl_sign=key is issuer, digital_signature=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    return (
        builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False)
        .add_extension(usage, critical=True)
    )


def _encode(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
