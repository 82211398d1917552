"""A smaller module that fails in the same way: edits of the script's syntax tree, kept as long as it still fails.

What takes most away is tried first: results, then bindings that become parameters (so that all they were made of is
dead), then branches, functions, operands and extents. After each edit that is kept the module is printed anew, so that annotations and
constants are those of the smaller program.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator

from ir.script import from_source

Edit = Callable[[ast.Module], None]
_HEADER = "metadata = "


def reduced(text: str, fails: Callable[[str], bool], seconds: float = 200) -> str:
    """The smallest text found within a time.

    Args:
        text: the script of a module that fails.
        fails: whether a script fails in the way that matters; scripts that do not parse are not asked about.
        seconds: how long to search.
    """
    end = time.monotonic() + seconds
    before = None
    while text != before and time.monotonic() < end:
        before = text
        text = _one_round(text, fails, end)
    return text


def _one_round(text: str, fails: Callable[[str], bool], end: float) -> str:
    """Tries every edit once; after one that is kept, those of the new text from the same position on."""
    position, edits = 0, list(_edits(ast.parse(text)))
    while position < len(edits) and time.monotonic() < end:
        for edited in _edited(text, edits[position]):
            if _size(edited) < _size(text) and fails(edited):
                text = edited
                edits = list(_edits(ast.parse(text)))
                break
        else:
            position += 1
    return text


def _size(text: str) -> tuple[int, int]:
    """Lines, then letters, without constants: what a reader has before them."""
    lines = [line for line in text.splitlines() if not line.startswith((_HEADER, "#"))]
    numbers = sum(int(number) for number in re.findall(r"\b\d{1,6}\b", "\n".join(lines)))
    return len(lines), sum(map(len, lines)) * 100 + numbers


def _edited(text: str, edit: Edit) -> Iterator[str]:
    """A script after an edit: without what is dead then, and with it, for what is dead may be what fails."""
    seen = set()
    for sweep in (_sweep, _tidy, lambda tree: None):
        tree = ast.parse(text)
        try:
            edit(tree)
            sweep(tree)
            _drop_annotations(tree)
            found = from_source(ast.unparse(ast.fix_missing_locations(tree))).script(show_meta=True)
        except Exception:  # an edit may make any nonsense, and nonsense is no smaller program
            continue
        if found not in seen:
            seen.add(found)
            yield found


# -- what is in a tree ---------------------------------------------------------------
def _module(tree: ast.Module) -> ast.ClassDef:
    (module,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return module


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of the module."""
    return [node for node in _module(tree).body if isinstance(node, ast.FunctionDef)]


def _is_relax(function: ast.FunctionDef) -> bool:
    return "R.function" in ast.unparse(function.decorator_list[0])


def _main(tree: ast.Module) -> ast.FunctionDef:
    return next(function for function in _functions(tree) if function.name == "main")


def _bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    """The lists of statements in Relax functions, local functions, branches and blocks; kernels stay whole."""
    found = []
    for function in _functions(tree) if isinstance(tree, ast.Module) else [tree]:
        if isinstance(function, ast.FunctionDef) and not _is_relax(function):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.FunctionDef | ast.If | ast.With):
                found += [node.body] + ([node.orelse] if isinstance(node, ast.If) else [])
    return found


def _assigned(statement: ast.stmt) -> str:
    """The variable that a statement binds; empty if it binds none."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return statement.name if isinstance(statement, ast.FunctionDef) else ""


def _used(tree: ast.AST) -> set[str]:
    names = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return names | {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _sweep(tree: ast.Module) -> None:
    """Removes bindings that nothing uses, and what they used; calls with effects stay."""
    before = ""
    while (now := ast.dump(tree)) != before:
        before = now
        used = _used(_module(tree))
        for body in _bodies(tree):
            body[:] = [statement for statement in body if not _is_dead(statement, used)]
        _tidy(tree)


def _tidy(tree: ast.Module) -> None:
    """Removes functions and parameters of ``main`` that nothing uses, and outputs of blocks that are no more."""
    module, main = _module(tree), _main(tree)
    used = _used(module)
    module.body = [
        node
        for node in module.body
        if getattr(node, "name", "main") == "main" or getattr(node, "name", "") in used
    ]
    names = _used_in_body(main)
    main.args.args = [arg for arg in main.args.args if arg.arg in names]
    bound = {_assigned(statement) for body in _bodies(tree) for statement in body}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "R.output":
            call.args = [arg for arg in call.args if isinstance(arg, ast.Name) and arg.id in bound]


def _used_in_body(function: ast.FunctionDef) -> set[str]:
    return set().union(*(_used(statement) for statement in function.body))


def _is_dead(statement: ast.stmt, used: set[str]) -> bool:
    name = _assigned(statement)
    return bool(name) and name not in used and "call_packed" not in ast.unparse(statement)


def _drop_annotations(tree: ast.Module) -> None:
    """Struct info of bindings and results is inferred again; what a match_cast declares is an argument, and stays."""
    for function in _functions(tree):
        if not _is_relax(function):
            continue
        for inner in ast.walk(function):
            if isinstance(inner, ast.FunctionDef):
                inner.returns = None
        for body in _bodies(function):
            for number, statement in enumerate(body):
                if isinstance(statement, ast.AnnAssign) and statement.value is not None:
                    body[number] = ast.Assign([statement.target], statement.value)


# -- edits -----------------------------------------------------------------------------
def _edits(tree: ast.Module) -> Iterator[Edit]:
    """The edits of a tree, those that remove most first; they find their place in a copy by position."""
    yield from _result_edits(tree)
    bodies = [
        (number, body)
        for number, body in enumerate(_bodies(tree))
        if any(_assigned(statement) for statement in body)
    ]
    for number, body in bodies:
        for index in reversed(range(len(body))):
            yield _removal(number, index)
            if isinstance(body[index], ast.AnnAssign):
                yield _cut(number, index)
            if isinstance(getattr(body[index], "value", None), ast.Name) and _assigned(body[index]):
                yield _inlining(number, index)
    for number, body in bodies:
        for index, statement in enumerate(body):
            if isinstance(statement, ast.If):
                yield _unwrapping(number, index, "body")
                yield _unwrapping(number, index, "orelse")
            if isinstance(statement, ast.With):
                yield _unwrapping(number, index, "body")
    for number, body in bodies:
        for index, statement in enumerate(body):
            for operand in range(len(_operands(statement))):
                yield _by_operand(number, index, operand)
    yield from _number_edits(tree)


def _result_edits(tree: ast.Module) -> Iterator[Edit]:
    """Fewer results: one of a tuple, or all but one."""
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    for position, node in enumerate(returns):
        fields = node.value.elts if isinstance(node.value, ast.Tuple) else []
        for number in range(len(fields)):
            yield _result(position, lambda elements, number=number: elements[number])  # type: ignore[misc]
        for number in range(len(fields)):
            yield _result(
                position,
                lambda elements, number=number: ast.Tuple(  # type: ignore[misc]
                    [item for index, item in enumerate(elements) if index != number], ast.Load()
                ),
            )


def _result(position: int, change: Callable[[list[ast.expr]], ast.expr]) -> Edit:
    def edit(tree: ast.Module) -> None:
        node = [node for node in ast.walk(tree) if isinstance(node, ast.Return)][position]
        assert isinstance(node.value, ast.Tuple)
        node.value = change(node.value.elts)

    return edit


def _removal(number: int, index: int) -> Edit:
    def edit(tree: ast.Module) -> None:
        del _bodies(tree)[number][index]

    return edit


def _cut(number: int, index: int) -> Edit:
    """A binding becomes a parameter of ``main``, so that what it was made of is dead."""

    def edit(tree: ast.Module) -> None:
        statement = _bodies(tree)[number].pop(index)
        assert isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        _main(tree).args.args.append(
            ast.arg(statement.target.id, _QuotedSymbols().visit(statement.annotation))
        )

    return edit


def _inlining(number: int, index: int) -> Edit:
    """Another name of a value is not used."""

    def edit(tree: ast.Module) -> None:
        statement = _bodies(tree)[number].pop(index)
        name, value = _assigned(statement), statement.value  # type: ignore[attr-defined]
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == name:
                node.id = value.id

    return edit


class _QuotedSymbols(ast.NodeTransformer):
    """Symbols in a parameter's annotation are strings."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return node if node.id in "RT" else ast.Constant(node.id)


def _unwrapping(number: int, index: int, field: str) -> Edit:
    """The statements inside of another one take its place; the value of a branch has the name of the If."""

    def edit(tree: ast.Module) -> None:
        body = _bodies(tree)[number]
        inner = [item for item in getattr(body[index], field) if "R.output" not in ast.unparse(item)]
        body[index : index + 1] = inner

    return edit


def _operands(statement: ast.stmt) -> list[ast.expr]:
    """The arguments of the call that a statement binds, in reach of one that may take its place."""
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.Call):
        return []
    return [
        node
        for argument in value.args
        for node in ast.walk(argument)
        if isinstance(node, ast.Name) and node.id not in "RT"
    ]


def _by_operand(number: int, index: int, operand: int) -> Edit:
    def edit(tree: ast.Module) -> None:
        statement = _bodies(tree)[number][index]
        statement.value = _operands(statement)[operand]  # type: ignore[attr-defined]

    return edit


def _number_edits(tree: ast.Module) -> Iterator[Edit]:
    """An extent is smaller wherever its number stands."""
    (module,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    numbers = {
        node.value for node in ast.walk(module) if isinstance(node, ast.Constant) and type(node.value) is int
    }
    for number in sorted(numbers, reverse=True):
        for smaller in sorted({1, 2, number // 2}):
            if 0 < smaller < number:
                yield _renumbered(number, smaller)


def _renumbered(number: int, smaller: int) -> Edit:
    def edit(tree: ast.Module) -> None:
        for node in ast.walk(_module(tree)):
            if isinstance(node, ast.Constant) and type(node.value) is int and node.value == number:
                node.value = smaller

    return edit
