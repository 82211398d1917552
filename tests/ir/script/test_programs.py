"""Programs in the forms that documentation and tests of the field write, read and printed back."""

from __future__ import annotations

import pytest

import ir
from ir import tir
from ir.script import from_source
from tests.ir.script.roundtrip import check

PROGRAMS = r"""
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
def r1(
    x: R.Tensor((2, 3), "float32"),
    s: R.Shape(["a", "b"]),
    p: R.Prim(value="a"),
    o: R.Object,
    t: R.Tuple(R.Tensor([2, "n"], "int32"), R.Tensor),
    f: R.Callable((R.Tensor(("k",), "float32"),), R.Tensor(("k",), "float32"), True),
):
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
    def main(
        x: R.Tensor((2,), "float32", "llvm:0"), y: R.Tensor((2,), dtype="float32", vdevice="cuda:1")
    ) -> R.Tensor((2,), "float32", "cuda:0"):
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
---
@T.prim_func
def opt_gemm_mod_host(A_: T.Buffer((1024, 1024), "float32"), p: T.handle):
    T.func_attr({"tir.noalias": True, "target": T.target({"kind": "llvm", "tag": "", "keys": ["cpu"]})})
    arg0: T.handle = T.tvm_struct_get(p, 0, 12, dtype="handle")
    A_data: T.handle("int32") = T.tvm_struct_get(arg0, 0, 1, dtype="handle")
    A = T.Buffer([1024 * 1024], dtype="int32", data=A_data)
    buf_shape: T.handle("int64") = T.tvm_struct_get(arg0, 0, 2, dtype="handle")
    assert not T.isnullptr(A_data), "x"
    T.attr(A_data, "storage_alignment", 128)
    with T.attr(0, "compute_scope", "mmult_compute_"):
        T.evaluate(T.call_llvm_pure_intrin("int32x8", T.uint32(97), T.uint32(3), A[T.ramp(0, 1, 8)]))
    stack: T.handle = T.tvm_stack_alloca("shape", 4, dtype="handle")
    T.tvm_struct_set(stack, 0, 2, T.uint64(3), dtype="int32")
    A[0:8] = T.Broadcast(3, 8) + T.Shuffle([A[0:8], A[8:16]], [0, 1, 2, 3, 4, 5, 6, 15])
---
@T.prim_func
def reduce_scope(a: T.Buffer((32,), "float32"), r: T.Buffer((1,), "float32")):
    blockIdx_x = T.launch_thread("blockIdx.x", 4)
    red = T.allocate([1], "float32", "local")
    red_1 = T.Buffer((1,), data=red, scope="local")
    with T.attr(T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
        T.tvm_thread_allreduce(T.uint32(1), a[blockIdx_x], T.bool(True), red_1[0], blockIdx_x)
    if blockIdx_x == 0:
        r[0] = red_1[0]
---
@T.prim_func
def b2(A: T.Buffer((T.int64(16),), "int8"), B: T.Buffer((16,), "bool")):
    for ax0 in T.serial(T.int64(16), annotations={"pragma_loop_partition_hint": 1, "u": T.int32(3), "s": ["a", "b"]}):
        with T.block("b"):
            v = T.axis.spatial(T.int64(16), ax0)
            T.where(ax0 < T.int64(15))
            A[v] = T.if_then_else(B[v] and v < T.int64(3), T.int8(1), A[v] // T.int8(3), dtype="int8")
            B[v] = not B[v] or T.likely(v == T.int64(1), dtype="bool")
---
@T.prim_func
def match(a: T.handle, b: T.handle):
    m = T.int32()
    n = T.int32()
    A = T.match_buffer(a, (m, n), "float16", elem_offset=0, align=64, offset_factor=1)
    B = T.match_buffer(b, (m, n), "float16", strides=[n, 1], axis_separators=[1])
    for i in T.thread_binding(m, thread="blockIdx.x", annotations={"k": 1}):
        for j in T.thread_binding(0, n, thread="threadIdx.x"):
            with T.block(""):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float16(2)
---
@T.prim_func
def scan(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for s, i in T.grid(15, 16):
        with T.block("scan"):
            vs = T.axis.scan((1, 16), s + 1)
            vi = T.axis.spatial(16, i)
            B[vs, vi] = B[vs - 1, vi] + A[vs, vi]
---
@T.prim_func
def dec(A: T.Buffer((16, 16), "float32")):
    A_flat = T.decl_buffer(256, data=A.data)
    with T.decl_buffer([8], "int32", scope="shared") as S:
        S[0] = T.Cast("int32", A_flat[1])
    x = T.var("int32")
    T.evaluate(T.Let(x + 1, where={x: 3}))
    T.evaluate(T.let(x, 4, x * 2))
---
@T.prim_func
def strs():
    T.call_extern("int32", "printf", "a\"b\n\\ ünï")
    T.call_packed("x", 1, T.float64(3.14), T.uint8(255), T.int8(-3))
---
@T.prim_func
def gpu2(A: T.Buffer((1024,), "float32")):
    tx = T.env_thread("threadIdx.x")
    bx = T.launch_thread("blockIdx.x", 8)
    with T.launch_thread(tx, 32):
        A[bx * 32 + tx] = 1
    with T.launch_thread(tx, 16):
        A[bx * 32 + tx] = 2
---
@T.prim_func
def nanv(A: T.Buffer((3,), "float64"), B: T.Buffer((3,), "bfloat16"), C: T.Buffer((2,), "float8_e4m3fn"), D: T.Buffer((2,), "float32x4")):
    A[0] = T.float64("nan")
    A[1] = 1e300
    A[2] = -0.5
    B[0] = T.bfloat16(1.5)
    C[0] = T.float8_e4m3fn(1)
    D[0] = T.Broadcast(T.float32(1), 4)
---
@I.ir_module
class MyModule:
    @T.prim_func
    def linear0(x: T.handle, w: T.handle, z: T.handle):
        m, n, k = T.int32(), T.int32(), T.int32()
        X = T.match_buffer(x, (1, m), "float32")
        W = T.match_buffer(w, (n, m), "float32")
        Z = T.match_buffer(z, (1, n), "float32")
        for i, j, k in T.grid(1, n, m):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Z[vi, vj] = T.float32(0)
                Z[vi, vj] = Z[vi, vj] + X[vi, vk] * W[vj, vk]
    @R.function
    def main(x: R.Tensor((1, 784), "float32"), w0: R.Tensor((128, 784), "float32")):
        cls = MyModule
        with R.dataflow():
            lv0 = R.call_tir(cls.linear0, (x, w0), R.Tensor((1, 128), dtype="float32"))
            out = R.call_dps_packed("env.relu", (lv0,), R.Tensor((1, 128), dtype="float32"))
            R.output(out)
        return out
---
@R.function
def ann(x: R.Tensor((32, "m"), "float32"), y: R.Tensor(("m",), "float32"), r: R.Tensor(dtype="int64")) -> R.Object:
    m = T.int64()
    z: R.Tensor((32, m), "float32") = R.multiply(x, y)
    w: R.Tensor = R.multiply(z, z)
    q: R.Tensor(ndim=2) = R.add(w, w)
    t = R.add(w, z)
    sh = R.call_pure_packed("shape_of", x, sinfo_args=R.Shape(ndim=2))
    lv: R.Tensor(sh, dtype="float32") = R.reshape(x, sh)
    o: R.Object = R.call_pure_packed("contrib.tensor_array_stack", x, y, sinfo_args=R.Object)
    return o
---
@R.function
def mc(x: R.Tensor("float32"), y: R.Tensor("float32")):
    m = T.int64()
    n = T.int64()
    x0 = R.match_cast(x, R.Tensor([m], "float32"))
    gv = x0
    y0 = R.match_cast(y, R.Tensor([n], "float32"))
    return (x0, R.shape([m, n * 2]))
---
@R.function(pure=False)
def vmops(x: R.Tensor(("m", "n"), dtype="float32")):
    m = T.int64()
    n = T.int64()
    storage = R.vm.alloc_storage(R.shape([4 * m * n]), R.prim_value(0), R.dtype("uint8"))
    alloc = R.vm.alloc_tensor(storage, R.prim_value(0), R.shape([m, n]), R.dtype("float32"))
    tensor = R.builtin.alloc_tensor(R.shape([m, n]), dtype="float32", runtime_device_index=0)
    gv0 = R.memory.alloc_storage(R.shape([4]), 0, "global", "float32")
    gv1 = R.memory.alloc_tensor(gv0, 0, R.shape([1]), "float32")
    R.memory.kill_tensor(gv1)
    _ = R.call_packed("vm.builtin.x", x, 1, "str", R.dtype("int8"), sinfo_args=(R.Prim("int64"),))
    _1 = R.call_builtin_with_ctx("vm.builtin.y", (x,), sinfo_args=(R.Object,))
    a = R.arange(R.prim_value(0), R.prim_value(n), R.prim_value(1), dtype="int64")
    return alloc
---
@R.function
def cond(x: R.Tensor(("N",), "float32")):
    N = T.int64()
    if R.prim_value(N == 16):
        out = R.call_pure_packed("fast", x, sinfo_args=[R.Tensor([16], "float32")])
    else:
        out = R.call_pure_packed("slow", x, sinfo_args=[R.Tensor([N], "float32")])
    return out
---
@R.function
def img(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), b: R.Tensor((4,), "float32")):
    with R.dataflow():
        c = R.nn.conv2d(
            x, w, strides=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1, data_layout="NCHW", kernel_layout="OIHW"
        )
        c1 = R.nn.max_pool2d(c, pool_size=(2, 2))
        c2 = R.image.resize2d(c1, R.shape([16, 16]), method="linear", layout="NCHW")
        bn = R.nn.batch_norm(c2, b, b, b, b, axis=1, epsilon=1e-5, center=True, scale=True, momentum=0.1)
        b0 = bn[0]
        lt = R.layout_transform(b0, index_map=lambda n, c, h, w: (n, h, w, c))
        sp = R.split(b0, [1, 3], axis=1)
        at = R.nn.attention(R.reshape(b0, (1, 4, 16, 16)), R.reshape(b0, (1, 4, 16, 16)), R.reshape(b0, (1, 4, 16, 16)))
        R.output(lt, sp, at)
    return (lt, sp, at)
""".strip("\n").split("---\n")


def name_of(text: str) -> str:
    """The name of the function or class that a program defines."""
    line = next(line for line in text.split("\n") if line.startswith(("def ", "class ")))
    return line.split()[1].split("(")[0].rstrip(":")


@pytest.mark.parametrize("text", PROGRAMS, ids=name_of)
def test_round_trip(text: str) -> None:
    check(from_source(text), map_free_vars=name_of(text) == "dec")  # its let variables are free


def program(name: str) -> ir.Node:
    return from_source(next(text for text in PROGRAMS if name_of(text) == name))


def test_regions_are_detected() -> None:
    func = program("matmul")
    assert func.body.block.name_hint == "root"
    text = func.script()
    assert "T.reads(C[vi, vj], A[vi, vk], B[vj, vk])" in text
    assert "T.writes(C[vi, vj])" in text


def test_float_literals_take_the_buffers_dtype() -> None:
    func = program("lowered")
    assert "C_1[i] = A[i] + T.float32(1)" in func.script()
    assert func.attrs["global_symbol"] == "main"


def test_elif_nests_and_negation_multiplies() -> None:
    text = program("lets").script()
    assert "else:\n            if i == 7:" in text
    assert "T.Select(i > 3, A[i], A[i] * -1)" in text


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
