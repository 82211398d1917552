"""What a call does to memory, as operators and external functions declare it.

Relax values are immutable, yet two names may stand for the same memory, and a few operators write. Whoever removes, merges,
moves or reuses something asks :mod:`ir.relax.analysis.memory`, which reads what is declared here:

- ``FRESH``: the result is new memory (the default), or no tensor at all;
- ``view_of(0)``: the result is the memory of argument 0 under another name or shape;
- ``writes(0)``: argument 0 is overwritten;
- ``releases(0)``: the life of argument 0 ends;
- ``IDENTITY``: the result is an object that is changed later, such as an allocation or a cache; two calls make two objects;
- ``UNKNOWN``: the result may be any memory, an argument's too;
- ``EFFECT``: the call does something that can be seen besides its result, such as printing; ``OPAQUE`` is both of the last.

They are joined with ``|``: a call that appends to a cache and returns it is ``view_of(0) | writes(0)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

Path = tuple[int, ...]
"""Where a value is in a call: the number of the argument, then of the field of a tuple, and so on."""


@dataclass(frozen=True, slots=True)
class View:
    """The part ``at`` of the result, by fields (``()`` is all of it), may be memory of the argument ``of``."""

    of: Path
    at: Path = ()


@dataclass(frozen=True, slots=True)
class MemoryEffect:
    """What calls of an operator or of an external function do to memory.

    Attributes:
        views: which parts of the result are memory of arguments; the other parts are new.
        writes: the arguments that are overwritten.
        releases: the arguments whose life ends with the call.
        reuses: arguments whose memory the result may take when nobody looks at it any more: each element is read for the
            last time where the result's element at the same place is written.
        identity: the result is an object that is changed later, so that two calls are never one.
        unknown: the result may be any memory.
        effect: something can be seen besides the result and what is written; with ``unknown``, also that any argument is
            written or kept.
    """

    views: tuple[View, ...] = ()
    writes: tuple[Path, ...] = ()
    releases: tuple[Path, ...] = ()
    reuses: tuple[Path, ...] = ()
    identity: bool = False
    unknown: bool = False
    effect: bool = False

    def __or__(self, other: MemoryEffect) -> MemoryEffect:
        """Both effects."""
        return MemoryEffect(
            self.views + other.views,
            self.writes + other.writes,
            self.releases + other.releases,
            self.reuses + other.reuses,
            self.identity or other.identity,
            self.unknown or other.unknown,
            self.effect or other.effect,
        )

    def of(self, call: Any) -> MemoryEffect:
        """What a call does: the same for all calls."""
        return self

    @property
    def pure(self) -> bool:
        """Whether nothing can be seen but the result, provided that nobody uses what is written afterwards."""
        return not self.effect

    @property
    def repeatable(self) -> bool:
        """Whether two calls with the same arguments are as good as one."""
        return not (self.effect or self.identity or self.writes or self.releases)

    @property
    def opaque(self) -> bool:
        """Whether any argument may be written or kept beyond the call."""
        return self.unknown and self.effect

    def among(self, prefix: Path, first: int = 0) -> MemoryEffect:
        """The same where the arguments are the fields at ``prefix``, from number ``first`` on.

        >>> writes(0).among((1,)).writes
        ((1, 0),)
        >>> writes(0).among((), 1).writes
        ((1,),)
        """

        def moved(path: Path) -> Path:
            return (*prefix, path[0] + first, *path[1:])

        return replace(
            self,
            views=tuple([View(moved(view.of), view.at) for view in self.views]),
            writes=tuple(map(moved, self.writes)),
            releases=tuple(map(moved, self.releases)),
            reuses=tuple(map(moved, self.reuses)),
        )

    def promised_pure(self) -> MemoryEffect:
        """The same where the program promises that there is no visible effect."""
        return replace(self, effect=False)


@dataclass(frozen=True, slots=True)
class ReadFromCall:
    """The memory effect of an operator whose calls differ: by an attribute, or by the function that they call.

    Attributes:
        read: from a call to its effect.
        pure: whether the operator promises that no call has a visible effect.
    """

    read: Callable[[Any], MemoryEffect]
    pure: bool = True

    def of(self, call: Any) -> MemoryEffect:
        """What a call does."""
        effect = self.read(call)
        return effect.promised_pure() if self.pure else effect | EFFECT


FRESH = MemoryEffect()
IDENTITY = MemoryEffect(identity=True)
UNKNOWN = MemoryEffect(unknown=True)
EFFECT = MemoryEffect(effect=True)
OPAQUE = UNKNOWN | EFFECT


def view_of(*arguments: int) -> MemoryEffect:
    """The result may be the memory of each of these arguments."""
    return MemoryEffect(views=tuple([View((number,)) for number in arguments]))


def writes(*arguments: int) -> MemoryEffect:
    """These arguments are overwritten."""
    return MemoryEffect(writes=tuple([(number,) for number in arguments]))


def releases(*arguments: int) -> MemoryEffect:
    """The life of these arguments ends."""
    return MemoryEffect(releases=tuple([(number,) for number in arguments]))


def reuses(*arguments: int) -> MemoryEffect:
    """The result is new, and may be put where one of these arguments is."""
    return MemoryEffect(reuses=tuple([(number,) for number in arguments]))


_EXTERNAL: dict[str, MemoryEffect] = {}


def declare_external(name: str, memory: MemoryEffect) -> None:
    """Say what the external function called ``name`` does to memory; its arguments are counted without the callee."""
    _EXTERNAL[name] = memory


def external_memory(name: str) -> MemoryEffect:
    """What was declared for an external function; ``OPAQUE`` when nothing was."""
    return _EXTERNAL.get(name, OPAQUE)
