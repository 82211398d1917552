"""Built kernels as bytes: programs, code and what the check needs."""

from __future__ import annotations

import numpy as np
import pytest

from ir import structural_equal
from ir.codegen.container import ContainerError, pack, unpack
from ir.codegen.error import CodegenError
from runners.kernel import Kernel
from runners.kernel_code import ProgramText, ProgramTexts, digest, packed_kernel, unpacked_kernel
from runners.native import build_native
from tests.programs.nodes import matmul
from tests.runners.builds import interpreted


@pytest.fixture(scope="module")
def native() -> Kernel:
    mod = matmul(3, 4, 5)
    return Kernel(mod, build_native(mod, "cpu"))


def _matrices() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype("float32") for shape in ((3, 5), (5, 4)))
    return [a, b, np.zeros((3, 4), "float32")]


def test_a_kernel_of_the_processor(native: Kernel) -> None:
    found = unpacked_kernel(packed_kernel(native))
    assert structural_equal(found.mod, native.mod)
    assert found.metrics == native.metrics
    a, b, out = _matrices()
    found.load(1.0)
    found.call(a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_a_kernel_is_not_loaded_before_it_is_called(native: Kernel) -> None:
    """What another machine's processor runs is read here, and not run."""
    mod = matmul(3, 4, 5)
    foreign = Kernel(mod, build_native(mod, "llvm -mtriple=aarch64-linux-gnu"))
    found = unpacked_kernel(packed_kernel(foreign))
    assert found.metrics["code_size"] > 0
    with pytest.raises(CodegenError):
        found.load(1.0)


def test_what_a_user_builds_has_no_bytes() -> None:
    mod = matmul(3, 4, 5)
    with pytest.raises(CodegenError, match="without f_build"):
        packed_kernel(Kernel(mod, interpreted(mod, "cpu")))


def test_forged_kernels_are_errors(native: Kernel) -> None:
    described, sections = unpack(packed_kernel(native))
    for forged in (
        pack({**described, "kind": "shell"}, sections),
        pack({**described, "threads": None}, sections),
        pack({"kind": "native"}, sections),
        pack(described, sections[:1]),
        pack(described, [b"{}", sections[1]]),
        pack(described, [b"\xff", sections[1]]),
        pack(described, [sections[0], b"code"]),
        pack({**described, "kind": "cuda"}, sections),
        pack({**described, "kind": ["native"]}, sections),
    ):
        with pytest.raises(ContainerError):
            unpacked_kernel(forged)


def test_names_of_contents() -> None:
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_text_is_that_of_the_program_and_not_of_one_that_had_its_place_in_memory() -> None:
    texts, first, second = ProgramTexts(), matmul(3, 4, 5), matmul(5, 4, 3)
    told = texts.of(first)
    assert texts.of(first) is told and texts.of(told) is told
    texts._found[id(second)] = (first, told)  # as where the number of an object that has gone is given again
    assert texts.of(second) == ProgramText.of(second) != told


def test_few_texts_are_kept() -> None:
    texts = ProgramTexts()
    for _ in range(2 * texts._KEPT):
        texts.of(matmul(1, 1, 1))
    assert len(texts._found) == texts._KEPT
