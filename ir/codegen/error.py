"""The errors of code generation: one base class for whichever machine the code is for, and what a CUDA compiler says of a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..error import IRError


class CodegenError(IRError):
    """Code could not be generated, loaded or linked."""


def what_it_is(value: object) -> str:
    """The type of what was given for a program, and where the program is in it, if it has one: a schedule does."""
    fix = (
        "; its program is .mod"
        if hasattr(value, "mod")
        else "; te.create_prim_func([A, B]) makes one of tensors"
    )
    return type(value).__name__ + fix


class CudaToolkitError(CodegenError):
    """A part of the CUDA toolkit is not installed, or cannot be used; the message says what to install."""


@dataclass(frozen=True)
class CudaDiagnostic:
    """One message of the CUDA compiler."""

    severity: str
    """``"error"``, ``"warning"`` or ``"remark"``."""
    message: str
    file: str = ""
    """The file that it is about; "" where it is about no place in the source."""
    line: int | None = None
    """Counted from 1."""
    excerpt: str = ""
    """The line of the source with a mark under the place, and what led there (instantiations of templates)."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line is not None else ""
        return f"{place}{self.severity}: {self.message}" + (f"\n{self.excerpt}" if self.excerpt else "")


class CudaCompileError(CodegenError):
    """CUDA C++ does not compile; each error is in the message with the line of the source that it is about."""

    def __init__(self, summary: str, diagnostics: Sequence[CudaDiagnostic] = (), log: str = "") -> None:
        self.diagnostics = tuple(diagnostics)
        self.log = log
        """All that the compiler said."""
        errors = [str(item) for item in self.diagnostics if item.severity == "error"]
        super().__init__("\n".join([summary, *(errors or [log.strip()] * bool(log.strip()))]))
