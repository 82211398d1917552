"""Readers of bytes, which may raise an error of the compiler and nothing else: programs, kernels, answers of workers, targets, lock files
and libraries (:mod:`.artefacts`)."""

from __future__ import annotations

import json
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from ir.error import IRError
from ir.json_format import load_json, save_json
from ir.target import Target
from runners import plain_reply
from runners.candidate import BuildReport, PackedBuild
from runners.kernel import Kernel
from runners.kernel_code import packed_kernel, unpacked_kernel
from runners.native import build_native
from tests.programs.nodes import matmul, scaled

from .artefacts import library_reader, lock_reader
from .audit import nothing_run
from .mutation import mutated_bytes, mutated_json, mutated_kernel, mutated_program

SECONDS = 5.0
"""What one reading may take of a processor: machines that are busy with other things make no failure."""


@dataclass
class Found:
    """What came of the inputs of a reader."""

    count: int = 0
    refused: int = 0
    slowest: float = 0.0
    failures: dict[str, str] = field(default_factory=dict)
    """An example of each kind of failure: which error came from where."""


def _programs() -> list[bytes]:
    return [save_json(mod).encode() for mod in (matmul(), scaled(factor=3.0))]


def program_reader() -> tuple[Callable[[random.Random], bytes], Callable[[bytes], object]]:
    """Programs in JSON."""
    texts = _programs()
    return (lambda rng: mutated_program(rng, rng.choice(texts))), lambda data: load_json(
        data.decode("utf-8", "replace")
    )


def kernel_reader() -> tuple[Callable[[random.Random], bytes], Callable[[bytes], object]]:
    """Built kernels."""
    mod = matmul()
    data = packed_kernel(Kernel(mod, build_native(mod, "cpu")))
    return (lambda rng: mutated_kernel(rng, data)), unpacked_kernel


def reply_reader() -> tuple[Callable[[random.Random], bytes], Callable[[bytes], object]]:
    """Answers of confined workers."""
    build = PackedBuild(BuildReport(0.1, {"code_size": 12.0}), b"code")
    texts = [
        plain_reply.encoded(message)
        for message in (("returned", build), ("phase", "build", 3.0, None), ("raised", "E", "why", ""))
    ]

    def make(rng: random.Random) -> bytes:
        chosen = rng.choice(texts)
        return (
            mutated_bytes(rng, chosen)
            if rng.random() < 0.4
            else json.dumps(mutated_json(rng, json.loads(chosen))).encode()
        )

    return make, plain_reply.decoded


def target_reader() -> tuple[Callable[[random.Random], bytes], Callable[[bytes], object]]:
    """Targets as text, which the process of a server reads."""
    texts = [
        b"llvm -mcpu=znver4 -num-cores 2", b"cuda -arch=sm_90", b'{"kind":"llvm","mcpu":"x","keys":["cpu"]}', b"nvidia/nvidia-a100", b"cpu",
    ]  # fmt: skip
    return (lambda rng: mutated_bytes(rng, rng.choice(texts), texts)), lambda data: Target(
        data.decode("utf-8", "replace")
    )


READERS = {
    "programs": program_reader,
    "kernels": kernel_reader,
    "replies": reply_reader,
    "targets": target_reader,
    "locks": lock_reader,
    "libraries": library_reader,
}


def tried(name: str, seeds: range) -> Found:
    """What comes of the inputs of some seeds."""
    make, read = READERS[name]()
    found = Found()
    for seed in seeds:
        data = make(random.Random(seed))
        begin = time.process_time()
        try:
            with nothing_run():
                read(data)
        except IRError:
            found.refused += 1
        except Exception as error:  # what is looked for
            last = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} at {last.filename.rpartition('/')[2]}:{last.lineno}"
            found.failures.setdefault(kind, f"seed {seed}: {str(error)[:200]}")
        took = time.process_time() - begin
        if took > SECONDS:
            found.failures.setdefault("slow", f"seed {seed}: {took:.1f} s")
        found.slowest = max(found.slowest, took)
        found.count += 1
    return found
