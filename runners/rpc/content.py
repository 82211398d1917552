"""Contents that clients have sent, by their SHA-256: each is sent once, and kept in files while there is room."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from ..error import RunnerError
from ..own_folder import own_folder
from .limits import LimitReached

DEFAULT_BYTES = 4 << 30
"""What a server keeps at most."""
_KEY = re.compile("[0-9a-f]{64}")
_LOG = logging.getLogger(__package__)


class ContentError(RunnerError):
    """A content is not what it is said to be, or too large."""


class ContentMissing(ContentError):
    """A content is not here: it was never sent, or made room for others."""


class ContentsUnwritable(RunnerError):
    """A content cannot be kept here, as where the disk is full: no fault of the content."""


class ContentStore:
    """Contents in a folder of its own, which ends with it, or, where its process was killed, with the next one that is made.

    Nobody else can read it, worker processes neither: they run what one client has sent, and contents are others' too.

    Args:
        limit: bytes that all of them may have together; the longest unused makes room for a new one.
        folder: where its folder is made; that for temporary files by default.
    """

    def __init__(self, limit: int = DEFAULT_BYTES, folder: Path | None = None) -> None:
        self._limit = limit
        self.folder = own_folder("contents", folder)
        self._remove = weakref.finalize(self, shutil.rmtree, self.folder, True)
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._coming = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        """Remove all of them."""
        self._remove()

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Those of some contents that are not here.

        Raises:
            ContentError: a key is none.
        """
        wanted = [_checked(key) for key in keys]
        with self._lock:
            return [key for key in wanted if not self._use(key)]

    def read(self, key: str, most: int | None = None) -> bytes:
        """A content.

        Raises:
            ContentMissing: it is not here.
            ContentError: the key is none.
            LimitReached: it has more than ``most`` bytes.
        """
        with self._opened(key) as file:
            if most is not None and os.fstat(file.fileno()).st_size > most:
                raise LimitReached("program_bytes", most)
            return file.read()

    def parts(self, key: str, size: int) -> Iterator[bytes]:
        """A content in parts of a size, the last of which may be smaller and is empty where there is nothing else; raises as :meth:`read`
        does."""
        with self._opened(key) as file:
            yield file.read(size)
            while data := file.read(size):
                yield data

    def _opened(self, key: str) -> IO[bytes]:
        """The file of a content, which stays readable when it makes room for others; raises as :meth:`read` does."""
        try:
            return self.path(key).open("rb")
        except FileNotFoundError:  # it has just made room
            raise ContentMissing(f"the content {key} is not here; send it") from None

    def path(self, key: str) -> Path:
        """The file of a content; raises as :meth:`read` does."""
        _checked(key)
        with self._lock:
            if not self._use(key):
                raise ContentMissing(f"the content {key} is not here; send it")
        return self.folder / key

    def _use(self, key: str) -> bool:
        if key not in self._sizes:
            return False
        if not (self.folder / key).exists():  # whoever clears folders for temporary files has removed it
            del self._sizes[key]
            return False
        self._sizes.move_to_end(key)
        return True

    def add(self, data: bytes) -> str:
        """Keep a content that was made here; its key. Raises as :meth:`write` does."""
        key = hashlib.sha256(data).hexdigest()
        self.write(key, len(data), [data])
        return key

    def write(self, key: str, size: int, parts: Iterable[bytes]) -> None:
        """Keep a content that comes in parts.

        Raises:
            ContentError: it is too large, or something else than its key and size say.
            ContentsUnwritable: the system refuses to keep it.
        """
        _checked(key)
        self._make_room(size)
        try:
            name = self._received(key, size, parts)
        except BaseException as error:
            with self._lock:
                self._coming -= size
            if isinstance(error, OSError):
                _LOG.warning("a content of %d bytes cannot be kept: %s", size, error)
                raise ContentsUnwritable(
                    f"the server cannot keep a content of {size} bytes: {error}"
                ) from error
            raise
        with self._lock:  # the file and what is known of it change together: others make room meanwhile
            self._coming -= size
            os.replace(name, self.folder / key)
            self._sizes[key] = size
            self._sizes.move_to_end(key)

    def _received(self, key: str, size: int, parts: Iterable[bytes]) -> str:
        """The file that a content has come into."""
        self.folder.mkdir(mode=0o700, exist_ok=True)  # as above
        handle, name = tempfile.mkstemp(dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                self._receive(key, size, parts, file)
        except BaseException:
            os.unlink(name)
            raise
        return name

    def _receive(self, key: str, size: int, parts: Iterable[bytes], file: IO[bytes]) -> None:
        hashed, left = hashlib.sha256(), size
        for part in parts:
            left -= len(part)
            if left < 0:
                break
            hashed.update(part)
            file.write(part)
        if left or hashed.hexdigest() != key:
            raise ContentError(f"what came as the content {key} of {size} bytes is something else")

    def _make_room(self, size: int) -> None:
        with self._lock:
            if not 0 <= size <= self._limit - self._coming:
                raise ContentError(
                    f"a content of {size} bytes is too large here, where all may have {self._limit} together"
                )
            self._coming += size
            kept = sum(self._sizes.values())
            while self._sizes and kept + self._coming > self._limit:
                oldest, freed = self._sizes.popitem(last=False)
                kept -= freed
                (self.folder / oldest).unlink(missing_ok=True)


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ContentError(f"a content is named by 64 hexadecimal digits, got {key[:80]!r}")
    return key
