"""Programs in C that call models: two in one program, headers of other builds, and numbers of sixteen and eight bits."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import runners
from ir import relax
from ir.codegen import model_library
from ir.codegen.error import CodegenError
from ir.relax.struct_info import TensorStructInfo

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def adding(number: float, dtype: str = "float32", extent: int = 4) -> relax.Executable:
    """A model that adds a number to each element of an array."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", TensorStructInfo((extent,), dtype))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, relax.const(number, dtype))))
    return relax.build(builder.finalize(), "llvm")


def compiled(folder: Path, source: str, *libraries: str) -> list[str]:
    """The command of a program that is linked with libraries in its folder."""
    (folder / "main.c").write_text(textwrap.dedent(source))
    linked = [f"-l{name}" for name in libraries]
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "main.c", "-o", "main", "-L."]
    subprocess.run([*command, *linked, "-Wl,-rpath,."], check=True, cwd=folder, timeout=60)
    return ["./main"]


def ran(command: list[str], folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


TWO = """
    #include <stdio.h>
    #include "libone.h"
    #include "libten.h"
    int main(void) {
      float x[4] = {0, 1, 2, 3}, y[4], z[4];
      one_set_num_threads(1);
      ten_set_num_threads(1);
      if (one_main_run(x, y) || ten_main_run(y, z)) return 1;
      for (int i = 0; i < 4; ++i) printf("%g\\n", z[i]);
      printf("%d %d\\n", &one_metadata[0] == &ten_metadata[0], one_abi_version() == ONE_ABI_VERSION);
      printf("%d\\n", ten_check(TEN_ABI_VERSION, ONE_INTERFACE + 1));
      puts(ten_last_error());
      printf("%d\\n", ten_check(TEN_ABI_VERSION + 1, TEN_INTERFACE));
      puts(ten_last_error());
      puts(one_last_error());
      return 0;
    }
"""


def test_two_models_in_one_program(tmp_path: Path) -> None:
    """Each has functions, headers and errors of its own."""
    for name, number in (("one", 1), ("ten", 10)):
        path = adding(number).export_library(tmp_path / f"lib{name}.so", prefix=name)
        machine = runners.VirtualMachine(runners.load_module(path))
        np.testing.assert_array_equal(machine["main"](np.zeros(4, "float32")).numpy(), [number] * 4)
    done = ran(compiled(tmp_path, TWO, "one", "ten"), tmp_path)
    *sums, apart, first, other_build, second, other_version, none = done.stdout.split("\n")[:-1]
    assert (sums, apart, first, second, none) == (["11", "12", "13", "14"], "0 1", "1", "1", "")
    assert "compiled with the header of another build" in other_build
    assert "compiled for another version of the library's binary interface" in other_version


def test_without_prefixes_two_models_are_one(tmp_path: Path) -> None:
    """Why there are prefixes: the same names mean the library that was linked first."""
    for name, number in (("one", 1), ("ten", 10)):
        adding(number).export_library(tmp_path / f"lib{name}.so")
    source = """
        #include <stdio.h>
        #include "libten.h"
        int main(void) {
          float x[4] = {0}, y[4];
          return loopsmith_main_run(x, y) ? 1 : printf("%g\\n", y[0]) < 0;
        }
    """
    assert ran(compiled(tmp_path, source, "one", "ten"), tmp_path).stdout == "1\n"


def test_a_prefix_is_a_name_in_c(tmp_path: Path) -> None:
    with pytest.raises(CodegenError, match="the prefix 'resnet-18' is no name in C"):
        adding(1).export_library(tmp_path / "model.so", prefix="resnet-18")


ONE = """
    #include <stdio.h>
    #include "libmodel.h"
    int main(void) {
      float x[8] = {0}, y[8] = {0};
      int status = loopsmith_main_run(x, y);
      printf("%d %g %s\\n", status, y[0], loopsmith_last_error());
      return 0;
    }
"""


def test_a_library_of_another_build_is_refused(tmp_path: Path) -> None:
    """Larger arrays would be written behind the program's own."""
    adding(1).export_library(tmp_path / "libmodel.so")
    program = compiled(tmp_path, ONE, "model")
    assert ran(program, tmp_path).stdout == "0 1 \n"
    adding(2).export_library(tmp_path / "libmodel.so", header=False)
    assert ran(program, tmp_path).stdout == "0 2 \n"  # other weights
    adding(1, extent=100_000).export_library(tmp_path / "libmodel.so", header=False)
    assert ran(program, tmp_path).stdout == (
        "1 0 the program was compiled with the header of another build, whose functions or arrays are others: use the library's own\n"
    )


def test_a_library_of_another_binary_interface_is_refused(tmp_path: Path, monkeypatch) -> None:
    """By the system, before the program begins."""
    adding(1).export_library(tmp_path / "libmodel.so")
    program = compiled(tmp_path, ONE, "model")
    monkeypatch.setattr(model_library, "SYMBOL_VERSION", "LOOPSMITH_2")
    adding(1).export_library(tmp_path / "libmodel.so", header=False)
    done = ran(program, tmp_path)
    assert done.returncode != 0 and "version `LOOPSMITH_1' not found" in done.stderr


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_sixteen_bits(dtype: str, tmp_path: Path) -> None:
    """A model of them, and each conversion of the header against numpy's."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    adding(1.5, dtype).export_library(tmp_path / "libmodel.so")
    source = f"""
        #include <stdio.h>
        #include "libmodel.h"
        static float wide[1 << 17];
        int main(void) {{
          loopsmith_{dtype} x[4], y[4];
          for (int i = 0; i < 4; ++i) x[i] = loopsmith_to_{dtype}((float)i);
          if (loopsmith_main_run(x, y)) return 1;
          for (int i = 0; i < 4; ++i) printf("%g\\n", loopsmith_from_{dtype}(y[i]));
          FILE *in = fopen("in.bin", "rb"), *out = fopen("out.bin", "wb");
          if (!in || !out || fread(wide, sizeof wide, 1, in) != 1) return 2;
          for (int i = 0; i < 1 << 17; ++i) {{
            loopsmith_{dtype} narrow = loopsmith_to_{dtype}(wide[i]);
            float back = loopsmith_from_{dtype}(narrow);
            fwrite(&narrow, sizeof narrow, 1, out);
            fwrite(&back, sizeof back, 1, out);
          }}
          return fclose(out);
        }}
    """
    generator = np.random.default_rng(0)
    every = np.arange(1 << 16, dtype="uint16").view(kind).astype("float32")
    others = generator.integers(0, 2**32, (1 << 16) - 4, dtype="uint32").view("float32")
    ties = np.array([65519.99, 65520, 2**-25, 3 * 2**-25], "float32")
    wide = np.concatenate([every, others, ties])
    wide.tofile(tmp_path / "in.bin")
    done = ran(compiled(tmp_path, source, "model"), tmp_path)
    assert done.stdout.split() == ["1.5", "2.5", "3.5", "4.5"]
    found = np.fromfile(tmp_path / "out.bin", np.dtype([("narrow", "uint16"), ("back", "float32")]))
    numbers = ~np.isnan(wide)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = wide.astype(kind)
    np.testing.assert_array_equal(found["narrow"][numbers], expected.view("uint16")[numbers])
    np.testing.assert_array_equal(found["back"][numbers], expected.astype("float32")[numbers])
    assert np.isnan(found["back"][~numbers]).all()


def test_integers_of_eight_bits(tmp_path: Path) -> None:
    adding(100, "int8").export_library(tmp_path / "libmodel.so")
    source = """
        #include <stdio.h>
        #include "libmodel.h"
        int main(void) {
          int8_t x[4] = {-128, -1, 27, 28}, y[4];
          if (loopsmith_main_run(x, y)) return 1;
          return printf("%d %d %d %d\\n", y[0], y[1], y[2], y[3]) < 0;
        }
    """
    assert ran(compiled(tmp_path, source, "model"), tmp_path).stdout == "-28 99 127 -128\n"
