"""Targets: every way to make one, what they say, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ir
from ir.json_format import load_json, save_json
from ir.target import Target, TargetError, fingerprint, host_info, list_kinds, list_tags, register_tag
from ir.target.gpu_facts import architecture_number
from ir.target.kind import get_kind

ROOT = Path(ir.__file__).parent

FORMS = [
    "cpu",
    "llvm",
    "llvm -mcpu=znver4 -num-cores 2",
    "llvm -mattr=+avx2,+fma -opt-level=2",
    "c -keys=arm_cpu,cpu",
    "cuda -arch=sm_80",
    "cuda -arch=sm_90 -max_threads_per_block=1024 -keys=cuda,gpu",
    "nvidia/nvidia-a100",
    '{"kind": "llvm", "mcpu": "haswell"}',
    {"kind": "cuda", "arch": "sm_80", "host": {"kind": "llvm", "mcpu": "znver3"}},
    {"kind": "llvm", "mtriple": "riscv64-linux-gnu", "mabi": "lp64d"},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form_survives_text_export_and_json(form: object) -> None:
    target = Target(form)
    assert Target(str(target)) == target
    assert Target(target.export()) == target
    assert Target(json.dumps(target.export())) == target
    assert ir.load_json(ir.save_json(target)) == target
    assert ir.structural_equal(Target(str(target)), target)
    assert ir.structural_hash(Target(str(target))) == ir.structural_hash(target)
    assert hash(Target(target)) == hash(target)


def test_string_form() -> None:
    target = Target("llvm -mcpu=znver4 -num-cores 2")
    assert (target.kind.name, target.keys, target.attrs) == (
        "llvm",
        ("cpu",),
        {"mcpu": "znver4", "num-cores": 2},
    )
    assert str(target) == "llvm -keys=cpu -mcpu=znver4 -num-cores=2"
    assert target.export() == {"kind": "llvm", "tag": "", "keys": ["cpu"], "mcpu": "znver4", "num-cores": 2}


def test_cpu_is_the_host() -> None:
    target, host = Target("cpu"), host_info()
    assert target.kind.name == "llvm" and target.mcpu == host.cpu
    assert (target.num_cores, target.vector_bits) == (host.cores, host.vector_bits)
    assert target.l1_cache_bytes >= 8 << 10 and target.l2_cache_bytes > target.l1_cache_bytes
    assert Target("cpu -num-cores=3").num_cores == 3


@pytest.mark.parametrize(
    ("text", "bits", "registers"),
    [
        ("llvm -mcpu=znver4", 512, 32),
        ("llvm -mcpu=skylake-avx512", 512, 32),
        ("llvm -mcpu=haswell", 256, 16),
        ("llvm -mcpu=neoverse-n1 -mtriple=aarch64-linux-gnu", 128, 32),
        ("llvm -mcpu=x86-64", 128, 16),
        ("llvm -mcpu=haswell -vector-width=128 -vector-registers=8", 128, 8),
        ("llvm -mtriple=x86_64-linux-gnu -mattr=+avx512f", 512, 32),
    ],
)
def test_vector_facts(text: str, bits: int, registers: int) -> None:
    target = Target(text)
    assert (target.vector_bits, target.vector_registers) == (bits, registers)


def test_cuda_facts() -> None:
    target = Target("nvidia/nvidia-a100")
    assert target.tag == "nvidia/nvidia-a100" and target.arch == "sm_80" and target.is_gpu
    assert (target.max_num_threads, target.thread_warp_size) == (1024, 32)
    assert target.max_shared_memory_per_block == 49152
    assert Target("cuda -arch=sm_80").get_target_device_type() == 2


def test_host() -> None:
    target = Target("cuda -arch=sm_80", host="llvm -mcpu=znver3")
    assert target.host == Target("llvm -mcpu=znver3")
    assert target.without_host().host is None
    assert Target.canon_target_and_host("cuda -arch=sm_80", "llvm") == (
        Target("cuda -arch=sm_80", "llvm"),
        Target("llvm"),
    )


@pytest.mark.parametrize(
    "form",
    [
        "nvidia/h200",
        "cuda -arch=sm_80",
        {"kind": "cuda", "arch": "sm_86", "keys": ["cuda", "gpu"]},
        {"tag": "nvidia/tesla-t4", "max_threads_per_block": 512},
    ],
)
def test_a_host_goes_with_every_form_of_a_target(form: object) -> None:
    host = Target("llvm -mcpu=znver3 -mattr=+avx2,-fma -num-cores=4")
    target = Target(form, host=host)
    assert target == Target(form).with_host(str(host)) == Target(Target(form), host=host.export())
    assert target.host == host and target.host.host is None
    assert target != Target(form) == target.without_host()
    for again in (Target(str(target)), Target(target.export()), Target(json.dumps(target.export()))):
        assert again == target and again.host == host and hash(again) == hash(target)
    assert load_json(save_json(target)) == target
    assert target.with_host("llvm").host == Target("llvm")


def test_a_host_within_a_description_is_read() -> None:
    assert Target("cuda -arch=sm_80 -host='llvm -mcpu=znver3'").host == Target("llvm -mcpu=znver3")
    assert Target({"kind": "cuda", "arch": "sm_80", "host": "llvm"}, host="c").host == Target("c")


def test_scopes_nest() -> None:
    assert Target.current() is None
    with pytest.raises(TargetError, match="no target is in scope"):
        Target.current(allow_none=False)
    with Target("llvm") as outer:
        with Target("cuda -arch=sm_80") as inner:
            assert Target.current() is inner
        assert Target.current() is outer
    assert Target.current() is None


def test_equality_is_by_value() -> None:
    assert Target("llvm -mcpu=znver4 -num-cores=2") == Target("llvm -num-cores=2 -mcpu=znver4")
    assert Target("llvm -mcpu=znver4") != Target("llvm -mcpu=znver3")
    assert Target("llvm") != "llvm"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("", "empty string"),
        ("cpuu", "did you mean 'cpu'"),
        ("gpu", "unknown target kind 'gpu'; there are: cpu, c, cuda.*; did you mean 'cuda'?"),
        ("CUDA", "unknown target kind 'CUDA'.*; did you mean 'cuda'?"),
        ("a100", "'a100' is no target; did you mean 'nvidia/a100'?"),
        ("nvidia/NVIDIA-A100", "unknown target tag 'nvidia/NVIDIA-A100'; did you mean 'nvidia/nvidia-a100'"),
        ("cuda:1", "'cuda:1' is a device; write 'cuda'; .*-from_device=1"),
        ("cpu:0", "'cpu:0' is a device; write 'cpu'"),
        (
            "nvidia/rtx4090",
            "unknown target tag 'nvidia/rtx4090'; did you mean 'nvidia/rtx-4090'.*list_tags",
        ),
        (
            "nvidia/nvidia-a100 -arch=sm_80",
            "tag 'nvidia/nvidia-a100' stands alone; with other options write a dict",
        ),
        ("llvm -mcup=x", "no option -mcup; did you mean -mcpu"),
        ("llvm -num-cores=two", "-num-cores of target kind 'llvm' takes int, got 'two'"),
        ("llvm -mcpu", "needs a value"),
        ("llvm -num-cores=0", "-num-cores .* must be at least 1, got 0; leave it out"),
        ({"kind": "metal", "thread_warp_size": -32}, "must be at least 1, got -32"),
        ({"kind": "cuda", "thread_warp_size": 16}, "must be at least 32, got 16"),
        ({"kind": "cuda", "thread_warp_size": 64}, "must be at most 32, got 64"),
        ("llvm -opt-level=-1", "must be at least 0, got -1"),
        ("llvm znver4", "cannot read 'znver4'"),
        ("{not json", "JSON cannot be read"),
        ({"mcpu": "x"}, 'needs the key "kind"'),
        (3, "got int"),
        ("llvm -fast-math", "option -fast-math of target kind 'llvm' is not there: what floating-point"),
        ({"kind": "llvm", "jit": "orcjit"}, "option -jit .* loaded in one way"),
        ("cuda -libs=cublas", "option -libs of target kind 'cuda' is not there: .* RunCodegen"),
        ("rocm -mattr=+x", "LLVM makes no code for this kind"),
        ("vulkan -supports_float16=1", "nothing asks which types"),
    ],
)
def test_bad_descriptions_are_explained(form: object, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target(form)


def test_tags() -> None:
    register_tag("test/tag", {"kind": "llvm", "mcpu": "znver2"}, override=True)
    assert Target("test/tag").mcpu == "znver2" and "test/tag" in list_tags()
    with pytest.raises(TargetError, match="registered already"):
        register_tag("test/tag", {})


def test_kinds_and_fingerprint() -> None:
    assert {"llvm", "cuda", "c"} <= set(list_kinds())
    found = fingerprint()
    assert json.loads(json.dumps(found)) == found and found["cpu"] == host_info().cpu


def test_every_option_of_a_kind_is_asked_for() -> None:
    """By a property of Target, by whoever makes machine code, or by the description of this machine's devices."""
    readers = "".join(
        (ROOT / path).read_text()
        for path in (
            "target/target.py",
            "target/description.py",
            "target/cuda_device.py",
            "codegen/llvm/compile.py",
        )
    )
    options = {name for kind in list_kinds() for name in get_kind(kind).options}
    assert {name for name in options if f'"{name}"' not in readers} == set()


def test_an_architecture_is_a_text() -> None:
    with pytest.raises(TargetError, match="got Target; that of a target is target.arch"):
        architecture_number(Target("nvidia/nvidia-a100"))  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="got int$"):
        architecture_number(80)  # type: ignore[arg-type]
