"""Libraries of models for CUDA devices, called by programs in C and C++ that know nothing but the header and the driver."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import runners
from ir import relax
from ir.script import ir as I
from ir.script import relax as R
from ir.script import tir as T
from tests.runners.cuda import programs
from tests.runners.cuda.c_programs import (
    NOTHING_HELD,
    ON_DEVICE,
    PRINT,
    Library,
    exported,
    exported_layer,
    floats,
    needs_c,
    run_c,
)

pytestmark = [pytest.mark.usefixtures("nvrtc"), needs_c]


@I.ir_module
class Counter:
    @T.prim_func(private=True)
    def increment(A: T.Buffer((32,), "float32")):
        for i in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("A"):
                vi = T.axis.spatial(32, i)
                A[vi] = A[vi] + T.float32(1)

    @R.function(pure=False)
    def count(inputs: R.Tensor((32,), "float32")) -> R.Tensor((32,), "float32"):
        R.func_attr({"global_symbol": "count"})
        cls = Counter
        y = R.call_tir_inplace(
            cls.increment, (inputs,), inplace_indices=[0], out_sinfo=R.Tensor((32,), "float32")
        )
        return y

    @R.function
    def total(a: R.Tensor((6,), "int32"), scale: R.Tensor((), "int32"), none: R.Tensor((0, 3), "float32")):
        R.func_attr({"global_symbol": "total"})
        with R.dataflow():
            s = R.sum(R.multiply(a, scale))
            e = R.add(none, none)
            out = (s, R.multiply(a, R.const([1, 2, 3, 4, 5, 6], "int32")), e)
            R.output(out)
        return out

    @R.function
    def grow(a: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        R.func_attr({"global_symbol": "grow"})
        return R.add(a, a)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture(scope="module")
def layer(folder, device_library) -> tuple[Library, np.ndarray, np.ndarray]:
    return exported_layer(folder)


@pytest.fixture(scope="module")
def counter(folder, device_library) -> Library:
    return exported(relax.build(Counter, programs.TARGET), folder, "counter-2")


# ---- calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler, flags", [("cc", ("-std=c99", "-Wpedantic")), ("c++", ("-Wpedantic",))])
def test_arrays_of_the_host(layer, compiler, flags):
    if shutil.which(compiler) is None:
        pytest.skip("needs a C++ compiler")
    library, x, expected = layer
    printed = run_c(
        library.folder,
        ["layer"],
        f"""read_x();
        loopsmith_layer *model;
        need(loopsmith_layer_create(0, &model), loopsmith_layer_last_error());
        for (int i = 0; i < 3; ++i) {{
          memset(y, 0, sizeof y);
          need(loopsmith_layer_run_main(model, x, y), loopsmith_layer_last_error());
        }}
        if (*loopsmith_layer_last_error()) return 5;
        size_t before = held();
        need(loopsmith_layer_destroy(model), loopsmith_layer_last_error());
        need(loopsmith_layer_destroy(NULL), loopsmith_layer_last_error());
        fprintf(stderr, "%zu\\n", before);
        if (before == 0 || held() != 0) return 6;
        {PRINT}""",
        compiler=compiler,
        flags=flags,
    )
    found = floats(printed).reshape(8, 32)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    machine = runners.VirtualMachine(library.executable, runners.cuda())
    np.testing.assert_array_equal(found, machine["main"](x).numpy())


def test_arrays_of_the_device_on_a_stream(layer):
    library, _, expected = layer
    printed = run_c(
        library.folder,
        ["layer"],
        f"""{ON_DEVICE}
        size_t before = held();
        need(loopsmith_layer_launch_main(model, (const float *)given, (float *)made, stream), loopsmith_layer_last_error());
        if (call1("cuStreamQuery", stream) != 600) return 6; /* nobody waits */
        const void *const inputs[] = {{given}};
        void *const outputs[] = {{made}};
        need(loopsmith_layer_launchv_main(model, inputs, outputs, space, stream), loopsmith_layer_last_error());
        if (held() != before) return 7; /* a launch allocates nothing */
        need(call1("cuStreamSynchronize", stream), "wait");
        need(call3("cuMemcpyDtoH_v2", y, made, sizeof y), "copy");
        need(loopsmith_layer_destroy(model), loopsmith_layer_last_error());
        if (held() != before - 3) return 8; /* its memory, its module, its use of the context */
        {PRINT}""",
    )
    np.testing.assert_allclose(floats(printed).reshape(8, 32), expected, rtol=1e-5, atol=1e-6)


def test_launches_can_be_captured(layer):
    library, _, expected = layer
    printed = run_c(
        library.folder,
        ["layer"],
        f"""{ON_DEVICE}
        void *graph, *replay;
        (void)space;
        need(call2("cuStreamBeginCapture_v2", stream, 0), "capture");
        need(loopsmith_layer_launch_main(model, (const float *)given, (float *)made, stream), loopsmith_layer_last_error());
        need(call2("cuStreamEndCapture", stream, (size_t)&graph), "end");
        need(call3("cuGraphInstantiateWithFlags", &replay, graph, 0), "instantiate");
        need(call2("cuGraphLaunch", replay, (size_t)stream), "replay");
        need(call1("cuStreamSynchronize", stream), "wait");
        need(call3("cuMemcpyDtoH_v2", y, made, sizeof y), "copy");
        need(loopsmith_layer_destroy(model), loopsmith_layer_last_error());
        {PRINT}""",
    )
    np.testing.assert_allclose(floats(printed).reshape(8, 32), expected, rtol=1e-5, atol=1e-6)


def test_two_models_in_one_program(layer, counter):
    library, _, expected = layer
    printed = run_c(
        library.folder,
        ["layer", "counter-2"],
        f"""read_x();
        loopsmith_layer *model, *again;
        loopsmith_counter_2 *other;
        float numbers[32] = {{0}}, nothing[1];
        int32_t a[] = {{1, 2, 3, 4, 5, 6}}, scale = 10, sum, products[6];
        need(loopsmith_layer_create(0, &model), loopsmith_layer_last_error());
        need(loopsmith_counter_2_create(0, &other), loopsmith_counter_2_last_error());
        need(loopsmith_layer_create(1, &again), loopsmith_layer_last_error());
        need(loopsmith_counter_2_run_count(other, numbers), loopsmith_counter_2_last_error());
        need(loopsmith_layer_run_main(again, x, y), loopsmith_layer_last_error());
        need(loopsmith_counter_2_run_count(other, numbers), loopsmith_counter_2_last_error());
        need(loopsmith_layer_run_main(model, x, y), loopsmith_layer_last_error());
        need(loopsmith_counter_2_run_total(other, a, &scale, nothing, &sum, products, nothing), loopsmith_counter_2_last_error());
        if (loopsmith_layer_run_main(NULL, x, y) == 0 || *loopsmith_counter_2_last_error()) return 5;
        need(loopsmith_layer_destroy(again), loopsmith_layer_last_error());
        need(loopsmith_counter_2_destroy(other), loopsmith_counter_2_last_error());
        need(loopsmith_layer_destroy(model), loopsmith_layer_last_error());
        if (held() != 0) return 6;
        printf("%g %g %d", (double)numbers[0], (double)numbers[31], sum);
        for (int i = 0; i < 6; ++i) printf(" %d", products[i]);
        puts("");
        {PRINT}""",
    )
    first, _, rest = printed.partition("\n")
    assert first == "2 2 210 1 4 9 16 25 36"
    np.testing.assert_allclose(floats(rest).reshape(8, 32), expected, rtol=1e-5, atol=1e-6)


def test_threads_with_workspaces_of_their_own(layer):
    library, _, expected = layer
    above = """
static loopsmith_layer *shared;
static void *context_of_all, *given_to_all;
static float results[4][8 * 32];
static void *work(void *number) {
  void *made, *space, *stream;
  float *result = (float *)number;
  if (call1("cuCtxSetCurrent", context_of_all) || call2("cuMemAlloc_v2", &made, sizeof results[0])) return (void *)1;
  if (call2("cuMemAlloc_v2", &space, LOOPSMITH_LAYER_WORKSPACE_BYTES_MAIN) || call2("cuStreamCreate", &stream, 1)) return (void *)2;
  const void *const inputs[] = {given_to_all};
  void *const outputs[] = {made};
  for (int i = 0; i < 20; ++i)
    if (loopsmith_layer_launchv_main(shared, inputs, outputs, space, stream)) return (void *)3;
  if (call1("cuStreamSynchronize", stream) || call3("cuMemcpyDtoH_v2", result, made, sizeof results[0])) return (void *)4;
  if (loopsmith_layer_launch_main(shared, NULL, NULL, stream) != LOOPSMITH_LAYER_INVALID_ARGUMENT) return (void *)5;
  return strstr(loopsmith_layer_last_error(), "array x is NULL") ? NULL : (void *)6;
}
"""
    printed = run_c(
        library.folder,
        ["layer"],
        f"""{ON_DEVICE}
        shared = model, context_of_all = context, given_to_all = given;
        (void)made; (void)space;
        pthread_t threads[4];
        for (int i = 0; i < 4; ++i)
          if (pthread_create(&threads[i], NULL, work, results[i])) return 6;
        for (int i = 0; i < 4; ++i) {{
          void *failed;
          if (pthread_join(threads[i], &failed) || failed) {{ printf("%p\\n", failed); return 7; }}
        }}
        if (*loopsmith_layer_last_error()) return 8; /* errors of other threads are theirs */
        need(loopsmith_layer_destroy(model), loopsmith_layer_last_error());
        for (int i = 0; i < 4 * 8 * 32; ++i) printf("%.9g\\n", (double)results[i / 256][i % 256]);""",
        above=above,
    )
    for found in floats(printed).reshape(4, 8, 32):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_nothing_of_the_host_is_lost(layer):
    library, *_ = layer
    probe = subprocess.run(
        ["cc", "-fsanitize=leak", "-x", "c", "-", "-o", "probe"],
        input="int main(void) { return 0; }",
        cwd=library.folder,
        text=True,
        capture_output=True,
    )
    if probe.returncode or subprocess.run([library.folder / "probe"], capture_output=True).returncode:
        pytest.skip("needs gcc's leak sanitizer")
    lost = """{ char *lost = (char *)malloc(12345); lost[0] = 1; x[0] = lost[0]; }"""
    body = """loopsmith_layer *model;
        for (int i = 0; i < 5; ++i) {
          need(loopsmith_layer_create(0, &model), loopsmith_layer_last_error());
          need(loopsmith_layer_run_main(model, x, y), loopsmith_layer_last_error());
          need(loopsmith_layer_destroy(model), loopsmith_layer_last_error());
          if (loopsmith_layer_create(9, &model) == 0) return 5;
        }
        """
    flags = ("-std=c99", "-fsanitize=leak", "-O0")
    run_c(library.folder, ["layer"], body, flags=flags)
    with pytest.raises(AssertionError, match="12345 byte"):
        run_c(library.folder, ["layer"], body + lost + "memset(y, 0, sizeof y); model = NULL;", flags=flags)


# ---- other devices ---------------------------------------------------------------------------------------------

CREATE = """loopsmith_layer *model = (loopsmith_layer *)&x;
  int32_t status = loopsmith_layer_create({device}, &model);
  tell(status, loopsmith_layer_last_error());
  if (status == 0 || model != NULL) return 5;
"""


def test_without_a_driver_the_library_is_loaded_and_says_so(layer):
    folder = layer[0].folder
    create = CREATE.format(device=0)
    said = run_c(folder, ["layer"], create, LOOPSMITH_CUDA_DRIVER="libcuda-of-nobody.so")
    assert said.startswith("-1 loopsmith_layer: no CUDA driver: libcuda-of-nobody.so: cannot open")
    assert "install NVIDIA's driver" in said and "LOOPSMITH_CUDA_DRIVER" in said
    said = run_c(folder, ["layer"], create, LOOPSMITH_CUDA_DRIVER="libm.so.6")
    assert "the CUDA driver at libm.so.6 has no function cuLaunchKernel; install one of CUDA 11.4" in said


def test_the_driver_of_the_system_is_meant_where_none_is_named(layer):
    """Whether there is one or not: the name that is asked for."""
    folder = layer[0].folder
    (folder / "libcuda.so.1").symlink_to(os.environ["LOOPSMITH_CUDA_DRIVER"])
    body = "loopsmith_layer *model; need(loopsmith_layer_create(0, &model), loopsmith_layer_last_error());"
    run_c(folder, ["layer"], body, LOOPSMITH_CUDA_DRIVER="", LD_LIBRARY_PATH=str(folder))


@pytest.mark.parametrize("device", [7, -1])
def test_a_device_that_is_not_there(layer, device):
    said = run_c(layer[0].folder, ["layer"], CREATE.format(device=device) + NOTHING_HELD)
    assert said == (
        f"101 loopsmith_layer: cuDeviceGet of device {device}: CUDA_ERROR_INVALID_DEVICE (CUDA error 101:"
        " CUDA_ERROR_INVALID_DEVICE)\n"
    )


def test_no_device_at_all(layer):
    said = run_c(layer[0].folder, ["layer"], CREATE.format(device=0), LOOPSMITH_STAND_IN_DEVICES="0")
    assert said.startswith("100 loopsmith_layer: cuInit: CUDA_ERROR_NO_DEVICE")


def test_a_newer_device_gets_the_ptx(layer):
    library, _, expected = layer
    body = f"""read_x();
        loopsmith_layer *model;
        need(loopsmith_layer_create(0, &model), loopsmith_layer_last_error());
        if (*loopsmith_layer_last_error()) return 5;
        need(loopsmith_layer_run_main(model, x, y), loopsmith_layer_last_error());
        {PRINT}"""
    for capability in ("86", "90"):  # the cubin runs on the first
        printed = run_c(library.folder, ["layer"], body, LOOPSMITH_STAND_IN_CAPABILITY=capability)
        np.testing.assert_allclose(floats(printed).reshape(8, 32), expected, rtol=1e-5, atol=1e-6)
    for path in (library.folder / "images").glob("*.ptx"):
        path.rename(path.with_suffix(".hidden"))
    try:
        run_c(library.folder, ["layer"], body, LOOPSMITH_STAND_IN_CAPABILITY="86")
        with pytest.raises(AssertionError, match="200 .*cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE"):
            run_c(library.folder, ["layer"], body, LOOPSMITH_STAND_IN_CAPABILITY="90")
    finally:
        for path in (library.folder / "images").glob("*.hidden"):
            path.rename(path.with_suffix(".ptx"))


def test_an_older_device_is_refused_by_name(layer):
    said = run_c(
        layer[0].folder,
        ["layer"],
        CREATE.format(device=1) + NOTHING_HELD,
        LOOPSMITH_STAND_IN_CAPABILITY="75",
    )
    assert said.startswith("218 loopsmith_layer: cuModuleLoadData: CUDA_ERROR_INVALID_PTX (CUDA error 218:")
    assert said.endswith(
        "the model was built for sm_80, and device 1 (loopsmith stand-in) is an sm_75, which runs neither its code nor its PTX: build it"
        " for this device\n"
    )


def test_a_device_without_memory(layer):
    said = run_c(
        layer[0].folder,
        ["layer"],
        CREATE.format(device=0) + NOTHING_HELD,
        LOOPSMITH_STAND_IN_BYTES="4095",
    )
    assert re.match(
        r"2 loopsmith_layer: cuMemAlloc of \d+ bytes for constants and workspace: CUDA_ERROR_OUT_OF_MEMORY",
        said,
    )
    body = """loopsmith_layer *model;
        need(loopsmith_layer_create(0, &model), loopsmith_layer_last_error());
        tell(loopsmith_layer_run_main(model, x, y), loopsmith_layer_last_error());
        need(loopsmith_layer_destroy(model), loopsmith_layer_last_error());"""
    said = run_c(layer[0].folder, ["layer"], body + NOTHING_HELD, LOOPSMITH_STAND_IN_BYTES="8191")
    assert "bytes for copies of the host's arrays: CUDA_ERROR_OUT_OF_MEMORY" in said


# ---- Hopper ----------------------------------------------------------------------------------------------------


@I.ir_module
class Products:
    @R.function
    def main(
        x: R.Tensor((128, 64), "float16"), w: R.Tensor((64, 64), "float16"), v: R.Tensor((64, 128), "float16")
    ) -> R.Tensor((128, 128), "float16"):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.matmul(R.nn.relu(y), v)
            R.output(z)
        return z


def test_tensor_maps_are_made_by_the_driver(tmp_path, device_library):
    library = exported(relax.build(Products, "nvidia/nvidia-h200"), tmp_path, "products")
    assert "CUtensorMap" in library.executable.source()
    generator = np.random.default_rng(0)
    shapes = ((128, 64), (64, 64), (64, 128))
    x, w, v = (generator.standard_normal(shape).astype("float16") for shape in shapes)
    np.concatenate([item.ravel() for item in (x, w, v)]).tofile(tmp_path / "given.bin")
    run_c(
        tmp_path,
        ["products"],
        """FILE *file = fopen("given.bin", "rb");
        if (!file || fread(given, 2, 20480, file) != 20480) return 4;
        fclose(file);
        loopsmith_products *model;
        need(loopsmith_products_create(0, &model), loopsmith_products_last_error());
        need(loopsmith_products_run_main(model, given, given + 8192, given + 12288, found), loopsmith_products_last_error());
        need(loopsmith_products_destroy(model), loopsmith_products_last_error());
        file = fopen("found.bin", "wb");
        if (!file || fwrite(found, 2, 16384, file) != 16384) return 4;
        fclose(file);""",
        above="static uint16_t given[20480], found[16384];",
        LOOPSMITH_STAND_IN_CAPABILITY="90",
    )
    found = np.fromfile(tmp_path / "found.bin", "float16").reshape(128, 128)
    machine = runners.VirtualMachine(library.executable, runners.cuda())
    np.testing.assert_array_equal(found, machine["main"](x, w, v).numpy())


# ---- headers ---------------------------------------------------------------------------------------------------


def test_the_header_describes_functions(layer, counter):
    text = layer[0].header
    assert "The kernels are code for sm_80;" in text
    assert "   input  x: float32[8][16]\n   output output0: float32[8][32] */\n" in text
    text = counter.header
    assert "loopsmith_counter_2_run_count(loopsmith_counter_2 *model, float *inputs_) {" in text
    assert "   input  inputs_: float32[32], which is overwritten */" in text
    assert "   input  scale: int32\n   input  none: float32[0][3]\n" in text
    assert "/* grow is bytecode, for its shapes are not static: it runs in Python only. */" in text
    assert "_launch_grow" not in text and "LOOPSMITH_COUNTER_2_WORKSPACE_BYTES_TOTAL" in text


def test_a_model_without_kernels(tmp_path, device_library):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return x

    library = exported(relax.build(Module, programs.TARGET), tmp_path, "same")
    assert "The model has no kernels." in library.header
    body = """float row[4];
      loopsmith_same *model;
      need(loopsmith_same_create(0, &model), loopsmith_same_last_error());
      need(loopsmith_same_run_main(model, row), loopsmith_same_last_error());
      need(loopsmith_same_destroy(model), loopsmith_same_last_error());"""
    run_c(tmp_path, ["same"], body + NOTHING_HELD)
