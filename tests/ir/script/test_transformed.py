"""Programs as passes leave them: legalized, scheduled, lowered; they print and read back as well."""

from __future__ import annotations

import pytest

import schedules
from ir import IRModule, relax
from ir.script import from_source
from tests.ir.script.roundtrip import check
from tests.programs.expressions import matmul


def test_tensor_expressions() -> None:
    text = check(matmul())
    assert "with T.init():" in text


@pytest.mark.parametrize("size", [64, 63])
def test_scheduled(size: int) -> None:
    func = matmul(size)
    sch = schedules.Schedule(IRModule({"main": func}))
    block = sch.get_child_blocks(sch.get_block("root"))[0]
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i0, j0, k, i1, j1)
    sch.parallel(i0)
    sch.unroll(i1)
    sch.vectorize(j1)
    sch.annotate(k, "pragma_auto_unroll_max_step", 16)
    sch.cache_write(block, 0, "local")
    text = check(sch.mod)
    assert "T.parallel" in text and "T.vectorized" in text
    if size == 63:
        assert "T.where(" in text


def test_lowered() -> None:
    from ir.tir import transform

    mod = IRModule({"main": matmul()})
    names = (
        "LowerInitBlock",
        "ConvertBlocksToOpaque",
        "CompactBufferAllocation",
        "LowerOpaqueBlock",
        "FlattenBuffer",
        "Simplify",
    )
    done = 0
    for name in names:
        make = getattr(transform, name, None)
        if make is not None:
            mod = make()(mod)
            check(mod)
            done += 1
    assert done >= 3


def test_legalized_zoo_block() -> None:
    from tuner import zoo

    mod = zoo.load("llama_block", **zoo.small_config("llama_block"))
    mod = mod[0] if isinstance(mod, tuple) else mod
    check(mod)
    check(relax.transform.LegalizeOps()(mod))


def test_reading_twice_gives_equal_hashes() -> None:
    from ir import structural_hash

    text = matmul().script()
    assert (
        structural_hash(from_source(text)) == structural_hash(from_source(text)) == structural_hash(matmul())
    )
