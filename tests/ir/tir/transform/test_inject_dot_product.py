"""InjectDotProduct: loops over a group of products become one call, which computes the same on every machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ir import tir
from ir.codegen.build import build
from ir.script import from_source
from ir.script import tir as T
from ir.tir import PrimFunc
from ir.tir.lower import lower
from ir.transform import Pass

MACHINE = "llvm -mcpu=znver4 -mtriple=x86_64-linux-gnu -num-cores=1"
INJECT = tir.transform.InjectDotProduct()

SHARED = 'T.Broadcast(T.Cast("int32", x[k * 4 + g]), 16)'
COUNTED = 'T.call_extern("int32", "count")'
OWN = 'T.Cast("int32x16", y[k * 64 + g : k * 64 + g + 64 : 4])'


def group_loop(
    value: str | None = None,
    place: str = "0:16",
    loop: str = 'T.serial(4, annotations={"dot_product": 1})',
    x: str = "int8",
    y: str = "int8",
    c: str = "int32",
    body: str | None = None,
    noalias: bool = True,
) -> PrimFunc:
    """A loop over groups, and in it the one over a group; the value is what is added to ``C`` by default."""
    product = value or f"C[{place}] + {SHARED} * {OWN}"
    return from_source(f"""@T.prim_func
def main(x: T.Buffer((64,), "{x}"), y: T.Buffer((1024,), "{y}"), C: T.Buffer((128,), "{c}"), D: T.Buffer((16,), "{c}")):
    T.func_attr({{"tir.noalias": {noalias}}})
    for k in range(8):
        for g in {loop}:
            {body or f"C[{place}] = {product}"}
""")


@T.prim_func
def injected(
    x: T.Buffer((64,), "int8"),
    y: T.Buffer((1024,), "int8"),
    C: T.Buffer((128,), "int32"),
    D: T.Buffer((16,), "int32"),
):
    T.func_attr({"tir.noalias": True})
    for k in range(8):
        C[0:16] = T.dot_accumulate(C[0:16], x[k * 4 : k * 4 + 4], y[k * 64 : k * 64 + 64])


# ---- what fits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"value": f"{SHARED} * {OWN} + C[0:16]"},
        {"value": f"C[0:16] + {OWN} * {SHARED}"},
        {"value": f"{OWN} * {SHARED} + C[0:16]"},
        {"value": f'C[0:16] + T.Cast("int32x16", T.Broadcast(x[k * 4 + g], 16)) * {OWN}'},
        {"value": f"C[0:16] + {SHARED.replace('k * 4 + g', 'g + k * 4')} * {OWN}"},
        {"loop": 'T.unroll(4, annotations={"dot_product": 1})'},
    ],
)
def test_the_forms_of_a_product(check: Callable[..., None], changed: dict[str, Any]) -> None:
    check(INJECT, group_loop(**changed), injected)


def test_both_operands_have_a_group_of_each_lane(apply: Callable[[Pass, PrimFunc], PrimFunc]) -> None:
    func = group_loop(f"C[0:16] + {OWN.replace('y[', 'x[').replace('k * 64', '0')} * {OWN}")
    assert "T.dot_accumulate(C[0:16], x[0:64], y[k * 64:k * 64 + 64])" in apply(INJECT, func).script()


@pytest.mark.parametrize("start", [4, 8])
def test_a_loop_that_begins_elsewhere(apply: Callable[[Pass, PrimFunc], PrimFunc], start: int) -> None:
    func = group_loop(loop=f'T.serial({start}, {start + 4}, annotations={{"dot_product": 1}})')
    text = apply(INJECT, func).script()
    assert f"x[k * 4 + {start}:k * 4 + {start} + 4]" in text
    assert f"y[k * 64 + {start}:k * 64 + {start} + 64]" in text


def test_words_are_in_groups_of_two(apply: Callable[[Pass, PrimFunc], PrimFunc]) -> None:
    func = group_loop(
        f"C[0:16] + {SHARED.replace('4', '2')} * {OWN.replace('64', '32').replace('4]', '2]')}",
        loop='T.serial(2, annotations={"dot_product": 1})',
        x="int16",
        y="int16",
    )
    assert (
        "T.dot_accumulate(C[0:16], x[k * 2:k * 2 + 2], y[k * 32:k * 32 + 32])" in apply(INJECT, func).script()
    )


# ---- what does not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"loop": "range(4)"},  # not asked for
        {"loop": 'T.serial(2, annotations={"dot_product": 1})'},  # half of a group
        {"loop": 'T.serial(8, annotations={"dot_product": 1})'},
        {"loop": 'T.parallel(4, annotations={"dot_product": 1})'},
        {"place": "g * 16:g * 16 + 16"},  # other sums for each number
        {"value": f"C[16:32] + {SHARED} * {OWN}"},  # not what is stored to
        {"value": f"D[0:16] + {SHARED} * {OWN}"},
        {"value": f"C[0:16] - {SHARED} * {OWN}"},
        {"value": f"C[0:16] + {SHARED} + {OWN}"},
        {"value": f"C[0:16] + {SHARED} * T.Broadcast(3, 16)"},
        {"value": f"C[0:16] + {SHARED} * {SHARED}"},
        {"value": f"C[0:16] + {SHARED.replace('+ g', '+ g * 2')} * {OWN}"},  # apart from each other
        {"value": f"C[0:16] + {SHARED.replace('+ g', '+ 3 - g')} * {OWN}"},  # backwards
        {"value": f"C[0:16] + {SHARED.replace('+ g', '')} * {OWN}"},  # the same each time
        {"value": f"C[0:16] + {SHARED.replace('+ g', '+ g // 2 + g')} * {OWN}"},
        {"value": f"C[0:16] + {SHARED} * {OWN.replace(': 4]', ': 8]').replace('64 :', '128 :')}"},
        {"value": f"C[0:16] + {SHARED} * {OWN.replace('g + 64 : 4', '(g + 1) % 4 + 64 : 4').replace('+ g :', '+ (g + 1) % 4 :')}"},
        {"value": f"C[0:16] + {SHARED} * {OWN.replace('+ g', '')}"},
        {"x": "uint16"},  # no such instruction
        {"x": "int32", "value": f"C[0:16] + T.Broadcast(x[k * 4 + g], 16) * {OWN}"},
        {"c": "int16", "value": f"C[0:16] + {SHARED} * {OWN}".replace("int32", "int16")},
        {"value": f"C[0:16] + {SHARED} * T.Cast(\"int32x16\", T.Cast(\"int16x16\", y[k * 64 + g : k * 64 + g + 64 : 4]))"},
        {"body": f"for h in range(1): C[0:16] = C[0:16] + {SHARED} * {OWN}"},
        {"body": f"if g == k: C[0:16] = C[0:16] + {SHARED} * {OWN}"},  # as the first value of a reduction is written
        {"body": f"C.vstore([T.Ramp(0, 1, 16)], C[0:16] + {SHARED} * {OWN}, T.Broadcast(k < 3, 16))"},
        {"value": f"C[0:16] + {SHARED} * T.Cast(\"int32x16\", y.vload([T.Ramp(k * 64 + g, 4, 16)], predicate=T.Broadcast(k < 3, 16)))"},
        {"value": f"C[0:16] + {SHARED.replace('k * 4', COUNTED)} * {OWN}"},
        {"noalias": False},  # an operand may be the sums
        {"place": "T.Ramp(C[0] % 8, 1, 16)"},  # other sums, once the first are stored
        {"value": f"C[0:16] + {SHARED.replace('k * 4', 'C[0] % 8')} * {OWN}"},
        {"body": 'C[0] = C[0] + T.Cast("int32", x[k * 4 + g]) * T.Cast("int32", y[k * 4 + g])'},  # one lane
    ],
)  # fmt: skip
def test_what_stays_a_loop(apply: Callable[..., PrimFunc], changed: dict[str, Any]) -> None:
    func = group_loop(**changed)
    assert apply(INJECT, func, False) is func


def test_operands_in_the_memory_of_the_sums_stay_a_loop(apply: Callable[..., PrimFunc]) -> None:
    """The loop changes what it reads."""

    @T.prim_func
    def func(y: T.Buffer((64,), "int8"), C: T.Buffer((16,), "int32")):
        x = T.decl_buffer((64,), "int8", data=C.data)
        for g in T.serial(4, annotations={"dot_product": 1}):
            C[0:16] = C[0:16] + T.Broadcast(T.Cast("int32", x[g]), 16) * T.Cast("int32x16", y[g : g + 64 : 4])

    assert apply(INJECT, func, False) is func


def test_a_beginning_that_may_be_computed_once_only_stays(apply: Callable[..., PrimFunc]) -> None:
    func = group_loop()
    outer = func.body
    inner = outer.body.replace(min=tir.call_extern("int32", "count"))
    func = func.replace(body=outer.replace(body=inner))
    assert apply(INJECT, func, False) is func


@pytest.mark.parametrize("address", ["C.data", "T.address_of(C[0])"])
def test_operands_by_another_name_for_the_sums_stay_a_loop(
    apply: Callable[..., PrimFunc], address: str
) -> None:
    func = from_source(f"""@T.prim_func
def main(y: T.Buffer((64,), "int8"), C: T.Buffer((16,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    p: T.handle("int8") = {address}
    x = T.Buffer((64,), "int8", data=p)
    for g in T.serial(4, annotations={{"dot_product": 1}}):
        C[0:16] = C[0:16] + T.Broadcast(T.Cast("int32", x[g]), 16) * T.Cast("int32x16", y[g : g + 64 : 4])
""")
    assert apply(INJECT, func, False) is func


def test_where_parameters_may_be_the_same_memory_they_are_read_in_order() -> None:
    func = from_source("""@T.prim_func
def main(x: T.Buffer((64,), "int8"), y: T.Buffer((64,), "int8"), C: T.Buffer((16,), "int32")):
    for g in T.serial(4, annotations={"dot_product": 1}):
        C[0:16] = C[0:16] + T.Broadcast(T.Cast("int32", x[g]), 16) * T.Cast("int32x16", y[g : g + 64 : 4])
""")
    y, c = np.full(64, 100, "int8"), np.full(16, 0x01020304, "int32")
    expected = c.copy()
    for g in range(4):
        expected += expected.view("int8")[g].astype("int32") * y[g::4]
    build(func)["main"](c.view("int8"), y, c)
    np.testing.assert_array_equal(c, expected)


# ---- whole programs ----------------------------------------------------------------------------------------------------

BYTES = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]


def product(first: str, second: str, rows: int, vectors: int, depth: int, lanes: int = 16) -> PrimFunc:
    """C = A @ B in register tiles; B is packed: a group of numbers for each lane."""
    group = 4 if first.endswith("int8") else 2
    sums = "float32" if first == "bfloat16" else "int32"
    width = vectors * lanes
    term = f'T.Cast("{sums}", A[vr, vk * {group} + vg]) * T.Cast("{sums}", B[vk, vv, vj, vg])'
    packed_shape = f"({depth}, {vectors}, {lanes}, {group})"
    return from_source(f"""@T.prim_func
def main(
    A: T.Buffer(({rows}, {depth * group}), "{first}"), B: T.Buffer({packed_shape}, "{second}"), C: T.Buffer(({rows}, {width}), "{sums}")
):
    T.func_attr({{"tir.noalias": True}})
    X = T.alloc_buffer(({rows}, {width}), "{sums}", scope="local")
    for r in T.unroll({rows}):
        for v in T.unroll({vectors}):
            for j in T.vectorized({lanes}):
                with T.block("first"):
                    vr, vv, vj = T.axis.remap("SSS", [r, v, j])
                    X[vr, vv * {lanes} + vj] = T.{sums}(0)
    for k in range({depth}):
        for r in T.unroll({rows}):
            for v in T.unroll({vectors}):
                for j in T.vectorized({lanes}):
                    for g in T.serial({group}, annotations={{"dot_product": 1}}):
                        with T.block("sums"):
                            vr, vv, vj, vk, vg = T.axis.remap("SSSRR", [r, v, j, k, g])
                            X[vr, vv * {lanes} + vj] = X[vr, vv * {lanes} + vj] + {term}
    for r in T.unroll({rows}):
        for v in T.unroll({vectors}):
            for j in T.vectorized({lanes}):
                with T.block("result"):
                    vr, vv, vj = T.axis.remap("SSS", [r, v, j])
                    C[vr, vv * {lanes} + vj] = X[vr, vv * {lanes} + vj]
""")


def packed(b: np.ndarray, vectors: int, group: int) -> np.ndarray:
    depth, width = b.shape
    parts = b.reshape(depth // group, group, vectors, width // vectors)
    return np.ascontiguousarray(parts.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    "target", ["llvm", "llvm -mattr=-avx512vnni,-avxvnni", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"]
)
@pytest.mark.parametrize("lanes", [4, 8, 16, 24, 32])
@pytest.mark.parametrize(("first", "second"), [*BYTES, ("int16", "int16")])
def test_products_of_integers(first: str, second: str, target: str, lanes: int) -> None:
    rng = np.random.default_rng(0)
    group = 2 if first == "int16" else 4
    a, b = (
        rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        for kind, shape in ((first, (4, 9 * group)), (second, (9 * group, 2 * lanes)))
    )
    a[0], b[:, 0] = np.iinfo(first).min, np.iinfo(second).min
    a[1], b[:, 1] = np.iinfo(first).max, np.iinfo(second).max
    c = np.zeros((4, 2 * lanes), "int32")
    build(product(first, second, 4, 2, 9, lanes), target)["main"](a, packed(b, 2, group), c)
    exact = a.astype("int64") @ b.astype("int64")
    np.testing.assert_array_equal(c, (exact & 0xFFFFFFFF).astype("uint32").view("int32"))


def test_a_product_of_bfloat16() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.5, 1, shape).astype(ml_dtypes.bfloat16) for shape in ((4, 18), (18, 32)))
    c = np.zeros((4, 32), "float32")
    build(product("bfloat16", "bfloat16", 4, 2, 9))["main"](a, packed(b, 2, 2), c)
    np.testing.assert_allclose(c, a.astype("float64") @ b.astype("float64"), rtol=2.0**-20)


@pytest.mark.parametrize(
    ("first", "second", "instruction"),
    [
        ("uint8", "int8", "vpdpbusd"),
        ("int8", "int8", "vpdpbusd"),
        ("int16", "int16", "vpdpwssd"),
        ("bfloat16", "bfloat16", "vdpbf16ps"),
    ],
)
def test_partial_results_stay_in_registers(first: str, second: str, instruction: str) -> None:
    func = product(first, second, 4, 2, 40)
    assert lower(func, MACHINE).script().count("T.dot_accumulate") == 8
    text = build(func, MACHINE).assembly
    assert text.count(instruction) >= 8
    assert text.count("(%rsp)") == 0
    *_, loop = text[: text.rindex(instruction)].split(":\n")
    assert loop.count(instruction) >= 7  # all of them in one loop, which writes nothing
    assert not [line for line in loop.splitlines() if "mov" in line and line.rstrip().endswith(")")]
