"""AnnotateEntryFunc: the function that callers call is marked, where it is clear which that is."""

from ir import IRModule, assert_structural_equal, tir
from tests.programs.kernels import public_and_private


def test_the_only_public_function_is_the_entry():
    before = public_and_private()
    after = tir.transform.AnnotateEntryFunc()(before)
    assert_structural_equal(after["f"], before["f"].with_attr("tir.is_entry_func", True))
    assert after["g"] is before["g"]


def test_the_only_function_is_the_entry_though_it_is_private():
    after = tir.transform.AnnotateEntryFunc()(IRModule({"g": public_and_private()["g"]}))
    assert after["g"].attrs["tir.is_entry_func"]


def test_with_two_public_functions_nothing_is_marked():
    before = public_and_private()
    before.update_func("g", before["g"].with_attr("global_symbol", "g"))
    assert tir.transform.AnnotateEntryFunc()(before) is before
