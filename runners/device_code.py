"""The part of a built model that runs on a device: kernels as code for its architecture, as PTX for later ones, and as source."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from .error import RunnerError


class DeviceKernel(TypedDict):
    """A kernel by its name, with the dynamic shared memory that its launches ask for: None where that is known at the launch only."""

    name: str
    dynamic_shared_bytes: int | None


@dataclass(frozen=True, eq=False)
class DeviceCode:
    """Kernels of a model for CUDA devices, by their numbers.

    Attributes:
        arch: what the cubin is for, as ``"sm_80"``.
        kernels: in the order of their numbers.
        source: CUDA C++.
        ptx: what drivers compile for devices that the cubin is not for.
        cubin: what they load.
    """

    arch: str
    kernels: Sequence[DeviceKernel]
    source: str
    ptx: str
    cubin: bytes

    def text(self, form: str) -> str:
        """``"cuda"`` (C++) or ``"ptx"``.

        Raises:
            RunnerError: another form is asked for.
        """
        if form == "cuda":
            return self.source
        if form == "ptx":
            return self.ptx
        raise RunnerError(f"the kernels of a model have the sources 'cuda' and 'ptx', not {form!r}")

    def described(self) -> dict[str, Any]:
        """All but the code, as plain data."""
        return {
            "arch": self.arch,
            "kernels": list(self.kernels),
            "sizes": [len(part) for part in self.parts()],
        }

    def parts(self) -> list[bytes]:
        """The code as files hold it: the cubin and PTX as drivers read them from memory, the source compressed."""
        return [self.cubin, self.ptx.encode() + b"\0", zlib.compress(self.source.encode())]

    @staticmethod
    def of_parts(described: dict[str, Any], data: bytes) -> DeviceCode:
        """What :meth:`described` and the joined :meth:`parts` were made of."""
        ends, found = 0, []
        for size in described["sizes"]:
            found.append(data[ends : ends + size])
            ends += size
        cubin, ptx, source = found
        return DeviceCode(
            described["arch"],
            described["kernels"],
            zlib.decompress(source).decode(),
            ptx[:-1].decode(),
            cubin,
        )
