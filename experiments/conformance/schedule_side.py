"""One side of the schedule comparison: applies the cases of a JSON file in one system and writes what came out as JSON.

Runs in the interpreter of either system and reads programs only through their public nodes, whose fields have nearly the
same names in both. Newer spellings (``sblock``, ``tirx``) become the documents' (``block``, ``tir``).

    python schedule_side.py ours|tvm cases.json results.json
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

BINARY = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "FloorDiv": "//",
    "FloorMod": "%",
    "EQ": "==",
    "NE": "!=",
    "LT": "<",
    "LE": "<=",
    "GT": ">",
    "GE": ">=",
    "And": "and",
    "Or": "or",
}


def kind(node: Any) -> str:
    """The class name in the documents' spelling."""
    return type(node).__name__.replace("SBlock", "Block")


def expr(node: Any) -> str:
    """An expression with all brackets, so that its structure shows."""
    if node is None or isinstance(node, bool | int | float | str):
        return repr(node)
    name = kind(node)
    if name in BINARY:
        return f"({expr(node.a)} {BINARY[name]} {expr(node.b)})"
    if name in ("Var", "SizeVar", "Buffer"):
        return str(node.name)
    if name in ("IntImm", "FloatImm"):
        dtype = str(node.dtype) if hasattr(node, "dtype") else str(node.ty.dtype)
        suffix = "" if dtype in ("int32", "bool") else f":{dtype}"
        return f"{float(node.value) if name == 'FloatImm' else int(node.value)}{suffix}"
    if name == "StringImm":
        return repr(str(node.value))
    if name in ("Min", "Max"):
        return f"{name.lower()}({expr(node.a)}, {expr(node.b)})"
    if name == "Not":
        return f"not({expr(node.a)})"
    if name == "Cast":
        dtype = str(node.dtype) if hasattr(node, "dtype") else str(node.ty.dtype)
        return f"{dtype}({expr(node.value)})"
    if name == "Select":
        return f"select({expr(node.condition)}, {expr(node.true_value)}, {expr(node.false_value)})"
    if name in ("BufferLoad", "TensorLoad"):
        return f"{accessed(node).name}[{', '.join(expr(item) for item in node.indices)}]"
    if name == "Call":
        op = re.sub(r"^(prim|tirx)\.", "tir.", str(getattr(node.op, "name", node.op)))
        return f"{op}({', '.join(expr(item) for item in node.args)})"
    if name == "Ramp":
        return f"ramp({expr(node.base)}, {expr(node.stride)}, {expr(node.lanes)})"
    if name == "Broadcast":
        return f"broadcast({expr(node.value)}, {expr(node.lanes)})"
    if name == "Let":
        return f"let {node.var.name} = {expr(node.value)} in {expr(node.body)}"
    return value(node)


def value(item: Any) -> str:
    """An annotation value: numbers, strings, lists and maps of them."""
    name = kind(item)
    if name in ("IntImm", "FloatImm", "StringImm", "Var"):
        return expr(item)
    if hasattr(item, "items"):
        return "{" + ", ".join(f"{key}: {value(entry)}" for key, entry in item.items()) + "}"
    if isinstance(item, list | tuple) or name in ("Array", "List"):
        return "[" + ", ".join(value(entry) for entry in item) + "]"
    if isinstance(item, str):
        return repr(str(item))
    return str(item)


def region(item: Any) -> str:
    """A buffer region as ``name[min:+extent, ...]``, extent 1 left out."""
    parts = []
    for axis in item.region:
        size = expr(axis.extent)
        parts.append(expr(axis.min) if size == "1" else f"{expr(axis.min)}:+{size}")
    return f"{accessed(item).name}[{', '.join(parts)}]"


def accessed(item: Any) -> Any:
    """The buffer of a region, which newer systems call its source."""
    return item.buffer if hasattr(item, "buffer") else item.source


def buffer(item: Any) -> str:
    """A buffer's declaration."""
    scope = item.scope() if callable(item.scope) else item.scope
    separators = [expr(entry) for entry in getattr(item, "axis_separators", ())]
    return (
        f"{item.name}: {item.dtype}[{', '.join(expr(dim) for dim in item.shape)}] {scope}"
        + (f" strides={[expr(entry) for entry in item.strides]}" if len(item.strides) else "")
        + (f" separators={separators}" if separators else "")
    )


ITER_TYPES = {0: "S", 1: "T", 2: "R", 3: "ordered", 4: "O"}
FOR_KINDS = {0: "serial", 1: "parallel", 2: "vectorized", 3: "unrolled", 4: "thread_binding"}


def stmt(node: Any, lines: list[str], depth: int) -> None:
    """Append a statement's lines."""
    name = kind(node)

    def put(text: str, extra: int = 0) -> None:
        lines.append("  " * (depth + extra) + text)

    if name == "SeqStmt":
        for item in node.seq:
            stmt(item, lines, depth)
    elif name == "For":
        form = FOR_KINDS[int(node.kind)]
        if node.thread_binding is not None:
            form += f" {node.thread_binding.thread_tag}"
        start = expr(node.min)
        put(
            f"for {node.loop_var.name} in {'' if start == '0' else start + ' :+ '}{expr(node.extent)}"
            + ("" if form == "serial" else f" {form}")
            + (f" {annotations(node)}" if node.annotations else "")
        )
        stmt(node.body, lines, depth + 1)
    elif name == "BlockRealize":
        block = node.block
        put(f"block {block.name_hint}")
        for item, bound in zip(block.iter_vars, node.iter_values, strict=True):
            start = expr(item.dom.min)
            put(
                f"{item.var.name}: {ITER_TYPES[int(item.iter_type)]}"
                f"({'' if start == '0' else start + ':+'}{expr(item.dom.extent)}) = {expr(bound)}",
                1,
            )
        predicate = expr(node.predicate)
        if predicate not in ("1", "True"):
            put(f"where {predicate}", 1)
        put("reads " + ", ".join(region(item) for item in block.reads), 1)
        put("writes " + ", ".join(region(item) for item in block.writes), 1)
        if block.annotations:
            put(f"attr {annotations(block)}", 1)
        for item in block.alloc_buffers:
            put(f"alloc {buffer(item)}", 1)
        for item in block.match_buffers:
            put(f"match {buffer(item.buffer)} = {region(item.source)}", 1)
        if block.init is not None:
            put("init", 1)
            stmt(block.init, lines, depth + 2)
        stmt(block.body, lines, depth + 1)
    elif name == "BufferStore":
        put(f"{node.buffer.name}[{', '.join(expr(item) for item in node.indices)}] = {expr(node.value)}")
    elif name == "IfThenElse":
        put(f"if {expr(node.condition)}")
        stmt(node.then_case, lines, depth + 1)
        if node.else_case is not None:
            put("else")
            stmt(node.else_case, lines, depth + 1)
    elif name == "LetStmt":
        put(f"let {node.var.name} = {expr(node.value)}")
        stmt(node.body, lines, depth)
    elif name == "Bind":  # the newer form, whose scope is what follows
        put(f"let {node.var.name} = {expr(node.value)}")
    elif name == "Evaluate":
        put(f"evaluate {expr(node.value)}")
    elif name == "AttrStmt":
        put(f"attr_stmt {node.attr_key} = {expr(node.value)}")
        stmt(node.body, lines, depth)
    elif name == "While":
        put(f"while {expr(node.condition)}")
        stmt(node.body, lines, depth + 1)
    else:
        put(f"?? {name}")


def annotations(node: Any) -> str:
    """The annotations in the order of their names."""
    return "{" + ", ".join(f"{key}: {value(node.annotations[key])}" for key in sorted(node.annotations)) + "}"


def function(func: Any) -> list[str]:
    """The lines of a function: parameters, then the body."""
    buffers = getattr(func, "buffer_map", {})
    params = [buffers.get(param, param) for param in func.params]
    lines = ["params " + "; ".join(buffer(p) if hasattr(p, "shape") and p.shape else p.name for p in params)]
    stmt(func.body, lines, 0)
    return lines


def ours() -> tuple[Callable[[str], Any], Any, Callable[[str], str]]:
    """(parse, Schedule, how to spell programs and steps)."""
    from ir.script import from_source
    from schedules import Schedule

    return from_source, Schedule, lambda text: text


def tvm() -> tuple[Callable[[str], Any], Any, Callable[[str], str]]:
    """The same for the black box."""
    from tvm.s_tir import Schedule
    from tvm.script import from_source

    Schedule.get_block = Schedule.get_sblock

    def spell(text: str) -> str:
        for old, new in (
            ("T.block(", "T.sblock("),
            ("T.alloc_buffer(", "T.sblock_alloc_buffer("),
            ("T.block_attr(", "T.sblock_attr("),
            ("@T.prim_func\n", "@T.prim_func(s_tir=True)\n"),
        ):
            text = text.replace(old, new)
        return re.sub(r"(\w+): T\.(\w+) = ", r"\1: T.let[T.\2] = ", text)

    return from_source, Schedule, spell


def shown(sch: Any, item: Any) -> Any:
    """A result of a step: the name of a block or loop, a number, a text."""
    if isinstance(item, list | tuple):
        return [shown(sch, entry) for entry in item]
    if item is None or isinstance(item, bool | int | float | str):
        return item
    if type(item).__name__ in ("BlockRV", "SBlockRV", "LoopRV"):
        node = sch.get(item)
        if node is None:
            return "None"
        return node.loop_var.name if kind(node) == "For" else node.name_hint
    if type(item).__name__ in ("ExprRV", "Var"):
        return f"{sch.get(item)}"
    if type(item).__name__ in ("Block", "SBlock"):
        return item.name_hint
    return value(item)


def run_apart(system: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results of all cases, each from a process of its own: the black box may crash."""
    made = {"ours": ours, "tvm": tvm}[system]()
    results = []
    for case in cases:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with os.fdopen(writer, "w") as file:
                json.dump(run(case, *made), file, default=str)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as file:
            text = file.read()
        os.waitpid(child, 0)
        results.append(json.loads(text) if text else {"error": "crash", "message": "the process ended"})
    return results


def run(
    case: dict[str, Any], parse: Callable[[str], Any], schedule: Any, spell: Callable[[str], str]
) -> dict[str, Any]:
    """What a case gives: the program's lines, the results named ``out``, the trace; or the error."""
    result: dict[str, Any] = {}
    try:
        program = parse(spell(case["program"]))
    except Exception as error:  # either system's parser may refuse, each with classes of its own
        return {"parse": f"{type(error).__name__}: {error}"}
    sch = schedule(program, seed=42, error_render_level="none")
    names: dict[str, Any] = {
        "sch": sch,
        "B": sch.get_block,
        "L": lambda name, sch=sch: sch.get_loops(sch.get_block(name)),
        "program": program,
        "Schedule": schedule,
        "out": None,
    }
    try:
        exec(case["steps"], names)
    except Exception as error:  # what is raised is the result
        result["error"] = type(error).__name__
        result["message"] = str(error)
        if not type(error).__name__.endswith("ScheduleError"):
            result["at"] = traceback.format_exc(limit=-1).splitlines()[-1]
    try:
        result["program"] = [
            line
            for var in sorted(sch.mod.functions, key=lambda item: item.name_hint)
            for line in function(sch.mod[var])
        ]
        if names["out"] is not None:
            result["out"] = shown(sch, names["out"])
        if sch.trace is not None:
            result["trace"] = [
                line.replace("get_sblock", "get_block").replace("sblock", "block")
                for line in sch.trace.as_python()
            ]
    except Exception as error:  # a broken state is a finding too
        result["dump"] = f"{type(error).__name__}: {error}"
    return result


def main() -> None:
    """See the module's docstring."""
    system, source, target = sys.argv[1:]
    with open(source) as file:
        cases = json.load(file)
    with open(target, "w") as file:
        json.dump(run_apart(system, cases), file)


if __name__ == "__main__":
    main()
