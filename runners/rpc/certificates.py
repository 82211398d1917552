"""A small authority of a fleet's own: certificates for its trackers, servers and clients, and a token for each key of devices.

``loopsmith rpc certs DIR`` makes the folder::

    authority.crt  authority.key     the authority; its key stays with who makes certificates, and on no machine of the fleet
    tokens/KEY.token                 a token for each key
    trackers/NAME/  servers/NAME/  clients/NAME/
                                     what a machine or a person gets, the whole folder: authority.crt, own.crt, own.key, tokens/

Certificates name the machine (``DNS:``, ``IP:``), and what their holder is, as a URI: ``loopsmith:tracker``, ``loopsmith:server`` or
``loopsmith:client``. Elliptic curves (P-256) throughout.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..error import RunnerError

AUTHORITY_DAYS = 3650
DAYS = 397
"""For which a certificate is valid by default: what is lost is of no use after that."""
AUTHORITY_CERTIFICATE, AUTHORITY_KEY = "authority.crt", "authority.key"
OWN_CERTIFICATE, OWN_KEY, TOKENS = "own.crt", "own.key", "tokens"
URI = "loopsmith:"
_PRIVATE, _PUBLIC = 0o600, 0o644
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._:@-]{0,98}[A-Za-z0-9])?")
_EARLIER = datetime.timedelta(minutes=10)
"""Clocks of a fleet differ."""


class Role(StrEnum):
    """What the holder of a certificate is."""

    TRACKER = "tracker"
    SERVER = "server"
    CLIENT = "client"

    @property
    def folder(self) -> str:
        """Where those of the role are, within the folder of a fleet."""
        return f"{self}s"


@dataclass
class Made:
    """What a call of :func:`make_certificates` has done."""

    written: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    """What was there and still is."""
    ends: datetime.datetime | None = None
    """When the new certificates end."""


def token_file(folder: Path, key: str) -> Path:
    """Where the token of a key is: any printable key makes a name of a file."""
    return folder / TOKENS / f"{quote(key, safe='')}.token"


def make_certificates(
    folder: Path,
    *,
    trackers: Sequence[str] = (),
    hosts: Sequence[str] = (),
    clients: Sequence[str] = (),
    keys: Sequence[str] = (),
    days: int = DAYS,
) -> Made:
    """Make an authority, or add to what one has made; nothing that is there is overwritten.

    Args:
        folder: of the fleet.
        trackers: names or addresses of machines that run the tracker; where no tracker has a certificate yet, the first host gets one.
        hosts: names or addresses of machines with devices; ``localhost`` where nobody has a certificate yet.
        clients: names of who uses the fleet; ``client`` where nobody has a certificate yet.
        keys: of devices. Those who are named get the tokens of the keys that are named; trackers get those of all keys.
        days: for which new certificates are valid.

    Raises:
        RunnerError: a name is none, the authority is broken, or a file cannot be written.
    """
    _check_names(trackers, hosts, clients, keys, days)
    made = Made()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = _authority(folder, made)
        is_new = authority.is_new
        hosts = hosts or (("localhost",) if is_new else ())
        clients = clients or (("client",) if is_new else ())
        if not trackers and not any((folder / Role.TRACKER.folder).glob("*")):
            trackers = hosts[:1]
        for key in dict.fromkeys(keys):
            _write(token_file(folder, key), f"{secrets.token_urlsafe(32)}\n".encode(), _PRIVATE, made)
        for role, names in ((Role.TRACKER, trackers), (Role.SERVER, hosts), (Role.CLIENT, clients)):
            for name in dict.fromkeys(names):
                _equip(folder, authority, role, name, days, made)
                _copy_tokens(folder, folder / role.folder / name, keys, made)
        known = [file.name for file in (folder / TOKENS).glob("*.token")]
        for holder in (folder / Role.TRACKER.folder).glob("*"):
            for file in known:
                _write(holder / TOKENS / file, (folder / TOKENS / file).read_bytes(), _PRIVATE, made)
    except OSError as error:
        raise RunnerError(
            f"cannot make certificates in {folder}: {error.filename}: {error.strerror}"
        ) from error
    return made


def _check_names(
    trackers: Iterable[str], hosts: Iterable[str], clients: Iterable[str], keys: Iterable[str], days: int
) -> None:
    for name in (*trackers, *hosts, *clients):
        if not _NAME.fullmatch(name) and not _address(name):
            raise RunnerError(
                f"a machine or client has a name of letters, digits and . _ : @ -, or an address, got {name!r}"
            )
    for key in keys:
        if not 1 <= len(key) <= 60 or not key.isprintable():
            raise RunnerError(f"the key of devices is 1 to 60 printable characters, got {key!r}")
    if not 1 <= days <= AUTHORITY_DAYS:
        raise RunnerError(f"certificates are valid for 1 to {AUTHORITY_DAYS} days, got {days}")


@dataclass(frozen=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    is_new: bool


def _authority(folder: Path, made: Made) -> _Authority:
    """That of a folder, which is made where there is none.

    Raises:
        RunnerError: one of its two files is missing, or is something else.
    """
    certificate_file, key_file = folder / AUTHORITY_CERTIFICATE, folder / AUTHORITY_KEY
    if not certificate_file.exists() and not key_file.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"loopsmith fleet {secrets.token_hex(4)}")])
        certificate = (
            _builder(name, name, key.public_key(), AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(key_file, _key_bytes(key), _PRIVATE, made)
        _write(certificate_file, certificate.public_bytes(serialization.Encoding.PEM), _PUBLIC, made)
        return _Authority(certificate, key, True)
    try:
        known = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        if (
            not isinstance(known, ec.EllipticCurvePrivateKey)
            or known.public_key() != certificate.public_key()
        ):
            raise ValueError("the key is not that of the certificate")
    except (FileNotFoundError, ValueError, TypeError) as error:
        raise RunnerError(
            f"{folder} has no whole authority: {error}; {AUTHORITY_CERTIFICATE} and {AUTHORITY_KEY} belong together, so bring both back,"
            " or name another folder"
        ) from error
    made.kept += [key_file, certificate_file]
    return _Authority(certificate, known, False)


def _equip(folder: Path, authority: _Authority, role: Role, name: str, days: int, made: Made) -> None:
    """A folder with a certificate for somebody, unless there is one."""
    where = folder / role.folder / name
    if (where / OWN_CERTIFICATE).exists():
        made.kept.append(where / OWN_CERTIFICATE)
        return
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(authority, role, name, key, days)
    made.ends = certificate.not_valid_after_utc
    (where / TOKENS).mkdir(parents=True, exist_ok=True, mode=0o700)
    where.chmod(0o700)
    _write(where / AUTHORITY_CERTIFICATE, (folder / AUTHORITY_CERTIFICATE).read_bytes(), _PUBLIC, made)
    _write(where / OWN_KEY, _key_bytes(key), _PRIVATE, made)
    _write(where / OWN_CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM), _PUBLIC, made)


def _copy_tokens(folder: Path, where: Path, keys: Iterable[str], made: Made) -> None:
    for key in keys:
        source = token_file(folder, key)
        _write(where / TOKENS / source.name, source.read_bytes(), _PRIVATE, made)


def _certificate(
    authority: _Authority, role: Role, name: str, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(f"{URI}{role}")]
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role is not Role.CLIENT:
        names += _names_of(name)
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    return (
        _builder(subject, authority.certificate.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
        )
        .sign(authority.key, hashes.SHA256())
    )


def _names_of(name: str) -> list[x509.GeneralName]:
    if name == "localhost":
        loopback = [x509.IPAddress(ipaddress.ip_address(item)) for item in ("127.0.0.1", "::1")]
        return [x509.DNSName(name), *loopback]
    address = _address(name)
    return [x509.IPAddress(address)] if address else [x509.DNSName(name)]


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes, mode: int, made: Made) -> None:
    """A new file that nobody else could read at any time; one that is there is kept."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        if path not in made.written:
            made.kept.append(path)
        return
    with os.fdopen(handle, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
    made.written.append(path)
