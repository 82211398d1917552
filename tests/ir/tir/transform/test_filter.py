"""Filter: functions for which a condition does not hold go."""

from ir import tir
from tests.programs.kernels import public_and_private


def test_functions_are_chosen():
    before = public_and_private()
    after = tir.transform.Filter(lambda func: "global_symbol" in func.attrs)(before)
    assert [var.name_hint for var in after.functions] == ["f"] and after["f"] is before["f"]
    assert tir.transform.Filter(lambda func: True)(before) is before
