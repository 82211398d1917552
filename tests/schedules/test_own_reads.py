"""What blocks touch beside what they state: loads around them by another name, and what a reduction reads of its own result."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ir.script import from_source
from schedules import Schedule, ScheduleError
from tests.schedules.checks import assert_same_meaning

_VIEWED = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    {view}
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi] + 1
        for i in range(16):
          for j in {extent}:
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                vj = T.axis.opaque(16, {value})
                T.where({predicate})
                C[vi] = A[vj] * 2
"""
_VIEWS = {
    "match_buffer": 'with T.block("outer"):\n        V = T.match_buffer(B[0:16], (16,), "int32")',
    "decl_buffer": 'V = T.decl_buffer((16,), "int32", data=B.data)\n    if True:',
}
_LOADS = {
    "predicate": {"predicate": "V[i] > 0"},
    "binding": {"value": "T.max(V[i], 0)"},
    "extent": {"extent": "range(T.max(V[i], 0))"},
}


@pytest.mark.parametrize("view", _VIEWS)
@pytest.mark.parametrize("load", _LOADS)
def test_loads_of_a_view_around_a_block_see_what_is_written(view: str, load: str) -> None:
    parts = {"extent": "range(1)", "value": "j", "predicate": "i < 16"} | _LOADS[load]
    program = from_source(_VIEWED.format(view=_VIEWS[view], **parts))
    with pytest.raises(ScheduleError, match="touches memory that is both B and V"):
        Schedule(program).cache_write("B", 0, "global")


def test_a_loop_whose_guard_loads_a_view_of_what_it_writes_is_not_parallel() -> None:
    program = from_source(
        """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    with T.block("outer"):
        V = T.match_buffer(C[0:16], (16,), "int32")
        for i in range(15):
            with T.block("C"):
                vi = T.axis.spatial(16, i)
                T.where(V[i] > 0)
                C[vi + 1] = A[vi] * 2
"""
    )
    for kind in ("parallel", "vectorize"):
        sch = Schedule(program)
        with pytest.raises(ScheduleError, match="touches memory that is both C and V"):
            getattr(sch, kind)(sch.get_loops("C")[0])


def _reading(index: str) -> Schedule:
    """A reduction that reads another element of its result, too."""
    return Schedule(
        from_source(
            f"""
@T.prim_func
def main(A: T.Buffer((16, 8), "int32"), C: T.Buffer((16,), "int32")):
    for i, k in T.grid(16, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk] * C[{index}]
"""
        )
    )


OWN_READS: dict[str, Callable[[Schedule], object]] = {
    "cache_write": lambda sch: sch.cache_write("C", 0, "global"),
    "write_at": lambda sch: sch.write_at(sch.get_loops("C")[0], "C", 0, "global"),
    "rfactor": lambda sch: sch.rfactor(sch.get_loops("C")[1], 0),
    "decompose_reduction": lambda sch: sch.decompose_reduction("C", sch.get_loops("C")[0]),
    "blockize": lambda sch: sch.blockize(sch.get_loops("C")[0]),
}


@pytest.mark.parametrize("step", OWN_READS)
@pytest.mark.parametrize("index", ["15 - vi", "T.max(vi - 1, 0)"])
def test_a_reduction_that_reads_other_elements_of_its_result_keeps_its_order(index: str, step: str) -> None:
    with pytest.raises(ScheduleError, match="reads elements"):
        OWN_READS[step](_reading(index))


@pytest.mark.parametrize("primitive", ["decompose_reduction", "blockize"])
def test_such_a_reduction_begins_where_only_its_sum_runs(primitive: str) -> None:
    sch = _reading("15 - vi")
    before = sch.mod["main"]
    loop = sch.get_loops("C")[1]
    sch.blockize(loop) if primitive == "blockize" else sch.decompose_reduction("C", loop)
    assert_same_meaning(before, sch)


_OTHER_NAME = """
@T.prim_func
def main(A: T.Buffer((8, 4), "int32"), C: T.Buffer((9,), "int32")):
    {view}
        for i, k in T.grid(8, 4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    V[vi] = C[vi + 1]
                V[vi] = V[vi] + A[vi, vk]
"""


@pytest.mark.parametrize("view", _VIEWS)
def test_a_reduction_that_begins_with_its_own_memory_by_another_name_keeps_its_order(view: str) -> None:
    source = _OTHER_NAME.format(
        view=_VIEWS[view].replace("B[0:16], (16,)", "C[0:8], (8,)").replace("(16,)", "(8,)")
    )
    steps: list[Callable[[Schedule], object]] = [
        lambda sch: sch.reorder(*reversed(sch.get_loops("C"))),
        lambda sch: sch.parallel(sch.get_loops("C")[0]),
        lambda sch: sch.decompose_reduction("C", sch.get_loops("C")[0]),
        lambda sch: sch.rfactor(sch.get_loops("C")[1], 0),
        lambda sch: sch.blockize(sch.get_loops("C")[0]),
    ]
    for step in steps:
        sch = Schedule(from_source(source.replace("data=B.data", "data=C.data")))
        with pytest.raises(ScheduleError, match="C and V|V and C|reads elements"):
            step(sch)
