"""The error of code generation, whichever machine the code is for."""

from __future__ import annotations

from ..error import IRError


class CodegenError(IRError):
    """Code could not be generated, loaded or linked."""
