"""References by workload: computed once, in memory and in files that all workers of a machine share."""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from pathlib import Path
from typing import IO, Any

import numpy as np

from ir import structural_hash

from .allowance import allowing
from .compare import Bounds
from .facts import KernelFacts, facts_of
from .kinds import KINDS, Array
from .reference import Case, MakeRun, Reference, compute_reference

VERSION = "18"
"""The version of the check, which records name. 1: the program as it is, two kinds of inputs, a tolerance; 2: a float64 reference,
bounds by stage, guarded memory, six kinds of inputs; 3 to 16: inputs that tell more, scratch memory that holds a pattern and is written
before it is read, bounds of integers, of what is stored where rounded floats say, and of sums in whatever order; 17: candidates that
compute by another algorithm are allowed its roundings; 18: if that has a number wherever the unscheduled program has one."""
_ALL_BITS = (1 << 64) - 1


class ReferenceStore:
    """References by workload, in memory and in files that the workers of one pool share."""

    def __init__(self, folder: Path | None = None, memory_bytes: int = 512 << 20) -> None:
        """
        Args:
            folder: where files are shared; by default the folder of the pool that this process works for, if any.
            memory_bytes: what would go beyond this is dropped from memory, the longest unused first.
        """
        shared = os.environ.get("LOOPSMITH_REFERENCE_FOLDER")
        self.folder = folder or (Path(shared) if shared else None)
        self._memory_bytes = memory_bytes
        self._memory: OrderedDict[str, Reference] = OrderedDict()

    @staticmethod
    def key(mod: Any, target: Any) -> str:
        """Names a workload: the structure of its program, or the content of its text, and what it is built for."""
        named = getattr(mod, "key", None) or structural_hash(mod)
        return hashlib.sha256(f"{VERSION} {named} {target}".encode()).hexdigest()[:32]

    def in_memory(self, key: str) -> Reference | None:
        """The reference of a workload when it is at hand."""
        known = self._memory.get(key)
        if known is not None:
            self._memory.move_to_end(key)
        return known

    def forget(self, key: str) -> None:
        """Drop a workload from memory: a wrong candidate may have written into it."""
        for known in [item for item in self._memory if item.split("-")[0] == key]:
            del self._memory[known]

    def get(self, key: str, mod: Any, make_run: MakeRun) -> Reference:
        """The reference of a workload: from memory, from the file, or computed by ``make_run(module)(arguments)``."""
        known = self.in_memory(key)
        if known is None:
            facts = facts_of(mod)
            self._make_room(facts)
            known = self._load(key, facts)
            if known is None:
                known = compute_reference(mod, make_run, facts)
                self._save(key, known)
            self._memory[key] = known
        return known

    def allowing(self, key: str, reference: Reference, program: Any, make_run: MakeRun) -> Reference:
        """The reference of a workload for candidates that round as a program does (:func:`.allowance.allowing`)."""
        own_key = f"{key}-{structural_hash(program) & _ALL_BITS:016x}"
        known = self.in_memory(own_key) or self._load(own_key, reference.facts)
        if known is None:
            self._make_room(reference.facts)
            known = allowing(reference, program, make_run)
            self._save(own_key, known)
        self._memory[own_key] = known
        return known

    def _make_room(self, facts: KernelFacts) -> None:
        """Before a new one is made: its arrays then take the place of the old ones."""
        while self._memory and self._nbytes() + 3 * facts.nbytes > self._memory_bytes:
            self._memory.popitem(last=False)

    def _nbytes(self) -> int:
        return sum(item.nbytes for item in self._memory.values())

    def _load(self, key: str, facts: KernelFacts) -> Reference | None:
        if self.folder is None:
            return None
        names = {kind.name: kind for kind in KINDS}
        try:
            meta = json.loads((self.folder / f"{key}.json").read_text())
            # Pages of the file that all processes share: nothing is copied, and nobody can write to it.
            data = (
                np.memmap(self.folder / f"{key}.bounds", np.uint8, "r")
                if meta["bytes"]
                else np.zeros(0, np.uint8)
            )
            if data.size != meta["bytes"]:
                return None
            cases = [
                Case(
                    names[entry["kind"]],
                    number,
                    [
                        Bounds(_placed(data, low), None if high is None else _placed(data, high), plain)
                        for low, high, plain in entry["outputs"]
                    ],
                )
                for number, entry in enumerate(meta["cases"])
            ]
            return Reference(facts, cases, meta["secs"])
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or a damaged one: compute it again
            return None

    def _save(self, key: str, reference: Reference) -> None:
        if self.folder is None:
            return
        part, text = (self.folder / f".{key}.{os.getpid()}{end}" for end in (".bounds", ".json"))
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with part.open("wb") as file:
                cases = [
                    {
                        "kind": case.name,
                        "outputs": [
                            (
                                _written(file, bounds.low),
                                None if bounds.high is None else _written(file, bounds.high),
                                bounds.plain,
                            )
                            for bounds in case.outputs
                        ],
                    }
                    for case in reference.cases
                ]
                meta = {"cases": cases, "secs": reference.secs, "bytes": file.tell()}
            text.write_text(json.dumps(meta))
            part.replace(self.folder / f"{key}.bounds")
            text.replace(self.folder / f"{key}.json")
        except OSError:  # a full disk costs time, not correctness: the next worker computes it again
            part.unlink(missing_ok=True)
            text.unlink(missing_ok=True)


_ALIGNMENT = 64


def _written(file: IO[bytes], array: Array) -> tuple[int, str, tuple[int, ...]]:
    """Append an array to a file; where it is, its dtype and shape."""
    file.write(bytes(-file.tell() % _ALIGNMENT))
    begin = file.tell()
    file.write(np.ascontiguousarray(array).data)
    return begin, array.dtype.str, array.shape


def _placed(data: Array, where: tuple[int, str, tuple[int, ...]]) -> Array:
    """The array at a place of a file."""
    begin, dtype, shape = where
    return np.ndarray(tuple(shape), np.dtype(dtype), data, begin)
