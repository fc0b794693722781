"""A certificate authority for one cluster; everything it signs lives as long as the run's folder."""

import base64
import datetime as dt
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=365)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs the cluster's certificates; files are written to one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("leadsman-test-cluster", ())
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = _write(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        file: str,
        common_name: str,
        *,
        groups: Sequence[str] = (),
        dns: Iterable[str] = (),
        addresses: Iterable[IPv4Address] = (),
    ) -> Pair:
        """Sign a certificate good for client and server; ``groups`` are what Kubernetes reads as such."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [*(x509.DNSName(name) for name in dns), *(x509.IPAddress(address) for address in addresses)]
        builder = (
            _builder(_name(common_name, groups), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(
            _write(self._folder / f"{file}.crt", certificate.public_bytes(serialization.Encoding.PEM)),
            _write(self._folder / f"{file}.key", _private(key)),
        )

    def signing_key(self, file: str) -> Path:
        """Write a bare key, for service account tokens."""
        return _write(self._folder / f"{file}.key", _private(ec.generate_private_key(ec.SECP256R1())))

    def kubeconfig(self, path: Path, server: str, pair: Pair, *, context: str = "leadsman-test") -> Path:
        """Write a kubeconfig that carries everything in itself (JSON, which every reader of YAML takes)."""

        def inline(file: Path) -> str:
            return base64.b64encode(file.read_bytes()).decode()

        cluster = {"server": server, "certificate-authority-data": inline(self.certificate)}
        user = {"client-certificate-data": inline(pair.certificate), "client-key-data": inline(pair.key)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{"name": context, "cluster": cluster}],
            "users": [{"name": context, "user": user}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        }
        return _write(path, json.dumps(content, indent=1).encode())


def _name(common_name: str, groups: Sequence[str]) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path
