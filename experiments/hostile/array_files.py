"""Mutated ``.npz`` files: changed as bytes, or in the parts of the archive, and read as inputs of a model."""

from __future__ import annotations

import io
import random
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from ir.error import IRError
from tuner.model import read_arguments

from .children import Attempt
from .mutation import mutated_bytes

_SPECS: list[dict[str, Any]] = [
    {"name": "x", "dtype": "float32", "shape": [2, 3]},
    {"name": "y", "dtype": "int64", "shape": [4]},
]
_HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 3), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }",
    "{'descr': [('a', '<f4', (9,) * 9)], 'fortran_order': False, 'shape': (2, 3), }",
    "{'descr': '<f4', 'fortran_order': 2, 'shape': 6, }",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (2, 3), }",
    "__import__('os').system('true')",
    "[" * 900,
)


@lru_cache(maxsize=2)
def _file(compressed: bool) -> bytes:
    out = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(out, x=np.ones((2, 3), "float32"), y=np.arange(4))
    return out.getvalue()


def _member(rng: random.Random, data: bytes) -> bytes:
    """One array of an archive, with other bytes or another header."""
    kind = rng.random()
    if kind < 0.3:
        return data
    if kind < 0.5:  # the numbers, of which any are some
        return data[:128] + rng.randbytes(len(data) - 128)
    if kind < 0.8:
        return mutated_bytes(rng, data)
    header = rng.choice(_HEADERS).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data[128:]


def try_npz(rng: random.Random, folder: Path) -> None:
    """A changed file, read."""
    path, data = folder / "inputs.npz", _file(rng.random() < 0.5)
    if rng.random() < 0.5:
        path.write_bytes(mutated_bytes(rng, data))
    else:
        with (
            zipfile.ZipFile(io.BytesIO(data)) as made,
            zipfile.ZipFile(path, "w") as changed,
            catch_warnings(),
        ):
            simplefilter("ignore")  # of two arrays of one name
            for name in made.namelist():
                changed.writestr(rng.choice((name,) * 12 + ("z.npy", "x")), _member(rng, made.read(name)))
    read_arguments(_SPECS, path)


def _warm_up(folder: Path) -> None:
    """Read a good file, and a bad one."""
    path = folder / "inputs.npz"
    for data in (_file(True), _file(False), b"no array"):
        path.write_bytes(data)
        try:
            read_arguments(_SPECS, path)
        except IRError:
            continue


ATTEMPTS = {"npz": Attempt(try_npz, _warm_up)}
