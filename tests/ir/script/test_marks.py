"""Options of the printer that mark parts of a program: underlines, comments, lines of context."""

import re

import pytest

import ir
from ir.error import IRValueError
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc


@pytest.fixture
def program() -> PrimFunc:
    found = from_source(
        """
from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(16):
        A[i] = A[i] + T.float32(1)
    if n < 3:
        A[0] = T.float32(0)
"""
    )
    assert isinstance(found, PrimFunc)
    return found


def below(text: str, line: str) -> str:
    lines = text.split("\n")
    return lines[next(i for i, item in enumerate(lines) if item.strip() == line) + 1]


def test_expressions_and_statements_are_underlined(program: PrimFunc) -> None:
    loop, choice = program.body.seq
    text = program.script(obj_to_underline=[loop, choice.condition])
    assert below(text, "for i in range(16):") == "    " + "^" * len("for i in range(16):")
    assert below(text, "A[i] = A[i] + T.float32(1)").strip() == "^" * len("A[i] = A[i] + T.float32(1)")
    assert below(text, "if n < 3:") == "       ^^^^^"
    assert below(text, "A[0] = T.float32(0)" if text.endswith("\n") else "if n < 3:").strip() == "^^^^^"
    unmarked = "\n".join(line for line in text.split("\n") if set(line.strip()) != {"^"})
    assert unmarked == program.script()


def test_paths_of_a_mismatch_mark_where_programs_differ(program: PrimFunc) -> None:
    text = program.script(path_to_underline=["<root>.body.seq[0].body.value.b"], num_context_lines=0)
    assert text.split("\n")[1:3] == [
        "        A[i] = A[i] + T.float32(1)",
        "                      ^^^^^^^^^^^^",
    ]
    before, *shown, behind = text.split("\n")
    skipped = [
        int(re.fullmatch(r"\(\.\.\. (\d+) lines skipped \.\.\.\)", line)[1]) for line in (before, behind)
    ]  # type: ignore[index]
    assert sum(skipped) + len(shown) - 1 == len(program.script().split("\n"))  # one is the underline
    with pytest.raises(IRValueError, match=r"leads nowhere: SeqStmt has no 7"):
        program.script(path_to_underline=["<root>.body[7]"])


def test_comments_stand_beside_one_line_and_above_many(program: PrimFunc) -> None:
    loop = program.body.seq[0]
    text = program.script(obj_to_annotate={loop: "the loop", loop.body: "the store"})
    assert "    # the loop\n    for i in range(16):\n" in text
    assert "        A[i] = A[i] + T.float32(1)  # the store\n" in text
    ir.assert_structural_equal(from_source(text), program)


def test_views_and_devices_are_written_in_full() -> None:
    text = """
from ir.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("llvm", 1, "shared")]})
    @T.prim_func
    def f(A: T.Buffer((16,), "float32")):
        p = T.allocate([64], "float32", "local")
        B = T.Buffer((64,), data=p, scope="local")
        B[0] = -A[0]
    @R.function
    def main(x: R.Tensor((2,), "float32", "llvm"), y: R.Tensor((2,), "float32", "llvm:1:shared")):
        return x
"""
    module = from_source(text)
    printed = module.script()
    for part in (
        '0, "global"), I.vdevice(',
        '1, "shared")]',
        'vdevice="llvm:0:global"',
        'vdevice="llvm:1:shared"',
        'B = T.Buffer((64,), data=p, scope="local")',
        "A[0] * T.float32(-1)",
    ):
        assert part in printed, printed
    ir.assert_structural_equal(from_source(printed), module)


def test_inline_is_another_name_of_macro() -> None:
    @T.inline
    def increment(A, i):
        A[i] = A[i] + T.float32(1)

    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        for i in range(4):
            increment(A, i)

    assert "        A[i] = A[i] + T.float32(1)" in main.script()
