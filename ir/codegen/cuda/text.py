"""C++ expressions as text that knows how tightly it binds, so that parentheses stand only where they are needed."""

from __future__ import annotations

from dataclasses import dataclass

(
    PRIMARY,
    UNARY,
    MULTIPLICATIVE,
    ADDITIVE,
    SHIFT,
    RELATIONAL,
    EQUALITY,
    BIT_AND,
    BIT_XOR,
    BIT_OR,
    AND,
    OR,
    TERNARY,
) = range(13)
"""Levels of binding in C++, from the tightest."""

_LEVELS = {
    "*": MULTIPLICATIVE, "/": MULTIPLICATIVE, "%": MULTIPLICATIVE, "+": ADDITIVE, "-": ADDITIVE, "<<": SHIFT, ">>": SHIFT,
    "<": RELATIONAL, "<=": RELATIONAL, ">": RELATIONAL, ">=": RELATIONAL, "==": EQUALITY, "!=": EQUALITY,
    "&": BIT_AND, "^": BIT_XOR, "|": BIT_OR, "&&": AND, "||": OR,
}  # fmt: skip
_CONFUSING = {"&", "^", "|", "<<", ">>", "&&", "||"}
"""Operators whose operands are put in parentheses beyond need: compilers and readers stumble over them."""


@dataclass(frozen=True)
class Text:
    """A C++ expression."""

    code: str
    level: int = PRIMARY

    def within(self, level: int) -> str:
        """The code as an operand of something that binds at a level."""
        return self.code if self.level <= level else f"({self.code})"

    @property
    def is_atom(self) -> bool:
        """Whether it is a name or a number, which may stand anywhere and often."""
        return self.code.replace("_", "").replace(".", "").isalnum()


def binary(operator: str, a: Text, b: Text) -> Text:
    """An operation on two values.

    >>> x, y = Text("x"), Text("y")
    >>> binary("*", binary("+", x, y), x).code
    '(x + y) * x'
    """
    level = _LEVELS[operator]
    if operator in _CONFUSING:
        return Text(f"{a.within(UNARY)} {operator} {b.within(UNARY)}", level)
    return Text(f"{a.within(level)} {operator} {b.within(level - 1)}", level)


def call(function: str, *arguments: Text | str) -> Text:
    """A call of a function."""
    return Text(
        f"{function}({', '.join(item if isinstance(item, str) else item.code for item in arguments)})"
    )


def cast(type_: str, value: Text) -> Text:
    """A conversion."""
    return Text(f"({type_}){value.within(UNARY)}", UNARY)


def negative(value: Text) -> Text:
    """The negated value."""
    return Text(f"-{value.within(PRIMARY)}", UNARY)


def choice(condition: Text, yes: Text, no: Text) -> Text:
    """The one or the other."""
    return Text(f"{condition.within(OR)} ? {yes.within(OR)} : {no.within(OR)}", TERNARY)
