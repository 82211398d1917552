"""Which candidates somebody is measuring right now, as plain data: what databases in memory and in files keep."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path

from .base import CLAIM_SECONDS, RENEWAL_SECONDS
from .claim_owner import ended_among
from .error import cannot_write
from .lock import file_lock

Place = tuple[str, str]
"""A workload's hash and a target's key."""


class Holders:
    """The owners that have claimed something through one object, whose claims each commit keeps alive."""

    def __init__(self) -> None:
        self._owners: set[str] = set()
        self._renewed_at = 0.0

    def add(self, owner: str) -> None:
        """One that has claimed candidates just now."""
        self._owners.add(owner)
        self._renewed_at = time.time()

    def remove(self, owner: str) -> None:
        """One that has given up all of its claims."""
        self._owners.discard(owner)

    def due(self) -> set[str]:
        """Those whose claims are to be renewed now; nobody, where that was done a moment ago."""
        now = time.time()
        if not self._owners or abs(now - self._renewed_at) < RENEWAL_SECONDS:
            return set()
        self._renewed_at = now
        return set(self._owners)


class Claims:
    """Claims of candidates; whoever shares the object holds a lock around each call."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str, str], tuple[str, float]] = {}
        """Owner and time of each claim, by place and candidate."""

    def claim(self, place: Place, candidates: Sequence[str], owner: str) -> list[bool]:
        """See :meth:`database.Database.claim`."""
        now = time.time()
        for ended in ended_among(holder for holder, _ in self._owners.values()):
            self.release(ended)
        granted = []
        for candidate in candidates:
            holder, since = self._owners.get((*place, candidate), (owner, now))
            granted.append(holder == owner or abs(now - since) > CLAIM_SECONDS)
            if granted[-1]:
                self._owners[(*place, candidate)] = (owner, now)
        return granted

    def renew(self, owners: Collection[str]) -> None:
        """Let what some owners hold last from now on."""
        now = time.time()
        for key, (owner, _) in self._owners.items():
            if owner in owners:
                self._owners[key] = (owner, now)

    def release(self, owner: str) -> None:
        """Forget what an owner holds."""
        self._owners = {key: entry for key, entry in self._owners.items() if entry[0] != owner}


class ClaimFile:
    """Claims in a small file that is rewritten under a lock: it holds only what is being measured now."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self, place: Place, candidates: Sequence[str], owner: str) -> list[bool]:
        """See :meth:`database.Database.claim`."""
        with self._changed() as claims:
            return claims.claim(place, candidates, owner)

    def renew(self, owners: Collection[str]) -> None:
        """Let what some owners hold last from now on."""
        with self._changed() as claims:
            claims.renew(owners)

    def release(self, owner: str) -> None:
        """Forget what an owner holds."""
        with self._changed() as claims:
            claims.release(owner)

    @contextmanager
    def _changed(self) -> Iterator[Claims]:
        """The claims, which are written again at the end of the block."""
        try:
            with file_lock(self.path):
                claims = self._read()
                yield claims
                self._write(claims)
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def _read(self) -> Claims:
        claims = Claims()
        # A claim is worth a few minutes: a file that a crash has torn, or that something else has written, is begun anew.
        with suppress(ValueError, TypeError, OverflowError, RecursionError):
            claims._owners = dict(_entry(*item) for item in json.loads(self.path.read_text() or "[]"))
        return claims

    def _write(self, claims: Claims) -> None:
        self.path.write_text(json.dumps([[*key, *entry] for key, entry in claims._owners.items()]))


def _entry(
    shash: str, target: str, candidate: str, owner: str, since: float
) -> tuple[tuple[str, str, str], tuple[str, float]]:
    """A claim of a file, which may hold anything.

    Raises:
        ValueError, TypeError, OverflowError: it is none.
    """
    if not all(isinstance(name, str) for name in (shash, target, candidate, owner)) or not isfinite(since):
        raise ValueError("no claim")
    return (shash, target, candidate), (owner, float(since))
