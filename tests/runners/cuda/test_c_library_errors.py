"""What libraries of models for CUDA devices say of wrong arguments, of kernels that fail, and of devices that are too small."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ir import IRModule, relax
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from tests.runners.cuda import programs
from tests.runners.cuda.c_programs import ON_DEVICE, Library, exported, exported_layer, needs_c, run_c

pytestmark = [pytest.mark.usefixtures("nvrtc"), needs_c]


@pytest.fixture(scope="module")
def layer(tmp_path_factory, device_library) -> tuple[Library, np.ndarray, np.ndarray]:
    return exported_layer(tmp_path_factory.mktemp("libraries"))


def test_wrong_arguments_are_named(layer):
    library, *_ = layer
    said = run_c(
        library.folder,
        ["layer"],
        f"""{ON_DEVICE}
        const char *far = (const char *)given;
        const void *const inputs[] = {{given}};
        void *const outputs[] = {{made}};
        const char *(*text)(void) = loopsmith_layer_last_error;
        int32_t status;
        #define TELL(call) status = call, tell(status, text())
        TELL(loopsmith_layer_create(0, NULL));
        TELL(loopsmith_layer_launch_main(NULL, (float *)given, (float *)made, stream));
        TELL(loopsmith_layer_launch_main(model, NULL, (float *)made, stream));
        TELL(loopsmith_layer_launch_main(model, (const float *)(far + 4), (float *)made, stream));
        TELL(loopsmith_layer_run_main(model, x, NULL));
        TELL(loopsmith_layer_launchv_main(model, NULL, outputs, NULL, stream));
        TELL(loopsmith_layer_runv_main(model, inputs, NULL));
        TELL(loopsmith_layer_launchv_main(model, inputs, outputs, (char *)space + 16, stream));
        need(loopsmith_layer_destroy(model), text());""",
    )
    patterns = [
        "-2 loopsmith_layer: create: the place for the model object is NULL",
        "-2 loopsmith_layer: main: the model object is NULL",
        "-2 loopsmith_layer: main: array x is NULL",
        "-2 loopsmith_layer: main: x begins at 0x[0-9a-f]+4, which is no multiple of 16 bytes",
        "-2 loopsmith_layer: main: array output0 is NULL",
        "-2 loopsmith_layer: main: the table of inputs is NULL",
        "-2 loopsmith_layer: main: the table of outputs is NULL",
        "-2 loopsmith_layer: main: the workspace begins at 0x[0-9a-f]+10, which is no multiple of 256 bytes",
    ]
    lines = said.splitlines()
    assert len(lines) == len(patterns)
    for line, pattern in zip(lines, patterns):
        assert re.fullmatch(pattern, line), line


def test_a_kernel_that_fails_is_told_by_later_calls_and_all_is_freed(layer):
    library, *_ = layer
    said = run_c(
        library.folder,
        ["layer"],
        f"""{ON_DEVICE}
        float *nowhere = (float *)(uintptr_t)4096;
        (void)space; (void)given;
        size_t before = held();
        need(loopsmith_layer_launch_main(model, nowhere, (float *)made, stream), loopsmith_layer_last_error());
        if (call1("cuStreamSynchronize", stream) != 700) return 6;
        tell(loopsmith_layer_launch_main(model, nowhere, (float *)made, stream), loopsmith_layer_last_error());
        tell(loopsmith_layer_run_main(model, x, y), loopsmith_layer_last_error());
        tell(loopsmith_layer_destroy(model), loopsmith_layer_last_error());
        if (held() != before - 3) return 7;""",
    )
    launched, copied, destroyed = said.splitlines()
    assert re.match(
        r"700 loopsmith_layer: launch of kernel \w*matmul\w*: CUDA_ERROR_ILLEGAL_ADDRESS", launched
    )
    assert re.match(r"700 loopsmith_layer: cuMemAlloc of \d+ bytes for copies .*: CUDA_ERROR_ILLEGAL", copied)
    assert destroyed.startswith("700 loopsmith_layer: destroy: CUDA_ERROR_ILLEGAL_ADDRESS")


def _with_shared_memory(extent: int) -> IRModule:
    """A model whose kernel turns a row round through dynamic shared memory of so many floats."""

    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def turn(A: T.Buffer((extent,), "float32"), B: T.Buffer((extent,), "float32")):
            S = T.alloc_buffer((extent,), "float32", scope="shared.dyn")
            for b in T.thread_binding(1, thread="blockIdx.x"):
                for i in T.thread_binding(64, thread="threadIdx.x"):
                    for j in range(extent // 64):
                        with T.block("S"):
                            vi = T.axis.spatial(extent, i * (extent // 64) + j)
                            S[vi] = A[vi]
                for i in T.thread_binding(64, thread="threadIdx.x"):
                    for j in range(extent // 64):
                        with T.block("B"):
                            vi = T.axis.spatial(extent, i * (extent // 64) + j)
                            B[vi] = S[extent - 1 - vi]

        @R.function
        def main(x: R.Tensor((extent,), "float32")) -> R.Tensor((extent,), "float32"):
            cls = Module
            with R.dataflow():
                y = R.call_tir(cls.turn, (x,), R.Tensor((extent,), "float32"))
                R.output(y)
            return y

    return Module


_TURN = """static float row[50000], turned[50000];
  for (int i = 0; i < LENGTH; ++i) row[i] = (float)i;
  loopsmith_turn *model;
  int32_t status = loopsmith_turn_create(0, &model);
  if (status) { tell(status, loopsmith_turn_last_error()); return held() != 0; }
  need(loopsmith_turn_run_main(model, row, turned), loopsmith_turn_last_error());
  for (int i = 0; i < LENGTH; ++i) if (turned[i] != (float)(LENGTH - 1 - i)) return 7;
  need(loopsmith_turn_destroy(model), loopsmith_turn_last_error());
"""


def test_shared_memory_that_launches_must_be_allowed(tmp_path, device_library):
    made = relax.build(_with_shared_memory(24 << 10), programs.TARGET, pipeline=None)
    assert made.device_code.kernels[0]["dynamic_shared_bytes"] == 96 << 10
    exported(made, tmp_path, "turn")
    assert run_c(tmp_path, ["turn"], _TURN, above="enum { LENGTH = 24 << 10 };") == ""


def test_more_shared_memory_than_the_device_has(tmp_path, device_library):
    made = relax.build(_with_shared_memory(50 << 10), "nvidia/h200", pipeline=None)
    exported(made, tmp_path, "turn")
    above = "enum { LENGTH = 48 << 10 };"
    said = run_c(tmp_path, ["turn"], _TURN, above=above, LOOPSMITH_STAND_IN_CAPABILITY="90")
    newer = run_c(tmp_path, ["turn"], _TURN, above=above, LOOPSMITH_STAND_IN_CAPABILITY="100")
    assert "was built for sm_90a, and device 0 (loopsmith stand-in) is an sm_100" in newer
    assert re.match(
        r"1 loopsmith_turn: kernel turn_\w*kernel asks for 204800 bytes of shared memory, and the device has 166912 for a block",
        said,
    )


def test_a_check_of_the_host_s_code(tmp_path, device_library):
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def copy(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int64):
            assert n > 3, "n is too small"
            for i in T.thread_binding(64, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(64, i)
                    B[vi] = A[vi]

        @R.function
        def main(x: R.Tensor((64,), "float32")) -> R.Tensor((64,), "float32"):
            cls = Module
            with R.dataflow():
                y = R.call_tir(cls.copy, (x,), R.Tensor((64,), "float32"), tir_vars=R.shape([2]))
                R.output(y)
            return y

    exported(relax.build(Module, programs.TARGET, pipeline=None), tmp_path, "few")
    said = run_c(
        tmp_path,
        ["few"],
        """loopsmith_few *model;
        need(loopsmith_few_create(0, &model), loopsmith_few_last_error());
        if (loopsmith_few_run_main(model, x, y) != LOOPSMITH_FEW_HOST_CODE_FAILED) return 5;
        puts(loopsmith_few_last_error());
        need(loopsmith_few_destroy(model), loopsmith_few_last_error());""",
    )
    assert said == "loopsmith_few: main: assertion failed: n is too small\n"
