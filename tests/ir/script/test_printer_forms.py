"""The exact text of small programs, nodes on their own included."""

from __future__ import annotations

import ir
from ir import relax, tir
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from ir.script.ir_builder import IRBuilder
from ir.script.ir_builder import tir as B
from ir.tir import Var, decl_buffer


def shown(node: ir.Node, expected: str) -> None:
    assert node.script(verbose_expr=True).strip() == expected.strip()


def test_prim_func_forms() -> None:
    a, b = Var("a", "handle"), Var("b", "handle")
    first, second = decl_buffer([128, 128], "float32", "A"), decl_buffer([256, 256], "float32", "B")
    func = tir.PrimFunc([a, b], tir.Evaluate(0), None, {a: first, b: second})
    shown(
        func.with_attr("global_symbol", "main"),
        """
# from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((128, 128), "float32"), B: T.Buffer((256, 256), "float32")):
    T.evaluate(0)""",
    )
    uses_handle = func.replace(body=tir.Evaluate(a)).with_attr("global_symbol", "main")
    shown(
        uses_handle,
        """
# from ir.script import tir as T

@T.prim_func
def main(a: T.handle, B: T.Buffer((256, 256), "float32")):
    A = T.match_buffer(a, (128, 128))
    T.evaluate(a)""",
    )
    shared = decl_buffer([256, 256], "float32", "B", data=first.data)
    shown(
        tir.PrimFunc([a, b], tir.Evaluate(0), None, {a: first, b: shared}).with_attr("global_symbol", "main"),
        """
# from ir.script import tir as T

@T.prim_func
def main(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (128, 128))
    B = T.match_buffer(b, (256, 256), data=A.data)
    T.evaluate(0)""",
    )
    shown(
        tir.PrimFunc([a], tir.Evaluate(0)).with_attr("global_symbol", "other").replace(),
        """
# from ir.script import tir as T

@T.prim_func
def other(a: T.handle):
    T.evaluate(0)""",
    )


def test_name_that_differs_from_the_symbol() -> None:
    func = tir.PrimFunc([], tir.Evaluate(0)).with_attr("global_symbol", "symbol")
    text = func.script(name="renamed")
    assert 'def renamed():\n    T.func_attr({"global_symbol": "symbol"})' in text


def test_builder() -> None:
    with IRBuilder() as ib:
        with B.block("update", no_realize=True):
            ib.name("vi", B.axis.spatial(128))
            ib.name("vj", B.axis.spatial(64))
            ib.name("vk", B.axis.reduce(32))
            B.evaluate(0)
    with IRBuilder() as ib, B.prim_func():
        B.func_name("main")
        a = B.arg("a", B.handle())
        buffer = B.match_buffer(a, (16,), "float32")
        ib.name("A", buffer)
        with B.serial(16) as i:
            ib.name("i", i)
            B.buffer_store(buffer, buffer[i] + 1, [i])
    shown(
        ib.get(),
        """
# from ir.script import tir as T

@T.prim_func
def main(A: T.Buffer((16,), "float32")):
    for i in range(16):
        A[i] = A[i] + T.float32(1)""",
    )


def test_block_without_realize() -> None:
    block = tir.Block([tir.IterVar(tir.Range(0, 128), Var("vi"), 0)], [], [], "update", tir.Evaluate(0))
    shown(
        block,
        """
with T.block("update", no_realize=True):
    vi = T.axis.spatial(128)
    T.reads()
    T.writes()
    T.evaluate(0)""",
    )


def test_detached_nodes() -> None:
    A = decl_buffer((128, 128), "float16", "A")
    a, b = Var("a", "int32"), Var("b", "int32")
    shown(A, 'A = T.Buffer((128, 128), "float16")\nA')
    shown(A[0, a], 'A = T.Buffer((128, 128), "float16")\na = T.int32()\nA[0, a]')
    shown(
        tir.BufferStore(A, A[a, b] + tir.const(1.0, "float16"), [a, b]),
        """
A = T.Buffer((128, 128), "float16")
a = T.int32()
b = T.int32()
A[a, b] = A[a, b] + T.float16(1)""",
    )
    shown(a + b, "a = T.int32()\nb = T.int32()\na + b")
    shown(tir.IterVar(tir.Range(0, 8), a, 0), 'a = T.int32()\nT.iter_var(a, T.Range(0, 8), "DataPar", "")')
    shown(tir.Range(0, 10), "I.Range(0, 10)")
    shown(ir.PointerType(ir.PrimType("int32"), "global"), 'T.handle("int32", "global")')
    shown(ir.PrimType("float32"), "T.float32")
    shown(
        tir.AttrStmt("pragma", "unroll", 1, tir.Evaluate(0)),
        'with T.attr("pragma", "unroll", 1):\n    T.evaluate(0)',
    )
    shown(
        tir.AssertStmt(True, "text", tir.Evaluate(0)),
        'with T.Assert(T.bool(True), "text"):\n    T.evaluate(0)',
    )
    shown(tir.While(a < 10, tir.Evaluate(0)), "a = T.int32()\nwhile a < 10:\n    T.evaluate(0)")
    shown(
        tir.LetStmt(Var("v", "float32"), tir.const(10.0, "float32"), tir.Evaluate(0)),
        "with T.LetStmt(T.float32(10)) as v:\n    T.evaluate(0)",
    )
    buffer = decl_buffer((128, 128), "float32", "buffer")
    shown(
        tir.Allocate(buffer.data, "float32", [128, 128], True, tir.DeclBuffer(buffer, tir.Evaluate(0))),
        "with T.decl_buffer((128, 128)) as buffer:\n    T.evaluate(0)",
    )
    shown(
        tir.BufferRealize(A, [tir.Range(0, 128), tir.Range(0, 128)], True, tir.Evaluate(0)),
        'A = T.Buffer((128, 128), "float16")\nwith T.realize(A[0:128, 0:128], "global"):\n    T.evaluate(0)',
    )


def test_remap_is_found() -> None:
    @T.prim_func
    def main():
        for i0, i1, i2, i3, i4, i5 in T.grid(128, 128, 128, 128, 128, 128):
            with T.block("update"):
                v0 = T.axis.spatial(128, i0 + 1)
                v1 = T.axis.spatial(128, i1)
                v2 = T.axis.reduce(128, i2)
                v3 = T.axis.spatial(128, i3 - 1)
                v4 = T.axis.reduce(128, i4)
                v5 = T.axis.spatial(128, i5)

    shown(
        main,
        """
# from ir.script import tir as T

@T.prim_func
def main():
    # with T.block("root"):
    for i0, i1, i2, i3, i4, i5 in T.grid(128, 128, 128, 128, 128, 128):
        with T.block("update"):
            v0 = T.axis.spatial(128, i0 + 1)
            v1, v2 = T.axis.remap("SR", [i1, i2])
            v3 = T.axis.spatial(128, i3 - 1)
            v4, v5 = T.axis.remap("RS", [i4, i5])
            T.reads()
            T.writes()
            T.evaluate(0)""",
    )


def test_return_statement() -> None:
    @T.prim_func
    def func():
        T.evaluate(T.ret(5))

    shown(func, "# from ir.script import tir as T\n\n@T.prim_func\ndef func():\n    return 5")


def test_struct_infos_alone() -> None:
    a = Var("a", "int64")
    shown(relax.ShapeStructInfo([1, a, 3]), "a = T.int64()\nR.Shape([1, a, 3])")
    shown(relax.TensorStructInfo([1, a, 3], "float32"), 'a = T.int64()\nR.Tensor((1, a, 3), dtype="float32")')
    func = relax.FuncStructInfo(
        [relax.PrimStructInfo("float32"), relax.ObjectStructInfo(), relax.ShapeStructInfo([1, a, 3])],
        relax.TensorStructInfo([1, 2, 3], "float32"),
    )
    shown(
        func,
        """
a = T.int64()
R.Callable((R.Prim("float32"), R.Object, R.Shape([1, a, 3])), R.Tensor((1, 2, 3), dtype="float32"), True)""",
    )


def test_relax_nodes_alone() -> None:
    x = Var("x", "int64")
    a = relax.Var("a", relax.TensorStructInfo([1, x, 3], "float32"))
    declared = 'x = T.int64()\na: R.Tensor((1, x, 3), dtype="float32")\n'
    shown(a, declared + "a")
    shown(relax.Tuple([a, a]), declared + "(a, a)")
    call = relax.call_tir(ir.GlobalVar("tir_func"), a, a.struct_info, [x])
    shown(
        call,
        declared
        + 'R.call_tir(tir_func, (a,), out_sinfo=R.Tensor((1, x, 3), dtype="float32"), tir_vars=R.shape([x]))',
    )


def test_module_order() -> None:
    @I.ir_module
    class Module:
        ext = R.ExternFunc("ext")

        @R.function
        def main(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
            return a

        @R.function
        def zeta(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
            return a

        @T.prim_func
        def omega(A: T.Buffer((4,), "float32")):
            T.evaluate(0)

    shown(
        Module,
        """
# from ir.script import ir as I
# from ir.script import tir as T
# from ir.script import relax as R

@I.ir_module
class Module:
    @T.prim_func
    def omega(A: T.Buffer((4,), "float32")):
        T.evaluate(0)

    ext = R.ExternFunc("ext")
    @R.function
    def zeta(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
        return a

    @R.function
    def main(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
        return a""",
    )


def test_options() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "float16")):
        for i, j in T.grid(2, 2):
            A[i] = A[j] + T.float16(1)

    text = main.script(tir_prefix="X", indent_spaces=2, syntax_sugar=False, float_dtype="float16")
    assert "# from ir.script import tir as X" in text
    assert "\n  for i in X.serial(2):\n    for j in X.serial(2):\n      A[i] = A[j] + 1.0" in text
    numbered = main.script(print_line_numbers=True)
    assert numbered.startswith("1 # from ir.script")


def test_variables_without_a_name_are_numbered() -> None:
    loop = tir.Evaluate(tir.const(0))
    for extent in (4, 3, 2):
        loop = tir.For(tir.Var("_"), 0, extent, tir.ForKind.SERIAL, loop)
    assert "for _, _1, _2 in T.grid(2, 3, 4):" in loop.script()
