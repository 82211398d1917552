"""Apply: a function of Python becomes a pass."""

from ir import tir
from tests.programs.kernels import public_and_private


def test_every_function_is_given_to_it():
    before = public_and_private()
    after = tir.transform.Apply(lambda func: func.with_attr("tag", 1))(before)
    assert all(func.attrs["tag"] == 1 for func in after.functions.values())
    assert "tag" not in before["f"].attrs
    assert tir.transform.Apply(lambda func: func)(before) is before
