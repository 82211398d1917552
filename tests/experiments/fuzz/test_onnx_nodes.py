"""ONNX's node tests, imported, built and run: none of those that import is wrong, and the runner sees it where one is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("onnx")

from experiments.fuzz.onnx_nodes import REFUSED, judge_case, judged, main, node_cases

REPRESENTATIVE = (
    "^test_(add|mod_float_edge|div_bcast|pow|bitshift_(left|right)_int32|clip_min_greater|sign|max_float16"
    "|reduce_(max|min|prod|log_sum_exp|sum)_empty_set|argmax_no_keepdims_random|matmul_bcast|gemm_default_zero|conv_with_strides_p"
    "|convtranspose$|maxpool_2d_pads|averagepool_2d_ceil|resize_upsample_sizes_nearest|reshape_allowzero|slice_negative|gather_negative"
    "|gathernd|scatternd_add|softmax_axis_1|layer_normalization_2d|quantizelinear_axis|cast_FLOAT_to_INT4|shape_start_1|topk_uint64"
    "|attention_(4d_causal_bf16|23_boolmask)|bernoulli|loop11)"
)
FINE = ("ok", REFUSED)


def test_a_representative_part() -> None:
    pairs = judged(list(node_cases(REPRESENTATIVE)), 2)
    assert [(case.name, str(verdict)) for case, verdict in pairs if verdict.kind not in FINE] == []
    kinds = [verdict.kind for _, verdict in pairs]
    assert kinds.count("ok") > 50 and kinds.count(REFUSED) >= 1


_PARTS = 4
"""Parts that workers share."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_all_operators(part: int) -> None:
    """Every other test of each operator; every eighth of what expands one into others, which have tests of their own. The command runs
    all."""
    cases = list(node_cases())
    own = [case for case in cases if "expanded" not in case.name]
    expanded = [case for case in cases if "expanded" in case.name]
    pairs = judged((own[::2] + expanded[::8])[part::_PARTS], 1)
    assert [(case.name, str(verdict)) for case, verdict in pairs if verdict.kind not in FINE] == []
    assert sum(verdict.kind == "ok" for _, verdict in pairs) > 500 // _PARTS


def test_wrong_results_shapes_and_dtypes_are_seen() -> None:
    (case,) = node_cases("^test_add$")
    (expected,) = case.outputs
    assert judge_case(case).kind == "ok"
    for outputs, message in (
        ([expected + 1], "60 of 60 differ"),
        ([expected[0]], "expected float32(4, 5)"),
        ([expected.astype(np.float64)], "expected float64"),
        ([expected, expected], "1 outputs, 2 expected"),
    ):
        verdict = judge_case(replace(case, outputs=outputs))
        assert verdict.kind == "wrong" and message in verdict.detail


def test_the_command_counts_and_names_failures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--match", "^test_(abs|loop11)$", "--processes", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Loop" in lines[0] and lines[-1] in ("1 ok, 1 does not import", "1 does not import, 1 ok")
