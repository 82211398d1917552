"""SplitKeys through the contract; attention of single queries in parts is right, in two kernels, and fits devices."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.operators import suite
from ir import te
from ir.codegen.cuda.codegen import generate
from ir.codegen.cuda.emulation.program import EmulatedProgram
from ir.target import Target
from ir.tir import PrimFunc
from ir.tir.interpreter import run
from ir.tir.lower import lower
from schedules import Schedule, ScheduleError
from schedules.block_facts import node_of
from schedules.postproc import postprocess
from schedules.rule import ScheduleRule, SplitKeys
from schedules.rule.online_tiles import inline_producers
from schedules.rule.reduction_chain import chain_of
from schedules.rule.split_keys import KeyShare, shares_of, split_keys
from schedules.space import PostOrderApply
from tests.programs import chains

from ..checks import assert_replays
from ..rule_contract import RuleContract

TARGET = Target("nvidia/nvidia-a100")
NAME = "decode_attention"


class TestSplitKeys(RuleContract):
    def rule(self) -> ScheduleRule:
        return SplitKeys()


def shares(shape: tuple[int, ...], target: Target = TARGET, name: str = NAME) -> list[KeyShare]:
    sch = Schedule(suite.workload(name, shape))
    block = sch.get_block("peak")
    inline_producers(sch, block)
    chain = chain_of(node_of(sch, block))
    assert chain is not None
    return shares_of(chain, target)


def in_parts(func: PrimFunc, share: KeyShare) -> Schedule:
    sch = Schedule(func)
    block = sch.get_block("peak")
    inline_producers(sch, block)
    split_keys(sch, block, share)
    return sch


@pytest.mark.parametrize("shape", [(2, 64, 16), (3, 14, 6), (2, 6, 8), (1, 96, 12), (2, 5, 4)], ids=str)
def test_all_parts_compute_attention_without_races(shape: tuple[int, ...]) -> None:
    found = shares(shape)
    assert bool(found) == (shape != (2, 5, 4)), "no two parts divide five keys"
    inputs = suite.inputs(NAME, shape)
    expected = suite.reference(NAME, inputs, shape)
    for share in found:
        sch = in_parts(suite.workload(NAME, shape), share)
        assert_replays(sch, suite.workload(NAME, shape))
        assert postprocess(sch, TARGET)
        lowered = lower(sch.mod, TARGET)
        source = generate(lowered)
        assert len(source.kernels) == 2
        for way in (EmulatedProgram(lowered, source), lambda *arrays, program=lowered: run(program, *arrays)):
            out = np.full(expected.shape, 77, "float32")
            way(*inputs, out)
            np.testing.assert_allclose(out, expected, atol=1e-5)


def test_a_part_that_is_all_infinities_counts_nothing() -> None:
    """Its maximum is -infinity: its weights are zeros, not NaN."""
    shape = (1, 64, 8)
    query, key, value = suite.inputs(NAME, shape)
    query[:] = np.abs(query)
    key[:, 32:] = -np.inf
    lowered = lower(in_parts(suite.workload(NAME, shape), shares(shape)[0]).mod, TARGET)
    out = np.zeros((1, 1, 8), "float32")
    EmulatedProgram(lowered, generate(lowered))(query, key, value, out)
    seen = [query, key[:, :32], value[:, :32]]
    np.testing.assert_allclose(out, suite.reference(NAME, seen, (1, 32, 8)), atol=1e-5)


@pytest.mark.parametrize(
    "target", ["nvidia/nvidia-t4", "nvidia/nvidia-a100", "nvidia/geforce-rtx-4090", "nvidia/nvidia-h200"]
)
def test_parts_give_multiprocessors_a_few_blocks(target: str) -> None:
    device = Target(target)
    for heads, keys, dim in ((12, 2048, 64), (64, 8192, 128)):
        first, *_ = shares((heads, keys, dim), device)
        blocks = heads * keys // first.keys
        assert 2 <= blocks / device.multi_processor_count <= 8
        assert first.threads == 256
        assert postprocess(in_parts(suite.workload(NAME, (heads, keys, dim)), first), device)


def test_each_key_is_loaded_once_and_in_vectors() -> None:
    (kernel, _) = str(
        generate(
            lower(in_parts(suite.workload(NAME, (4, 128, 64)), shares((4, 128, 64))[0]).mod, TARGET)
        ).text
    ).split('extern "C"')[1:]
    assert kernel.count("load_vec<4>(key + ") == kernel.count("key + (") == 1
    assert kernel.count("value[") == 1


def test_several_queries_share_their_keys() -> None:
    assert not shares((2, 64, 16), name="attention")


def test_the_unfused_form_stays_in_the_space() -> None:
    func = suite.workload(NAME, (2, 64, 8))
    sketches = PostOrderApply().generate_sketches(func, TARGET)
    traces = [
        str(sketch.materialize(func, sketch.sample(1, np.random.default_rng(0))[0]).trace)
        for sketch in sketches
    ]
    split = ["rfactor_chain" in text and "run_chain" not in text for text in traces]
    assert any(split) and not all("rfactor_chain" in text for text in traces)


def test_what_is_no_attention_is_left_alone() -> None:
    for func in (chains.softmax(8, 16), chains.log_sum_exp(8, 16)):
        sch = Schedule(func)
        rule = SplitKeys()
        rule.initialize(TARGET)
        (kept,) = rule.offers(sch, sch.get_block("peak"))
        assert kept.mod.script() == sch.mod.script()


def test_a_block_without_a_chain_is_refused() -> None:
    x = te.placeholder((4, 8), "float32", name="x")
    k = te.reduce_axis((0, 8), "k")
    sch = Schedule(te.create_prim_func([x, te.compute((4,), lambda i: te.max(x[i, k], axis=k), name="peak")]))
    with pytest.raises(ScheduleError, match="SplitKeys: nothing that is summed up depends on block 'peak'"):
        split_keys(sch, sch.get_block("peak"), shares((2, 64, 8))[0])


@pytest.mark.parametrize("arguments", [{"threads": 0}, {"most_ways": 0}])
def test_numbers_are_positive(arguments: dict[str, int]) -> None:
    with pytest.raises(ScheduleError, match="SplitKeys: threads and most_ways must be positive"):
        SplitKeys(**arguments)
