"""A small form of the check's trial: broken kernels are refused, right candidates are not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from experiments.fuzz.verdict import Verdict
from experiments.kernel_mutants import __main__ as command
from experiments.kernel_mutants.__main__ import difference, items_of, main, mutant_of
from experiments.kernel_mutants.candidates import random_candidates
from experiments.kernel_mutants.kernels import large_names, module_of, names
from experiments.kernel_mutants.mutations import MUTATIONS, mutant, places
from experiments.operators.first_suite import WORKLOADS
from experiments.operators.suite import workload
from ir import structural_equal
from ir.script import from_source
from runners.verify import entry


def test_there_are_enough_kernels_and_kinds() -> None:
    assert len(names()) >= 43 and len(MUTATIONS) >= 20
    assert {"C2D", "attention", "take", "cumsum", "max_pool", "argmax", "dense_int8", "dense_bf16"} <= set(
        names()
    )


@pytest.mark.parametrize("name", ["relu", "dense_int8", "GMM"])
def test_mutants_differ_from_the_program_and_are_made_again_alike(name: str) -> None:
    items = [item for item in items_of([name], 1, 0) if item[1] != "only one call in two wrong"]
    assert len(items) >= 8 and items == [item for item in items_of([name], 1, 0) if item in items]
    for item in items:
        assert structural_equal(mutant_of(item), mutant_of(item))
        lines = difference(item).splitlines()
        assert any(line.startswith(("+ ", "+\t")) for line in lines[3:]), item


def test_every_kind_finds_a_place_somewhere() -> None:
    func = entry(
        from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 6), "int8"), U: T.Buffer((8, 6), "uint8"), F: T.Buffer((8, 6), "float32"), O: T.Buffer((8,), "float32")):
        M = T.alloc_buffer((8,), "float32")
        S = T.alloc_buffer((8,), "int32")
        for i, k in T.grid(8, 6):
            with T.block("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.float32("-inf")
                M[vi] = T.max(M[vi], F[vi, vk])
        for i, k in T.grid(8, 6):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = 0
                S[vi] = S[vi] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", U[vi, vk])
        for i in range(8):
            with T.block("O"):
                vi = T.axis.spatial(8, i)
                O[vi] = T.max(T.Select(M[vi] < T.float32(3), M[vi], T.float32(1.5)) - T.Cast("float32", S[vi]), T.float32(0))
""")
    )
    for mutation in MUTATIONS:
        found = places(func, mutation)
        assert found, mutation.name
        for place in found:
            assert not structural_equal(mutant(func, place), func), mutation.name


def test_candidates_are_different() -> None:
    made = list(random_candidates(module_of("GMM"), 3, 1))
    assert len(made) == 3 and not structural_equal(made[0], made[1])


def test_no_candidate_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "random_candidates", lambda *_: iter(()))
    assert main(["candidates", "--kernels", "relu", "--number", "5"]) == 1


def test_no_mutant_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "items_of", lambda *_: [])
    assert main(["mutants", "--kernels", "relu"]) == 1


@pytest.mark.parametrize("what", ["mutants", "candidates"])
def test_a_kernel_that_is_none_is_refused(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([what, "--kernels", "relu,foo"])
    assert "no kernel 'foo'; there are: " in capsys.readouterr().err


def test_wrong_kernels_are_refused(capfd: Any) -> None:
    status = main(["mutants", "--kernels", "relu,row_max,dense_int8,take", "--each", "1"])
    printed = capfd.readouterr().out
    found = re.search(r"(\d+) mutants, (\d+) that mean something: (\d+) refused", printed)
    assert status == 0 and found is not None, printed
    assert int(found[2]) > 40 and found[2] == found[3], printed


def test_right_kernels_are_accepted(capfd: Any) -> None:
    status = main(["candidates", "--kernels", "dense_relu,softmax", "--number", "8"])
    assert status == 0, capfd.readouterr().out


@pytest.mark.parametrize("name", large_names())
def test_a_large_kernel_has_the_shape_of_its_name(name: str) -> None:
    func = entry(module_of(name))
    first = func.buffer_map[func.params[0]]
    operator, dims = name.split(":")
    if operator in WORKLOADS:
        assert structural_equal(func, workload(operator, [int(dim) for dim in dims.split("x")]))
    else:
        assert "x".join(str(extent) for extent in first.shape) == dims
    assert operator in names() or operator == "CBR"


def test_large_kernels_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def judged(items: Any, *_: object) -> Any:
        asked.extend(items)
        return ((item, Verdict("ok", str(item[2]))) for item in items)

    monkeypatch.setattr(command, "judged_apart", judged)
    assert main(["candidates", "--large", "--number", "5"]) == 0
    assert [item[0] for item in asked] == large_names() and len(set(large_names())) == len(large_names())


@pytest.mark.parametrize("option", ["--each=-1", "--each=0", "--number=x", "--seed=-1"])
def test_numbers_that_are_none_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["mutants", option])
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .endswith(("is no number of at least 1", "a number of at least 0"))
    )


@pytest.mark.parametrize(
    ("what", "said"), [("mutants", "1 of 3 mutants, 1 that mean"), ("candidates", "7 candidates accepted")]
)
def test_ctrl_c_tells_what_is_counted(
    what: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(items: Any, *_: object) -> Any:
        yield items[0], Verdict("refused") if what == "mutants" else Verdict("ok", "7")
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "items_of", lambda *_: [("relu", MUTATIONS[0].name, 0, 0)] * 3)
    monkeypatch.setattr(command, "judged_apart", judged)
    assert main([what, "--kernels", "relu"]) == 130
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["candidates", "--each", "1"], "--each is an option of mutants, and says nothing of candidates"),
        (["candidates", "--show"], "--show is an option of mutants"),
        (["mutants", "--large"], "--large is an option of candidates, and says nothing of mutants"),
        (["mutants", "--kernels", "relu,SFM:512x512"], "takes too long for SFM:512x512"),
        (["mutants", "--number", "5"], "--number is an option of candidates, and says nothing of mutants"),
        (["mutants", "--go-on"], "--go-on is an option of candidates"),
    ],
)
def test_options_of_the_other_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err
