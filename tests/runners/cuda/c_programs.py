"""Programs in C and C++ that call libraries of models for CUDA devices; they know nothing but the header and the driver."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ir import relax
from ir.relax.testing import evaluate
from ir.script import ir as I
from ir.script import relax as R
from runners.cuda import stand_in
from runners.executable import Executable
from tests.runners.cuda import programs

needs_c = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@I.ir_module
class Layer:
    @R.function
    def main(x: R.Tensor((8, 16), "float32"), w: R.Tensor((16, 32), "float32")) -> R.Tensor(
        (8, 32), "float32"
    ):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.softmax(R.nn.relu(y) + R.const(1.0))
            R.output(z)
        return z


@dataclass
class Library:
    """An exported model, with what the stand-in runs in the place of its code."""

    folder: Path
    name: str
    executable: Executable

    @property
    def header(self) -> str:
        return (self.folder / f"lib{self.name}.h").read_text()


def exported(executable: Executable, folder: Path, name: str) -> Library:
    (folder / "images").mkdir(exist_ok=True)
    executable.export_library(folder / f"lib{name}.so")
    if executable.device_code is not None:
        stand_in.keep_image(executable.device_code, folder / "images")
    return Library(folder, name, executable)


def exported_layer(folder: Path) -> tuple[Library, np.ndarray, np.ndarray]:
    """The layer as a library, an input, which is in the file ``x.bin`` too, and what it makes of it."""
    generator = np.random.default_rng(0)
    weight, x = (generator.standard_normal(shape).astype("float32") for shape in ((16, 32), (8, 16)))
    library = exported(relax.build(Layer, programs.TARGET, params={"w": weight}), folder, "layer")
    x.tofile(folder / "x.bin")
    return library, x, evaluate(Layer, x, weight)


_COMMON = """
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
static float x[8 * 16], y[8 * 32];
static void *driver(const char *name) {
  void *library = dlopen(getenv("LOOPSMITH_CUDA_DRIVER"), RTLD_NOW);
  void *found = library ? dlsym(library, name) : NULL;
  if (!found) { printf("no %s\\n", name); exit(3); }
  return found;
}
static size_t held(void) { size_t (*ask)(void); *(void **)&ask = driver("loopsmith_stand_in_held"); return ask(); }
static int call1(const char *name, void *a) { int (*f)(void *); *(void **)&f = driver(name); return f(a); }
static int call2(const char *name, void *a, size_t b) { int (*f)(void *, size_t); *(void **)&f = driver(name); return f(a, b); }
static int call3(const char *name, void *a, const void *b, size_t c) {
  int (*f)(void *, const void *, size_t); *(void **)&f = driver(name); return f(a, b, c);
}
static void read_x(void) { FILE *file = fopen("x.bin", "rb"); if (!file || fread(x, sizeof x, 1, file) != 1) exit(4); }
static void need(int32_t status, const char *text) { if (status) { printf("%d %s\\n", status, text); exit(1); } }
static void tell(int32_t status, const char *text) { printf("%d %s\\n", status, text); }
static void unused(void) { (void)x; (void)y; (void)held; (void)call1; (void)call2; (void)call3; (void)read_x; (void)need; (void)tell; }
"""


def run_c(
    folder: Path,
    libraries: Sequence[str],
    body: str,
    *,
    above: str = "",
    compiler: str = "cc",
    flags: Sequence[str] = ("-std=c99", "-Wpedantic"),
    **variables: str,
) -> str:
    """What a program prints whose ``main`` is a body of statements."""
    program = folder / f"main{len(list(folder.glob('main*')))}"
    headers = "".join(f'#include "lib{name}.h"\n' for name in libraries)
    text = f"{_COMMON}{headers}{above}\nint main(void) {{ unused();\n{body}\n  return 0;\n}}\n"
    source = program.with_suffix(".c" if compiler == "cc" else ".cpp")
    source.write_text(text)
    linked = [f"-l{name}" for name in libraries]
    command = [
        compiler,
        *flags,
        "-Wall",
        "-Wextra",
        "-Werror",
        str(source),
        "-o",
        str(program),
        "-L.",
        *linked,
    ]
    done = subprocess.run(
        [*command, "-Wl,-rpath,.", "-ldl", "-lpthread"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    environment = {**os.environ, stand_in.IMAGES_VARIABLE: str(folder / "images"), **variables}
    ran = subprocess.run(
        [str(program)], cwd=folder, capture_output=True, text=True, timeout=120, env=environment
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


PRINT = 'for (int i = 0; i < 8 * 32; ++i) printf("%.9g\\n", (double)y[i]);'


def floats(text: str) -> np.ndarray:
    return np.array(text.split(), "float32")


ON_DEVICE = """read_x();
  void *context, *current = &context, *stream, *given, *made, *space;
  need(call1("cuInit", NULL), "cuInit");
  need(call2("cuDevicePrimaryCtxRetain", &context, 1), "retain");
  loopsmith_layer *model;
  need(loopsmith_layer_create(1, &model), loopsmith_layer_last_error());
  need(call1("cuCtxGetCurrent", &current), "current");
  if (current != NULL) return 5; /* the thread has the context that it had */
  need(call1("cuCtxSetCurrent", context), "context");
  need(call2("cuMemAlloc_v2", &given, sizeof x), "alloc");
  need(call2("cuMemAlloc_v2", &made, sizeof y), "alloc");
  need(call2("cuMemAlloc_v2", &space, LOOPSMITH_LAYER_WORKSPACE_BYTES_MAIN), "alloc");
  need(call2("cuStreamCreate", &stream, 1), "stream");
  need(call3("cuMemcpyHtoD_v2", given, x, sizeof x), "copy");
"""
NOTHING_HELD = "if (held() != 0) return 6;"
