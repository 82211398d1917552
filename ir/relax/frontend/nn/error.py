"""The errors of the nn library; all derive from :class:`NNError`."""

from __future__ import annotations

from ir.error import IRError, IRTypeError, IRValueError


class NNError(IRError):
    """An nn program is used in a way that it cannot work; the message names the object and the fix."""


class NNTypeError(NNError, IRTypeError):
    """An nn function or module got a value of the wrong kind or dtype."""


class NNValueError(NNError, IRValueError):
    """An nn function or module got a value that it cannot accept."""


class NNKeyError(NNError, KeyError):
    """A state_dict and a module do not have the same keys."""

    def __str__(self) -> str:
        return str(self.args[0])


class NNKeyLookupError(NNError, KeyError):
    """An external module does not have a function of that name."""

    def __str__(self) -> str:
        return str(self.args[0])
