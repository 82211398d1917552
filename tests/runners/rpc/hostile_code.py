"""Kernels that are what an attacker would send: machine code of a C compiler in place of that of the program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runners.kernel import Kernel
from runners.kernel_code import KernelCode, packed_kernel
from runners.native import build_native
from tests.programs.nodes import matmul

SOURCE = Path(__file__).with_name("hostile.c")


def compiled(source: Path, folder: Path, **macros: object) -> bytes:
    """An object file of C code; tests are skipped where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = folder / "hostile.o"
    defined = [f"-D{name}={value}" for name, value in macros.items()]
    options = ["-O1", "-c", "-fPIC", "-fno-stack-protector"]
    subprocess.run([compiler, *options, *defined, str(source), "-o", str(made)], check=True)
    return made.read_bytes()


def kernel_of(source: Path, folder: Path, **macros: object) -> KernelCode:
    """Matrix multiplication, as its description says, whose code is something else."""
    mod = matmul()
    call: Any = build_native(mod, "cpu")
    (signature,) = call._module.signatures.values()
    call._module.code = compiled(source, folder, SYMBOL=signature.symbol, **macros)
    return KernelCode(packed_kernel(Kernel(mod, call)))
