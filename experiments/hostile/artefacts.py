"""Lock files and libraries with changes that somebody has made on purpose: many of them with a checksum that is right again."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

import runners
from database import DatabaseError
from database.meta_schedule_apply_database import kernels_of
from database.target_key import target_key
from database.tuning_lock import TuningLock
from ir.target import Target
from runners.library_file import read_description, seal
from tests.tuner.locked_model import model, tuned
from tuner import compile_relax
from tuner.cli.inspect import lines_of
from tuner.compile import prepare

from .mutation import mutated_bytes, mutated_json

Reader = tuple[Callable[[random.Random], bytes], Callable[[bytes], object]]


def _built(folder: Path) -> tuple[bytes, bytes]:
    """The text of a lock, and the library of the build that wrote it."""
    tuned(folder / "tuning.db", model()).close()
    executable = compile_relax(model(), database=folder / "tuning.db", lock=folder / "tuning.lock")
    library = executable.export_library(folder / "model.so")
    return (folder / "tuning.lock").read_bytes(), library.read_bytes()


def lock_reader() -> Reader:
    """Lock files: read, compared with the model, written again, and each record applied to the kernel that it is pinned to."""
    target = Target("cpu")
    kernels = kernels_of(prepare(model(), target), target)
    with tempfile.TemporaryDirectory() as folder:
        text, _ = _built(Path(folder))

    def make(rng: random.Random) -> bytes:
        if rng.random() < 0.3:
            return mutated_bytes(rng, text)
        document = json.loads(text)
        document.pop("checksum")
        changed = mutated_json(rng, document)
        if not isinstance(changed, dict):
            return json.dumps(changed).encode()
        canonical = json.dumps(changed, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        return json.dumps({"checksum": f"sha256:{digest}", **changed}).encode()

    def read(data: bytes) -> None:
        lock = TuningLock.from_text(data)
        TuningLock.from_text(lock.as_text())
        lock.differences(kernels)
        lock.without_record()
        for item in kernels:
            locked = lock.by_key.get((item.workload, target_key(item.target)))
            record = None if locked is None else locked.record_of(item.module)
            if record is not None:
                record.schedule_of(item.var.name_hint)

    return make, read


def library_reader() -> Reader:
    """Libraries: changed as bytes they are opened, and with another description and a right checksum they are inspected.

    To open what has a right checksum is to run it; so that is not tried.
    """
    folder = Path(tempfile.mkdtemp())
    where = folder / "changed.so"
    _, whole = _built(folder)
    description = read_description(folder / "model.so")
    text = json.dumps(description, separators=(",", ":")).encode()

    def make(rng: random.Random) -> bytes:
        if rng.random() < 0.5:
            return b"open" + mutated_bytes(rng, whole)
        changed = mutated_json(rng, description)
        written = json.dumps(changed).encode() if rng.random() < 0.8 else mutated_bytes(rng, text)
        where.write_bytes(whole + written)
        seal(where, written)
        return b"look" + where.read_bytes()

    def read(data: bytes) -> None:
        how, content = data[:4], data[4:]
        if content == whole:
            raise DatabaseError("nothing was changed")
        where.write_bytes(content)
        if how == b"open":
            runners.load_module(where)
            raise AssertionError("a changed library was loaded")
        lines_of(where, read_description(where))

    weakref.finalize(read, shutil.rmtree, folder)
    return make, read
