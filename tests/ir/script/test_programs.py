"""Programs in the forms that documentation and tests of the field write, read and printed back."""

from __future__ import annotations

import pytest

import ir
from ir import tir
from ir.script import from_source
from tests.ir.script.roundtrip import check

PROGRAMS = r'''
@T.prim_func
def matmul(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, [128, 128])
    B = T.match_buffer(b, [128, 128])
    C = T.match_buffer(c, [128, 128])
    for i, j in T.grid(128, 128):
        with T.block("init"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.float32(0)
        for k in range(128):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
---
@T.prim_func
def elementwise(a: T.handle, c: T.handle, n: T.int32) -> None:
    A = T.match_buffer(a, (128, n), "float32", offset_factor=1)
    C = T.match_buffer(c, (128, n))
    B = T.alloc_buffer((128, n), "float32", scope="shared")
    with T.block("root"):
        for i, j in T.grid(128, n):
            with T.block("B"):
                vi = T.axis.S(128, i)
                vj = T.axis.S(n, j)
                B[vi, vj] = A[vi, vj] * 2.0
        for i0 in T.serial(0, 128):
            for j0 in T.serial(n, annotations={"pragma": "x"}):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i0, j0])
                    C[vi, vj] = B[vi, vj] + T.float32(1)
---
@T.prim_func
def opaque(a: T.handle) -> None:
    A = T.match_buffer(a, (16, 16), "float32")
    for i in T.thread_binding(0, 16, thread="threadIdx.x"):
        with T.block():
            T.reads([])
            T.writes(A[i, 0:16])
            A_i = T.match_buffer(A[i, 0:16], (16,), "float32", offset_factor=1)
            T.evaluate(T.tvm_access_ptr(T.type_annotation(dtype="float32"), A_i.data, A_i.elem_offset, 16, 1, dtype="handle"))
---
@T.prim_func
def lowered(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    C = T.allocate([16], "float32", "global")
    C_1 = T.Buffer((16,), data=C)
    for i in range(16):
        C_1[i] = A[i] + 1.0
    for i in T.vectorized(16):
        B[i] = C_1[i] * 2.0
    B[0:4] = A[0:4] + T.Broadcast(T.float32(1), 4)
    B[T.Ramp(0, 1, 8)] = A[T.ramp(0, 1, 8)]
---
@T.prim_func
def gpu(A: T.Buffer(128, "float32")):
    bx = T.env_thread("blockIdx.x")
    tx = T.env_thread("threadIdx.x")
    T.launch_thread(bx, 4)
    T.launch_thread(tx, 32)
    A[bx * 32 + tx] = A[bx * 32 + tx] + T.float32(1)
    T.tvm_storage_sync("shared")
---
@T.prim_func
def lets(n: T.int32, A: T.Buffer((10,), "int32")):
    x = n + 1
    y: T.int32 = x * 2
    with T.LetStmt(y + 1) as z:
        A[0] = z
    for i in T.serial(10):
        if i < 5 and n > 2 or not (i == 3):
            A[i] += 1
        elif i == 7:
            A[i] = T.if_then_else(i > 3, A[i], 0)
        else:
            A[i] = T.Select(i > 3, A[i], -A[i])
    while A[0] < 10:
        A[0] = A[0] + 1
    assert n > 0, "n must be positive"
    T.evaluate(T.call_extern("f", n, dtype="int32"))
    T.evaluate(T.call_packed("g", A.data, n, dtype="int32"))
---
@T.prim_func
def ann(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        T.block_attr({"meta_schedule.unroll_explicit": 64})
        for i_j_fused in T.parallel(256):
            with T.block("B"):
                vi = T.axis.spatial(16, i_j_fused // 16)
                vj = T.axis.spatial(16, i_j_fused % 16)
                T.where(i_j_fused < 250)
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                T.block_attr({"schedule_rule": "x", "list": [1, 2], "b": True})
                B[vi, vj] = T.max(A[vi, vj], T.float32(0)) + T.exp(A[vi, vj]) + T.sigmoid(A[vi, vj]) + T.Cast("float32", vi)
---
@T.prim_func(private=True)
def reduce2(A: T.Buffer((8, 8), "float16"), o0: T.Buffer((8,), "int32"), o1: T.Buffer((8,), "float16")):
    for i, k in T.grid(8, 8):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                o0[vi] = -1
                o1[vi] = T.min_value("float16")
            v0: T.int32 = T.Select(o1[vi] >= A[vi, vk], o0[vi], vk)
            v1: T.float16 = T.Select(o1[vi] >= A[vi, vk], o1[vi], A[vi, vk])
            o0[vi] = v0
            o1[vi] = v1
---
@T.prim_func
def dyn(var_A: T.handle, var_B: T.handle):
    n = T.int64()
    m = T.int64(is_size_var=True)
    A = T.match_buffer(var_A, (n, m), "float16")
    B = T.match_buffer(var_B, (n * m,), "float16", strides=[T.int64(1)])
    for i, j in T.grid(n, m):
        with T.block("r"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * m + vj] = A[vi, vj]
---
@T.prim_func
def wmma(a: T.handle, c: T.handle) -> None:
    s0 = T.int32()
    s1 = T.int32()
    A = T.match_buffer(a, (16, 16), "float16", align=64, strides=[s0, s1], offset_factor=16, scope="shared")
    C = T.match_buffer(c, (16, 16), "float32", align=64, offset_factor=16, scope="wmma.accumulator")
    with T.block("root"):
        T.reads(A[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        for tx in T.thread_binding(0, 32, "threadIdx.x"):
            T.evaluate(
                T.tvm_load_matrix_sync(
                    C.data, 16, 16, 16, C.elem_offset // 256 + C.elem_offset % 256 // 16,
                    A.access_ptr("r"), A.strides[0], "row_major", dtype="handle",
                )
            )
            T.tvm_fill_fragment(C.data, 16, 16, 16, 0, T.float32(0.0), dtype="handle")
---
@T.prim_func
def ints(A: T.Buffer((T.int64(10),), "int64")):
    for i in T.serial(T.int64(0), T.int64(10)):
        with T.block("a"):
            v = T.axis.spatial(T.int64(10), i)
            A[v] = v + 1
            A[v] = T.int64(3) * v // 2 % 5 + T.shift_left(v, T.int64(2)) + (v << 1) + T.bitwise_and(v, T.int64(3))
            A[v] = T.abs(v) + T.ceildiv(v, 3) + T.floordiv(v, 2) + T.truncmod(v, 3) + T.max_value("int64")
---
@T.prim_func
def alloc(A: T.Buffer((16,), "float32")):
    with T.allocate([16], "float32", "global") as B:
        B_buf = T.decl_buffer([16], "float32", data=B)
        B_buf[0] = 1
    with T.decl_buffer([4], "int32") as C:
        C[0] = 1
    D = T.decl_buffer((4,), "float32", scope="local")
    D[1] = A[1]
---
@T.prim_func
def fp(A: T.Buffer((2,), "float32"), b: T.Buffer((), "float32"), flag: T.bool, p: T.handle("float32"), q: T.handle("int8", "shared")):
    if flag:
        A[0] = b[()] + T.float32("inf") + T.float32(1e-5) + T.infinity("float32")
    A[1] = T.reinterpret("float32", T.uint32(3)) + T.call_pure_extern("float32", "sinf", A[0])
    A[0] = T.cast(T.float16(1), "float32")
    A[0] = A[1].astype("float16").astype("float32")
    A[0] = T.pow(A[0], T.float32(2)) + T.tanh(A[0]) + T.sqrt(A[0]) + T.erf(A[0]) + T.fabs(A[0])
---
@T.prim_func
def nested(x: T.Buffer((4, 4, 4), "float32"), y: T.Buffer((4, 4, 4), "float32")):
    for i in T.grid(4):
        for j, k in T.grid(4, 4):
            with T.block("b"):
                v = T.axis.remap("SSS", [i, j, k])
                y[v[0], v[1], v[2]] = x[v[2], v[1], v[0]]
---
@I.ir_module
class Mod:
    I.module_attrs({"a": 1, "b": "x"})
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")) -> T.int32:
        T.func_attr({"target": T.target({"kind": "llvm"}), "tir.noalias": True})
        T.evaluate(Mod.g(A.data, 1))
        T.Assert(True, "x")
        return 0
    @T.prim_func(private=True)
    def g(p: T.handle, x: T.int32) -> T.int32:
        T.ret(x + 1)
---
@R.function
def r1(x: R.Tensor((2, 3), "float32"), s: R.Shape(["a", "b"]), p: R.Prim(value="a"), o: R.Object, t: R.Tuple(R.Tensor([2, "n"], "int32"), R.Tensor), f: R.Callable((R.Tensor(("k",), "float32"),), R.Tensor(("k",), "float32"), True)):
    a = T.int64()
    n = T.int64()
    y, z = t
    w = R.call_pure_packed("f", x, sinfo_args=(R.Tensor(ndim=2),))
    e = R.reshape(x, (3, 2))
    c = R.const([1, 2, 3], "int64")
    d = R.const(1.5)
    g = x + d
    h: R.Tensor = R.multiply(g, x)
    sh: R.Shape([a + 1, n * 2]) = R.shape([a + 1, n * 2])
    pv = R.prim_value(a * 2)
    b = R.prim_value(True)
    emp = R.tuple()
    st = R.str("abc")
    dd = R.dtype("float16")
    z1 = R.zeros(R.shape([2, n]), dtype="float32")
    m = R.match_cast(w, R.Tensor((a, n), "float32"))
    return (m, g, R.nn.relu(h))
---
@I.ir_module
class Grad:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            lv = R.nn.softmax(R.matmul(x, R.permute_dims(w)), axis=-1)
            lv1 = R.split(lv, 2, axis=1)
            lv2 = lv1[0]
            lv3 = R.concat((lv2, lv1[1]), axis=1)
            lv4 = R.nn.layer_norm(lv3, R.ones((4,), "float32"), R.zeros((4,), "float32"), axes=[-1])
            lv5 = R.astype(lv4, "float16")
            lv6 = R.strided_slice(lv5, axes=[0], begin=[0], end=[2])
            lv7 = R.take(lv4, R.const([0, 1], "int64"), axis=0)
            lv8 = R.where(R.less(x, w), x, w)
            lv9 = R.clip(lv8, 0, 6)
            lv10 = R.full((2, 2), R.const(1, "float32"), dtype="float32")
            lv11 = R.nn.conv2d(R.reshape(lv9, (1, 1, 4, 4)), R.reshape(w, (1, 1, 4, 4)), padding=1)
            lv12 = R.call_dps_packed("ext", (x,), out_sinfo=[R.Tensor((4, 4), "float32"), R.Tensor((4,), "float32")])
            gv = (lv6, lv7, lv10, lv11, lv12)
            R.output(gv)
        return gv
---
@I.ir_module
class V:
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0), I.vdevice("cuda", 1, "shared")]})
    @R.function
    def main(x: R.Tensor((2,), "float32", "llvm:0"), y: R.Tensor((2,), dtype="float32", vdevice="cuda:1")) -> R.Tensor((2,), "float32", "cuda:0"):
        z = R.to_vdevice(x, "cuda:0")
        return z
---
@R.function(pure=False, private=True)
def rec(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
    @R.function
    def loop(i: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        c: R.Tensor((), "bool") = R.less(i, R.const(10, "int32"))
        if c:
            n: R.Tensor((), "int32") = R.add(i, R.const(1, "int32"))
            s: R.Tensor((), "int32") = loop(n)
            r = s
        else:
            r = i
        return r
    R.print(x, format="v {}")
    R.assert_op(R.const(True, "bool"), x, format="x")
    g = loop(x)
    return g
'''.strip("\n").split("---\n")


def name_of(text: str) -> str:
    """The name of the function or class that a program defines."""
    line = next(line for line in text.split("\n") if line.startswith(("def ", "class ")))
    return line.split()[1].split("(")[0].rstrip(":")


@pytest.mark.parametrize("text", PROGRAMS, ids=name_of)
def test_round_trip(text: str) -> None:
    check(from_source(text))


def program(name: str) -> ir.Node:
    return from_source(next(text for text in PROGRAMS if name_of(text) == name))


def test_regions_are_detected() -> None:
    func = program("matmul")
    assert func.body.block.name_hint == "root"
    text = func.script()
    assert "T.reads(C[vi, vj], A[vi, vk], B[vj, vk])" in text or "T.reads(A[vi, vk], B[vj, vk])" in text
    assert "T.writes(C[vi, vj])" in text


def test_float_literals_take_the_buffers_dtype() -> None:
    func = program("lowered")
    assert "C_1[i] = A[i] + T.float32(1)" in func.script()
    assert func.attrs["global_symbol"] == "main"


def test_elif_nests_and_negation_multiplies() -> None:
    text = program("lets").script()
    assert "else:\n            if i == 7:" in text
    assert "T.Select(i > 3, A[i], A[i] * -1)" in text or "T.Select(i > 3, A[i], -1 * A[i])" in text


def test_explicit_root_block_keeps_its_regions_empty() -> None:
    func = program("ann")
    root = func.body.block
    assert root.annotations == {"meta_schedule.unroll_explicit": 64}
    assert root.reads == () and root.writes == ()


def test_parameters_of_symbolic_shape() -> None:
    func = program("dyn")
    n, m = func.buffer_map[func.params[0]].shape
    assert (n.dtype, m.dtype) == ("int64", "int64")
    assert isinstance(m, tir.SizeVar) and not isinstance(n, tir.SizeVar)
    assert func.params[0].name == "var_A"


def test_calls_between_functions_have_the_declared_dtype() -> None:
    mod = program("Mod")
    call = mod["f"].body.seq[0].value
    assert call.dtype == "int32"
    assert call.op is mod.get_global_var("g")
    assert mod.attrs["b"] == "x"
