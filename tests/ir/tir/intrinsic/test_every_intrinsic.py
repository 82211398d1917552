"""All records of intrinsics by one table: builder, arity, text, interpreter, lowering, native code, vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ir
from ir import IRModule
from ir import dtype as dt
from ir.codegen.build import build
from ir.codegen.llvm.intrinsics import PRIMITIVES
from ir.error import IRTypeError, IRValueError
from ir.op import Op, register_op
from ir.script import from_source
from ir.script import tir as T
from ir.tir.buffer import decl_buffer
from ir.tir.evaluate import evaluate
from ir.tir.expr import BufferLoad, Call, Var
from ir.tir.function import PrimFunc
from ir.tir.interpreter import run
from ir.tir.intrinsic import declaration
from ir.tir.intrinsic.declaration import (
    INTRINSICS,
    CallEffectKind,
    Intrinsic,
    effect_of,
    intrinsic,
    primitive,
)
from ir.tir.op import address_of, call_intrin, type_annotation
from ir.tir.stmt import BufferStore, Evaluate, For, ForKind
from ir.tir.transform import LowerIntrin

BUFFER = decl_buffer((8,), "float32", "A")
F, G, I, J, P, H = (Var(n, d) for n, d in zip("fgijph", "float32 float32 int32 int32 bool handle".split()))
V, BYTES = Var("v", "float32x4"), Var("b", "int8x4")
SUMS, GROUPS = Var("s", "int32x2"), Var("u", "uint8x8")
LOAD = BufferLoad(BUFFER, [I])
MANY_BYTES = decl_buffer((4096,), "int8", "many")
REGISTERS = [
    decl_buffer((extent,), dtype, f"{dtype}_register", scope="matrix")
    for extent, dtype in ((256, "int32"), (1024, "int8"))
]
LOAD_OF_BYTES = BufferLoad(MANY_BYTES, [I])
TOTALS, ROWS = (address_of(BufferLoad(register, [0])) for register in REGISTERS)
FRAGMENTS = [H, 0, H, 0, H, 0, H, 0]
MATRIX = ["m16n8k8", "row", "col", "fp16", "fp16", "fp32", H, 0, H, 0, H, 0]

UNARY = "exp exp2 exp10 expm1 erf erfc tanh sigmoid log log2 log10 log1p sqrt rsqrt tan cos sin cosh sinh acos acosh asin asinh".split()
UNARY += "atan atanh floor ceil trunc round nearbyint fabs isnan isinf isfinite".split()

#: Arguments of the builder of each intrinsic, the dtype first where it has one.
SAMPLES: dict[str, list[Any]] = {
    **{name: [F] for name in UNARY},
    **{name: [F, G] for name in "pow fmod atan2 hypot copysign nextafter".split()},
    **{name: [I, J] for name in "bitwise_and bitwise_or bitwise_xor shift_left shift_right".split()},
    **{name: [I] for name in "bitwise_not popcount clz ret optimization_barrier in_order as_data".split()},
    **{name: [P] for name in "likely ignore_loop_partition assume tvm_thread_invariant".split()},
    **{name: [] for name in "undef vscale tvm_warp_activemask ptx_commit_group tvm_throw_last_error".split()},
    **{name: ["int32", "f", I] for name in ("call_extern", "call_pure_extern")},
    **{name: ["int32", "llvm.ctpop.i32", I] for name in ("call_llvm_intrin", "call_llvm_pure_intrin")},
    **{name: ["f", I] for name in ("tvm_call_packed", "tvm_call_cpacked")},
    **{name: ["f", H, 0, 1] for name in ("tvm_call_packed_lowered", "tvm_call_cpacked_lowered")},
    **{f"tvm_warp_shuffle{form}": [I, F, 1, 32, 32] for form in ("", "_up", "_down", "_xor")},
    **{name: [H, 16, 16, 16, 0, H, 8, "row_major"] for name in ("tvm_load_matrix_sync", "tvm_store_matrix_sync")},
    **{name: FRAGMENTS for name in ("tvm_mma_sync", "tvm_bmma_sync")},
    **{name: [3] for name in ("start_profile_intrinsic", "end_profile_intrinsic", "ptx_wait_group")},
    "ldexp": [F, I], "round_to_tf32": [F], "reinterpret": ["int32", F], "large_uint_imm": ["uint64", 3, 4], "if_then_else": [P, F, G],
    "q_multiply_shift": [I, J, 31, -2], "q_multiply_shift_per_axis": [I, J, 1, 2, 31, True, True],
    "address_of": [LOAD], "buffer_offset": [LOAD], "type_annotation": ["float32"],
    "tvm_access_ptr": [type_annotation("float32"), H, 0, 4, 1], "handle_add_byte_offset": [H, I], "isnullptr": [H],
    "prefetch": [H, 0, 3, 1], "vectorlow": ["float32x2", V], "vectorhigh": ["float32x2", V],
    "vectorcombine": ["float32x8", V, V], "dp4a": [BYTES, BYTES, I], "dot_accumulate": [SUMS, BYTES, GROUPS],
    "get_active_lane_mask": ["boolx4", I, 8], "matrix_load": [ROWS, address_of(LOAD_OF_BYTES), 64],
    "matrix_store": [address_of(LOAD_OF_BYTES), ROWS, 64], "matrix_accumulate": [TOTALS, ROWS, ROWS],
    "tvm_storage_sync": ["shared"], "tvm_thread_allreduce": [1, F, P, H, I], "atomic_add": ["float32", H, F],
    "launch_kernel": [H, 0, 4, 1, 1, 32, 1, 1, 0, F], "encode_tensor_map": [H, 6, H, 0, 3, 3, 0, 256, 64, 512, 64, 64],
    "tvm_fill_fragment": [H, 16, 16, 16, 0, F], "ptx_mma": ["float32", *MATRIX, False],
    "ptx_mma_sp": ["float32", *MATRIX, H, 0, 0, False], "ptx_ldmatrix": ["float16", False, 4, ".b16", H, 0, H, 0],
    "ptx_stmatrix": ["float16", False, 4, ".b16", H, 0, H, 0],
    "mma_store": ["float32", 16, 16, H, H, 0, 8], "mma_fill": ["float32", 8, H, 0],
    "ptx_fence_proxy_async": [], "ptx_wgmma_fence": [], "ptx_wgmma_commit_group": [],
    "create_barriers": [4], "ptx_init_barrier_thread_count": [I, 128], "ptx_arrive_barrier": [I],
    "ptx_arrive_barrier_expect_tx": [I, 4096], "ptx_wait_barrier": [I, J], "ptx_wgmma_wait_group": [1],
    "tensor_map_encode_tiled": [H, "float16", 128, 64, 256, 256, 1, 64, 64], "ptx_cp_async_bulk": ["float16", H, 0, H, 0, 64, 0],
    "ptx_cp_async_bulk_tensor": ["float16", H, 0, H, 0, I, J],
    "ptx_wgmma_mma_async": [
        "float32", "m64n64k16", "row", "col", "float16", "float16", "float32", H, 0, H, 0, H, 0, P, 128, 16, 1024, 16, 1024
    ],
    "ptx_cp_async": ["float16", H, 0, H, 0, 16], "ptx_ldg32": [H, P, LOAD, 0], "texture2d_load": ["float32", H, I, J],
    "texture2d_store": [H, I, J, F], "tvm_check_return": [0, -1, I], "tvm_tuple": [I, 1],
    "tvm_struct_get": [H, 0, 1, "handle"], "tvm_struct_set": [H, 0, 1, I], "tvm_stack_alloca": ["shape", 4],
    "tvm_stack_make_shape": [1, 2], "tvm_stack_make_array": [H, H, 0, 2, "float32", 0], "lookup_param": ["p0"],
    "TVMBackendAllocWorkspace": [1, 0, 64, 2, 32], "TVMBackendFreeWorkspace": [1, 0, H],
}  # fmt: skip
RECORDS = [pytest.param(record, id=record.name) for record in INTRINSICS.values()]


def sample(record: Intrinsic) -> Call:
    call = record.build(*SAMPLES[record.name])
    assert isinstance(call, Call)
    return call


# ---- every record --------------------------------------------------------------------------------------------------


def test_every_builder_is_exported() -> None:
    """A builder that ``ir.tir`` does not have would be in scripts alone."""
    hidden = [
        record.name
        for record in INTRINSICS.values()
        if record.build.__module__.startswith("ir.tir.intrinsic.")
        and not record.build.__name__.startswith("_")
        and not hasattr(ir.tir, record.build.__name__)
    ]
    assert hidden == []


@pytest.mark.parametrize("record", RECORDS)
def test_builder(record: Intrinsic) -> None:
    call = sample(record)
    assert call.op is Op.get(record.op_name)
    assert effect_of(call) == record.effect
    if record.dtype_first:
        assert call.dtype in SAMPLES[record.name]
        with pytest.raises(IRTypeError, match="dtype of the result must be given"):
            record.result_of(call.args)
    else:
        assert call.dtype == record.result_of(call.args)
    assert record.build.__doc__


@pytest.mark.parametrize("record", RECORDS)
def test_a_wrong_number_of_arguments_is_an_error(record: Intrinsic) -> None:
    least, most = record.arity
    wrong = ([least - 1] if least else []) + ([] if most is None else [most + 1])
    for count in wrong:
        with pytest.raises(IRTypeError, match=rf"{record.op_name} takes .*, got {count}"):
            call_intrin("int32", record.op_name, *[I] * count)
        with pytest.raises(IRTypeError, match=rf"{record.op_name} takes .*, got {count}"):
            record.call([I] * count, "int32")
    assert least <= len(sample(record).args) <= (most if most is not None else 99)


@pytest.mark.parametrize("record", RECORDS)
def test_text(record: Intrinsic) -> None:
    call = sample(record)
    buffers = [BUFFER, MANY_BYTES, *REGISTERS]
    func = PrimFunc([F, G, I, J, P, H, V, BYTES, SUMS, GROUPS, *buffers], Evaluate(call))
    text = func.script()
    assert "call_intrin" not in text
    name = record.name if record.dtype_first else record.script_name
    operators = ("&", "|", "^", "<<", ">>", "~", "return")
    assert f"T.{name}(" in text or any(item in text for item in operators)
    ir.assert_structural_equal(from_source(text), func)


def test_a_call_that_its_builder_would_not_make_is_spelled_out() -> None:
    call = Call("float64", "tir.exp", (F,))
    assert str(call) == 'T.call_intrin("float64", "tir.exp", f)'


@pytest.mark.parametrize("record", RECORDS)
def test_a_meaning_belongs_to_what_works_on_lanes(record: Intrinsic) -> None:
    if record.elementwise:
        assert record.meaning is not None and record.lowering_for("llvm") is not None


def test_what_is_exact_gives_whole_numbers_for_whole_numbers() -> None:
    whole = np.arange(-4.0, 5.0)
    exact = [record for record in INTRINSICS.values() if record.exact]
    assert {record.name for record in exact} >= {"if_then_else", "likely", "bitwise_and", "fabs"}
    for record in exact:
        args = [whole, whole[::-1], whole][: record.arity[0]]
        if record.name == "bitwise_and":
            args = [arg.astype(int) for arg in args]
        assert record.meaning is not None
        value = np.asarray(record.meaning(*args))
        assert np.array_equal(value, np.round(value)) and np.abs(value).max() <= 8, record.name
    inexact = ("exp", "sqrt", "sigmoid", "tanh", "pow", "atan2")
    assert not any(INTRINSICS[f"tir.{name}"].exact for name in inexact)


def test_functions_that_take_long_are_costly_and_single_instructions_are_not() -> None:
    costly = {record.name for record in INTRINSICS.values() if record.costly}
    assert costly >= {"exp", "log", "erf", "tanh", "pow", "sigmoid", "sin", "log2", "atan2"}
    assert not costly & {"sqrt", "rsqrt", "fabs", "copysign", "floor", "bitwise_and", "if_then_else", "fma"}


def test_the_emitter_prints_what_is_declared_as_primitive_and_nothing_else() -> None:
    declared = {name for name, record in INTRINSICS.items() if record.lowering_for("llvm") is primitive}
    in_statements = {"tir.ret", "tir.type_annotation"}  # a statement; an argument that is no value
    of_hosts = {"tir.tensor_map_encode_tiled"}  # who launches a device's kernels makes another call of it
    assert declared - in_statements - of_hosts == set(PRIMITIVES)


def test_an_intrinsic_is_declared_once() -> None:
    with pytest.raises(IRValueError, match=r"tir\.exp is declared twice"):
        intrinsic(name="exp", arity=1, result="float32")(lambda x: x)


def test_a_mistake_in_a_declaration_is_an_error_with_a_near_name() -> None:
    with pytest.raises(IRTypeError, match="intrinsic typo: result: .*flot32"):
        intrinsic(name="typo", arity=1, result="flot32")(lambda x: x)
    with pytest.raises(IRValueError, match=r"no target kind 'lvm'; did you mean .*'llvm'"):
        intrinsic(name="typo", arity=1, result="int32", lowering={"lvm": primitive})(lambda x: x)
    with pytest.raises(IRValueError, match=r"no intrinsic 'popcout' is declared; did you mean 'popcount'"):
        declaration.call("popcout", I)
    assert "tir.typo" not in INTRINSICS


# ---- values: interpreter, lowered, native, vectors -----------------------------------------------------------------

COUNT = 32
_LOW_HIGH = {
    **dict.fromkeys("log log2 log10 sqrt rsqrt pow".split(), (0.1, 8)),
    **dict.fromkeys("acos asin atanh".split(), (-0.95, 0.95)),
    "log1p": (-0.9, 8), "acosh": (1.05, 8),
}  # fmt: skip
"""Where a function of floats is tried; others on [-4, 4]."""
_FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64")
_UNIT = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-14}


def numbers(name: str, dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dt.is_bool(dtype):
        return rng.integers(0, 2, COUNT).astype(bool)
    if dt.is_float(dtype):
        low, high = _LOW_HIGH.get(name, (-4, 4))
        found = rng.uniform(low, high, COUNT).astype(dt.to_numpy(dtype))
        if name.startswith("is"):
            found[:3] = [np.nan, np.inf, -np.inf]
        elif name in ("floor", "ceil", "trunc", "round", "nearbyint", "copysign", "nextafter", "fabs"):
            found[:6] = [0.0, -0.0, 0.5, -1.5, 2.5, -0.49]
            found[6 + seed], found[8 + seed] = np.nan, 0.0
        return found
    found = rng.integers(-100, 101, COUNT).astype(dtype)
    found[:2] = dt.integer_range(dtype)
    return found


def dtypes_of(record: Intrinsic) -> list[list[str]]:
    """The dtypes of arguments that an elementwise intrinsic is tried on."""
    args = sample(record).args
    own = [[a.dtype for a in args]]
    if record.name == "round_to_tf32":  # of float32 only
        return own
    if dt.is_float(args[0].dtype):
        return [
            [dtype, *[dtype if dt.is_float(a.dtype) else a.dtype for a in args[1:]]]
            for dtype in _FLOAT_DTYPES
        ]
    if dt.is_bool(args[0].dtype) or record.name.startswith("q_"):
        return own
    return [[dtype] * len(args) for dtype in ("int8", "uint8", "int32", "uint32", "int64", "uint64")]


def elementwise(record: Intrinsic, dtypes: list[str], kind: ForKind) -> tuple[PrimFunc, list[np.ndarray]]:
    """``O[i] = record(A0[i], A1[i], ...)`` and its data; the last is the output."""
    i = Var("i", "int32")
    data = [numbers(record.name, dtype, seed) for seed, dtype in enumerate(dtypes)]
    if record.name.startswith("shift"):
        data[1] = (np.abs(data[1].astype("int64")) % 7).astype(data[1].dtype)
    if record.name == "ldexp":
        data[1] = data[1] % 5
    if record.name.startswith("q_"):
        data[2:] = [
            np.full(COUNT, item).astype(d)
            for item, d in zip((31, -2) if len(data) == 4 else (1, 2, 29, 1, 1), dtypes[2:])
        ]
    inputs = [decl_buffer((COUNT,), dtype, f"A{n}") for n, dtype in enumerate(dtypes)]
    loads = [BufferLoad(buffer, [i]) for buffer in inputs]
    given = (
        {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}[data[0].dtype.itemsize]
        if record.dtype_first
        else None
    )
    value = record.call(loads, given)
    output = decl_buffer((COUNT,), value.dtype, "O")
    body = For(i, 0, COUNT, kind, BufferStore(output, value, [i]))
    return PrimFunc([*inputs, output], body), [*data, np.zeros(COUNT, dt.to_numpy(value.dtype))]


def result(func: PrimFunc, data: list[np.ndarray]) -> np.ndarray:
    arrays = [item.copy() for item in data]
    run(func, *arrays)
    return arrays[-1]


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal values and dtypes; numpy tells the NaN of bfloat16 from itself, hence as float32."""
    assert found.dtype == expected.dtype
    kind = "float32" if expected.dtype.kind == "V" else expected.dtype
    np.testing.assert_array_equal(found.astype(kind), expected.astype(kind))


@pytest.mark.parametrize("record", [item for item in RECORDS if item.values[0].elementwise])
def test_interpreter_evaluator_lowering_native_code_and_vectors_agree(record: Intrinsic) -> None:
    for dtypes in dtypes_of(record):
        func, data = elementwise(record, dtypes, ForKind.SERIAL)
        expected = result(func, data)
        out = func.buffer_map[func.params[-1]].dtype
        names = [Var(f"x{n}", dtype) for n, dtype in enumerate(dtypes)]
        with np.errstate(all="ignore"):
            whole = evaluate(record.call(names, out if record.dtype_first else None), dict(zip(names, data)))
        assert_same(whole, expected)
        lowered = LowerIntrin("llvm")(IRModule({"main": func}))["main"]
        assert_same(result(lowered, data), expected)
        unit = _UNIT.get(out, 0.0)
        for kind in (ForKind.SERIAL, ForKind.VECTORIZED):
            native, _ = elementwise(record, dtypes, kind)
            arrays = [item.copy() for item in data]
            build(native)["main"](*arrays)
            np.testing.assert_allclose(
                arrays[-1].astype(float),
                expected.astype(float),
                rtol=unit,
                atol=unit,
                err_msg=f"{dtypes} {kind}",
            )


def test_vectors_as_wholes() -> None:
    @T.prim_func
    def main(
        A: T.Buffer((2,), "float32x8"), B: T.Buffer((1,), "float32x8"), X: T.Buffer((3,), "int8x4"),
        Y: T.Buffer((3,), "int8x4"), D: T.Buffer((3,), "int32"), M: T.Buffer((1,), "boolx8"), C: T.Buffer((1,), "uint64"),
    ):  # fmt: skip
        B[0] = T.vectorcombine("float32x8", T.vectorhigh("float32x4", A[0]), T.vectorlow("float32x4", A[1]))
        for i in range(3):
            D[i] = T.dp4a(X[i], Y[i], i)
        M[0] = T.get_active_lane_mask("boolx8", 3, 8)
        C[0] = T.large_uint_imm("uint64", 5, 7)

    rng = np.random.default_rng(0)
    a = rng.random((2, 8), "float32")
    x, y = (rng.integers(-128, 128, (3, 4)).astype("int8") for _ in range(2))
    outputs = [
        np.zeros((1, 8), "float32"),
        np.zeros(3, "int32"),
        np.zeros((1, 8), bool),
        np.zeros(1, "uint64"),
    ]
    runs = []
    for execute in (lambda *args: run(main, *args), build(main)["main"]):
        b, d, m, c = (item.copy() for item in outputs)
        execute(a, b, x, y, d, m, c)
        runs.append((b, d, m, c))
    expected = (
        np.concatenate([a[0, 4:], a[1, :4]])[None],
        (x.astype(int) * y.astype(int)).sum(1) + np.arange(3),
        (np.arange(3, 11) < 8)[None],
        np.array([7 * 2**32 + 5], "uint64"),
    )
    for found in runs:
        for got, wanted in zip(found, expected):
            np.testing.assert_array_equal(got, wanted)


def test_pointers_are_null_or_not() -> None:
    @T.prim_func
    def main(A: T.Buffer((2,), "bool")):
        A[0] = T.isnullptr(A.data)
        A[1] = T.isnullptr(T.reinterpret("handle", T.uint64(0)))

    out = np.array([True, False])
    build(main)["main"](out)
    assert list(out) == [False, True]


def test_powers_of_integers() -> None:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = T.pow(A[i], i)

    a = np.array([5, -3, -7, 11], "int32")
    build(main)["main"](a)
    assert list(a) == [1, -3, 49, 1331]


def test_what_nothing_is_known_of_may_do_anything() -> None:
    unknown = register_op("tests.intrinsic.unknown")
    assert effect_of(Call("int32", unknown, ())) == CallEffectKind.UPDATE_STATE
