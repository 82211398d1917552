"""What errors of this package derive from: the compiler's own error where that is installed. Packages of models have another file here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ir.error import IRError

    BaseError = IRError
else:
    try:
        from ir.error import IRError as BaseError
    except ModuleNotFoundError:  # a machine with numpy and this folder only
        BaseError = Exception
