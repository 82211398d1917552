"""A compiler's log taken apart, as NVRTC of CUDA 12 and of CUDA 13 write it."""

from __future__ import annotations

from ir.codegen.cuda.diagnostics import PTX_TEXT, located_in_source, parse_log
from ir.codegen.error import CudaCompileError, CudaDiagnostic

LOG = """k.cu(4): error: identifier "foo" is undefined
    int unused = foo;
                 ^

k.cu(7): warning #177-D: variable "x" was declared but never referenced
    int x;
        ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

k.cu(1): error: static assertion failed with "small"
  template <int N> struct S { static_assert(N > 1, "small"); };
                              ^
k.cu(1): note #3453-D: the final comparison was 1 > 1
  template <int N> struct S { static_assert(N > 1, "small"); };
                                              ^
          detected during instantiation of class "S<N> [with N=1]" at line 2

/include/mma.h(55): catastrophic error: cannot open source file "crt/mma.h"
  #include "crt/mma.h"
                      ^

3 errors detected in the compilation of "k.cu".
Compilation terminated.
ptxas info    : Function properties for k
ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""


def test_each_message_has_its_place_and_what_is_said_of_it():
    undefined, unused, assertion, missing = parse_log(LOG)
    assert undefined == CudaDiagnostic(
        "error", 'identifier "foo" is undefined', "k.cu", 4, "    int unused = foo;\n                 ^"
    )
    assert (unused.severity, unused.line) == ("warning", 7)
    assert "the final comparison" in assertion.excerpt and "at line 2" in assertion.excerpt
    assert (missing.severity, missing.file, missing.line) == ("error", "/include/mma.h", 55)


def test_messages_without_a_place_are_messages():
    assert parse_log(
        "nvrtc: error: unrecognized option --foo found\n"
        "ptxas fatal   : Unresolved extern function 'bar'\n"
        "ptxas warning : Stack size for entry function 'f' cannot be statically determined\n"
        "Command-line error: invalid or no value specified with --nv_arch flag\n"
    ) == [
        CudaDiagnostic("error", "unrecognized option --foo found"),
        CudaDiagnostic("error", "Unresolved extern function 'bar'"),
        CudaDiagnostic("warning", "Stack size for entry function 'f' cannot be statically determined"),
        CudaDiagnostic("error", "invalid or no value specified with --nv_arch flag"),
    ]


def test_lines_of_the_ptx_text_are_brought_to_the_source():
    found = parse_log(
        "ptxas application ptx input, line 5; error   : Not a name of any known instruction: 'foo'\n"
        "ptxas application ptx input, line 2; error   : first\n"
        "ptxas application ptx input, line 8; error   : elsewhere\n"
        "ptxas application ptx input, line 99; error   : nowhere\n"
        "ptxas fatal   : Ptx assembly aborted due to errors\n"
    )
    assert [(item.file, item.line) for item in found] == [(PTX_TEXT, line) for line in (5, 2, 8, 99)]
    ptx = "\n".join(
        [
            ".version 8.8", ".target sm_80", ' .loc 1 2 3', "", " foo %r1;", "", " .loc 2 3 1", " bar;", ' .file 1 "/tmp/k.cu"',
            ' .file 2 "/include/mma.h"',
        ]
    )  # fmt: skip
    located = located_in_source(found, ptx, "first\n  second\nthird", "k.cu")
    assert [(item.file, item.line) for item in located] == [
        ("k.cu", 2),
        (PTX_TEXT, 2),
        (PTX_TEXT, 8),
        (PTX_TEXT, 99),
    ]
    assert located[0].excerpt == "  second\n  in the PTX text: foo %r1;"
    assert located[2].excerpt == "  in the PTX text: bar;"


def test_an_error_without_messages_shows_what_the_compiler_said():
    assert (
        str(CudaCompileError("k.cu does not compile", (), "out of memory\n"))
        == "k.cu does not compile\nout of memory"
    )
    warning = CudaDiagnostic("warning", "unused")
    assert str(CudaCompileError("k.cu does not compile", [warning])) == "k.cu does not compile"
