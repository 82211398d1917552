"""The target that tuning passes tune for."""

from __future__ import annotations

from ir.target import Target

from ..error import TunerError


def current_target() -> Target:
    """The target of the innermost ``with Target(...)``; raises TunerError outside of any."""
    found = Target.current(allow_none=True)
    if found is None:
        raise TunerError("tuning passes need a target; apply them within `with Target(...):`")
    return found
