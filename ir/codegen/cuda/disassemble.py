"""The machine code of a cubin as text, where NVIDIA's disassembler is installed; PTX is text already (``CompiledKernels.ptx``)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ..error import CodegenError, CudaToolkitError
from .toolkit import toolkit

_DISASSEMBLERS = (("nvdisasm", ("--print-code",)), ("cuobjdump", ("--dump-sass",)))
"""Programs that do it, with their options; the first that is there is taken."""


def disassemble(cubin: bytes) -> str:
    """The instructions (SASS) of all functions of a cubin.

    Raises:
        CudaToolkitError: there is no disassembler, or no toolkit at all.
        CodegenError: it does not read the bytes; its words are in the message.
    """
    for name, options in _DISASSEMBLERS:
        program = toolkit().program(name)
        if program is not None:
            return _run(program, options, cubin)
    names = " nor ".join(name for name, _ in _DISASSEMBLERS)
    raise CudaToolkitError(
        f"machine code of GPUs cannot be shown: neither {names} is installed; pip install nvidia-cuda-nvdisasm, or add the bin folder"
        " of a CUDA toolkit to PATH"
    )


def _run(program: Path, options: tuple[str, ...], cubin: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernels.cubin")
        file.write_bytes(cubin)
        command = [str(program), *options, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CodegenError(f"{program.name} does not read the cubin: {done.stderr.strip()}")
    return done.stdout
