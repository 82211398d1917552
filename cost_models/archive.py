"""Model files: zip archives of plain arrays (``np.savez``) that name the kind of model and the version of the format."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .error import CostModelError

VERSION = 1


def write_archive(path: str | os.PathLike[str], kind: str, arrays: dict[str, Any]) -> None:
    """Write arrays to a file, replacing it in one step."""
    final = Path(path)
    temporary = final.with_name(f"{final.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        np.savez_compressed(
            file, **{"archive.kind": np.array(kind), "archive.version": np.array(VERSION), **arrays}
        )
    temporary.replace(final)


def read_archive(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """The arrays of a file.

    Raises:
        CostModelError: there is no such file, or it holds something else.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise CostModelError(f"the cost model file {os.fspath(path)!r} cannot be read: {error}") from error
    found, version = str(arrays.get("archive.kind", "")), int(arrays.get("archive.version", 0))
    if found != kind:
        raise CostModelError(
            f"{os.fspath(path)!r} holds a model of kind {found or 'unknown'!r}, expected {kind!r}"
        )
    if version > VERSION:
        raise CostModelError(f"{os.fspath(path)!r} has format {version}; this release reads up to {VERSION}")
    return arrays
