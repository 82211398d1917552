"""A smaller program that fails in the same way: edits of the text's syntax tree, kept as long as it still fails."""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Nodes = list[ast.AST]
_CONSTANT_DTYPES = ("int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64", "float32", "float16")


@dataclass(frozen=True)
class Edit:
    """A change of a tree, given as the nodes of a function; those of a copy have the same positions."""

    apply: Callable[[Nodes], None]
    shortens: bool = True
    """Whether it is worth keeping only where the text becomes shorter."""


def reduced(text: str, fails: Callable[[str], bool], seconds: float = 240) -> str:
    """The smallest text found within a time.

    Args:
        text: a program of one function, which fails.
        fails: whether a text fails in the way that matters; texts that do not even parse are asked about as well.
        seconds: how long to search.
    """
    end = time.monotonic() + seconds
    text = ast.unparse(ast.parse(text))
    before = None
    while text != before and time.monotonic() < end:
        before = text
        text = _one_round(text, fails, end)
    return text


def _one_round(text: str, fails: Callable[[str], bool], end: float) -> str:
    """Tries every edit once; after one that is kept, those of the new text from the same position on."""
    position = 0
    edits = _edits(text)
    while position < len(edits) and time.monotonic() < end:
        edited = _edited(text, edits[position])
        shorter = edited is not None and (len(edited) < len(text) or not edits[position].shortens)
        if edited is not None and edited != text and shorter and fails(edited):
            text = edited
            edits = _edits(text)
        else:
            position += 1
    return text


def _edited(text: str, edit: Edit) -> str | None:
    """A text after an edit; None if that is no program."""
    tree = ast.parse(text)
    edit.apply(_nodes(tree))
    try:
        return ast.unparse(ast.parse(ast.unparse(tree)))
    except (SyntaxError, ValueError):
        return None


def _nodes(tree: ast.Module) -> Nodes:
    """A function, and what is in its body: the signature belongs to the arguments and stays."""
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    return [function, *(node for statement in function.body for node in ast.walk(statement))]


def _edits(text: str) -> list[Edit]:
    """The edits of a text, those that remove most first."""
    nodes = _nodes(ast.parse(text))
    edits = [edit for position, node in enumerate(nodes) for edit in _statement_edits(position, node)]
    edits += [edit for position, node in enumerate(nodes) for edit in _expression_edits(position, node)]
    return edits


# -- statements --------------------------------------------------------------------
def _statement_edits(position: int, node: ast.AST) -> Iterator[Edit]:
    """Removes a statement of a body, or puts what is in it in its place; makes loops serial."""
    for field in ("body", "orelse"):
        statements = getattr(node, field, None)
        if not isinstance(statements, list):
            continue
        for index, statement in enumerate(statements):
            yield _removal(position, field, index)
            if isinstance(statement, ast.For | ast.If | ast.With | ast.While):
                yield _unwrapping(position, field, index)
    if isinstance(node, ast.If) and node.orelse:
        yield Edit(lambda nodes: setattr(nodes[position], "orelse", []))
    if isinstance(node, ast.For) and getattr(_loop_kind(node), "attr", "serial") != "serial":
        yield Edit(lambda nodes: setattr(_loop_kind(nodes[position]), "attr", "serial"), shortens=False)


def _loop_kind(node: ast.AST) -> ast.AST | None:
    """The attribute of T that a loop's range is made by."""
    return getattr(getattr(node, "iter", None), "func", None)


def _removal(position: int, field: str, index: int) -> Edit:
    def apply(nodes: Nodes) -> None:
        statements = getattr(nodes[position], field)
        del statements[index]
        if not statements and field == "body":
            statements.append(ast.parse("T.evaluate(0)").body[0])

    return Edit(apply)


def _unwrapping(position: int, field: str, index: int) -> Edit:
    def apply(nodes: Nodes) -> None:
        statements = getattr(nodes[position], field)
        statements[index : index + 1] = statements[index].body

    return Edit(apply)


# -- expressions -------------------------------------------------------------------
def _expression_edits(position: int, node: ast.AST) -> Iterator[Edit]:
    """Replaces an expression by an operand, by zero or by one, and a number by its half."""
    if isinstance(node, ast.Constant):
        if type(node.value) is int and node.value > 1:
            half = node.value // 2
            yield Edit(lambda nodes: setattr(nodes[position], "value", half), shortens=False)
        return
    is_read = isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    names_namespace = isinstance(node, ast.Name) and node.id == "T"
    if not is_read or names_namespace or isinstance(node, ast.Attribute):
        return
    for number in range(len(_operands(node))):
        yield _by_operand(position, number)
    for value in (0, 1):
        for text in (str(value), *(f'T.const({value}, "{dtype}")' for dtype in _CONSTANT_DTYPES)):
            yield _by_constant(position, text)


def _operands(node: ast.AST) -> list[ast.expr]:
    """The parts of an expression that might stand for it."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.Call):
        return [argument for argument in node.args if not isinstance(argument, ast.Constant)]
    return []


def _by_operand(position: int, number: int) -> Edit:
    return _replacement(position, lambda old: _operands(old)[number])


def _by_constant(position: int, text: str) -> Edit:
    return _replacement(position, lambda _: ast.parse(text, mode="eval").body)


def _replacement(position: int, new: Callable[[ast.AST], ast.AST]) -> Edit:
    def apply(nodes: Nodes) -> None:
        old = nodes[position]
        by = copy.deepcopy(new(old))
        for node in nodes:
            for field, value in ast.iter_fields(node):
                if value is old:
                    setattr(node, field, by)
                elif isinstance(value, list):
                    setattr(node, field, [by if item is old else item for item in value])

    return Edit(apply)
