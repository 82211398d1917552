"""What a tracker, a server or a client shows the others: a certificate of the fleet's authority, and tokens of keys.

Both ends of a connection show a certificate (mutual TLS); a token says in addition that its holder may use, or serve, devices of a key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import grpc

from ..error import RunnerError

VARIABLE = "LOOPSMITH_RPC_CREDENTIALS"
"""Names the folder of credentials where none is given."""
TOKEN_HEADER = "loopsmith-token"
"""Metadata of calls: a token; there may be several."""
SESSION_HEADER = "loopsmith-session"
"""Metadata of calls within a session: its token."""
URI = "loopsmith:"
"""How the name begins by which a certificate says what its holder is."""
MOST_TOKENS = 32
"""That a call carries."""
_AUTHORITY, _CERTIFICATE, _KEY, _TOKENS = "authority.crt", "own.crt", "own.key", "tokens"


@dataclass(frozen=True)
class Credentials:
    """A certificate with its key, the authority's, and tokens by key."""

    authority: bytes = field(repr=False)
    """In PEM, as the others."""
    certificate: bytes = field(repr=False)
    private_key: bytes = field(repr=False)
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    private_files: tuple[str, ...] = ()
    """Where secrets were read from."""

    @staticmethod
    def of_folder(folder: str | Path) -> Credentials:
        """Those of a folder of ``loopsmith rpc certs``: of one tracker, server or client.

        Raises:
            RunnerError: a file is missing, or others may read the private key.
        """
        where = Path(folder)
        if not (where / _CERTIFICATE).exists() and (where / _AUTHORITY).exists():
            raise RunnerError(
                f"{where} is the folder of a whole fleet; name the one of who runs here, such as {where / 'clients' / 'client'}"
            )
        return Credentials.of_files(where / _AUTHORITY, where / _CERTIFICATE, where / _KEY, where / _TOKENS)

    @staticmethod
    def of_files(
        authority: str | Path, certificate: str | Path, key: str | Path, tokens: str | Path | None = None
    ) -> Credentials:
        """Those of separate files, and of a folder with ``KEY.token`` for each key.

        Raises:
            RunnerError: a file is missing, or others may read the private key.
        """
        try:
            _require_private(Path(key))
            files = sorted(Path(tokens).glob("*.token")) if tokens is not None else []
            for file in files:
                _require_private(file)
            return Credentials(
                Path(authority).read_bytes(),
                Path(certificate).read_bytes(),
                Path(key).read_bytes(),
                {unquote(file.stem): file.read_text().strip() for file in files},
                (str(key), *map(str, files)),
            )
        except OSError as error:
            raise RunnerError(
                f"cannot read credentials: {error.filename}: {error.strerror}; `loopsmith rpc certs` makes them, and {VARIABLE} names the"
                " folder of who runs here"
            ) from error

    @staticmethod
    def found(given: Credentials | str | Path | None) -> Credentials | None:
        """What is given, or what the environment names; None where there is neither.

        Raises:
            RunnerError: as :meth:`of_folder`.
        """
        if isinstance(given, Credentials):
            return given
        named = given or os.environ.get(VARIABLE)
        return Credentials.of_folder(named) if named else None

    def of_channel(self) -> grpc.ChannelCredentials:
        """For a connection to a tracker or a server."""
        return grpc.ssl_channel_credentials(self.authority, self.private_key, self.certificate)

    def of_server(self) -> grpc.ServerCredentials:
        """For who listens; only those with a certificate of the same authority come in."""
        return grpc.ssl_server_credentials(
            [(self.private_key, self.certificate)], self.authority, require_client_auth=True
        )

    def metadata(self, *keys: str) -> tuple[tuple[str, str], ...]:
        """The tokens of some keys, of all without any, as a call carries them."""
        chosen = [self.tokens[key] for key in keys or self.tokens if key in self.tokens]
        return tuple((TOKEN_HEADER, token) for token in chosen[:MOST_TOKENS])


def _require_private(path: Path) -> None:
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise RunnerError(f"others may read {path}, which is secret: chmod 600 {path}")


@dataclass(frozen=True, slots=True)
class Peer:
    """Who calls, as far as it is known."""

    name: str
    """For limits: the certificate, or the address without one."""
    identity: str
    """The certificate's digest; empty without TLS, where nobody is told from anybody."""
    role: str
    """What the certificate says; empty without TLS."""
    tokens: tuple[str, ...]

    @staticmethod
    def of(context: Any) -> Peer:
        """Who makes a call."""
        told = [
            value if isinstance(value, str) else value.decode("ascii", "replace")
            for name, value in context.invocation_metadata() or ()
            if name == TOKEN_HEADER
        ]
        proofs: Mapping[str, Iterable[bytes]] = context.auth_context() or {}
        certificate = b"".join(proofs.get("x509_pem_cert", ()))
        names = [name.decode("ascii", "replace") for name in proofs.get("x509_subject_alternative_name", ())]
        roles = [name.removeprefix(URI) for name in names if name.startswith(URI)]
        identity = hashlib.sha256(certificate).hexdigest() if certificate else ""
        address = context.peer().rpartition(":")[0]  # without the port
        return Peer(identity or address, identity, roles[0] if roles else "", tuple(told[:MOST_TOKENS]))

    def has_token(self, wanted: str) -> bool:
        """Whether a token is among those that the call carries; how long it takes does not depend on how much is right."""
        right = hashlib.sha256(wanted.encode()).digest()
        found = [hmac.compare_digest(hashlib.sha256(token.encode()).digest(), right) for token in self.tokens]
        return any(found)
