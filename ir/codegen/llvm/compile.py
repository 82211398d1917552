"""From LLVM assembly text to machine code: parse, optimize, emit an object, link it.

One position independent object serves both ways of running: it is loaded in process for measuring, and linked into a
shared library for shipping.  The pipeline is LLVM's own without loop vectorization, interleaving and SLP by default:
kernels arrive with explicit vectors and unrolled register tiles, where those passes cost compile time and now and
then break a tile; code with scalar loops asks for them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from ...error import did_you_mean
from ...target.host import facts_of_cpu, host_info
from ...target.target import Target
from ..error import CodegenError
from ..forking import hold_at_fork


def lock_of_llvmlite(library: Any) -> Any:
    """The lock that llvmlite takes for every call of LLVM, which it keeps to itself, or another one where it is not found."""
    lock = getattr(library, "_lock", None)
    return lock if hasattr(lock, "__enter__") and hasattr(lock, "__exit__") else threading.RLock()


LLVM_LOCK = lock_of_llvmlite(llvm.ffi.lib)
"""Held around what takes LLVM long: if it is not llvmlite's own, a fork waits at least for that."""
hold_at_fork(LLVM_LOCK.__enter__, lambda: LLVM_LOCK.__exit__(None, None, None))
_CATCHING = threading.Lock()
hold_at_fork(_CATCHING.acquire, _CATCHING.release)


@dataclass(frozen=True)
class MachineOptions:
    """What code is generated for.

    Empty strings stand for the host: its triple, its cpu name, its features.
    """

    triple: str = ""
    cpu: str = ""
    features: str = ""
    abi: str = ""
    opt_level: int = 3
    unroll: bool = True
    """Whether scalar loops may be unrolled, which makes the code faster and compiling it several times slower."""


@lru_cache(maxsize=1)
def initialize() -> None:
    """Makes LLVM's code generator for this machine ready; whoever calls LLVM otherwise than through this module does so first."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


def options_of(target: Target | None) -> MachineOptions:
    """Machine options of a target (or of the host for None).

    A target without ``mcpu`` means the host; with another ``mcpu`` but without ``mattr``, the features follow from the cpu.

    Raises:
        CodegenError: the target is no processor, its host is another one, or a feature has no sign.
    """
    if target is not None:
        require_processor(target)
    attrs: dict[str, Any] = {} if target is None else dict(target.attrs)
    cpu = str(attrs.get("mcpu") or "")
    attr = attrs.get("mattr") or ()
    features = attr if isinstance(attr, str) else ",".join(str(a) for a in attr)  # type: ignore[attr-defined]
    for feature in filter(None, features.split(",")):
        if feature[0] not in "+-":  # LLVM would end the process
            raise CodegenError(
                f"-mattr takes features with a sign, such as +avx2,-fma; {feature!r} has none: +{feature} switches it on"
            )
    level = attrs.get("opt-level")
    if cpu and cpu == host_info().cpu and not attrs.get("mtriple"):
        # The host by name is the host: a hypervisor may hide features that the name implies.
        cpu = ""
    return MachineOptions(
        triple=str(attrs.get("mtriple") or ""),
        cpu=cpu,
        features=features,
        abi=str(attrs.get("mabi") or ""),
        opt_level=3 if level is None else int(str(level)),
    )


def require_processor(target: Target) -> None:
    """Refuse targets that no code is generated for, so that nobody gets a processor's code for another device.

    Raises:
        CodegenError: the target's kind is not llvm, or it has a host of its own.
    """
    if target.kind_name != "llvm":
        raise CodegenError(
            f"code for target kind {target.kind_name!r} is not generated yet, only for llvm and cuda: schedules for {target}"
            " can be made and searched, but not built"
        )
    if target.host is not None and target.host.without_host() != target.without_host():
        raise CodegenError(
            f"a processor is its own host: kernels and the code that calls them are one object, for {target.without_host()};"
            f" the target asks for a host {target.host}"
        )


_X86_FEATURES = {
    256: ("avx", "avx2", "fma"),
    512: ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
"""What code for processors with vectors of at least so many bits uses. LLVM does not tell what a processor's name implies."""


def required_features(options: MachineOptions, vector_bits: int) -> set[str]:
    """LLVM's names of the features that code for these options uses, in vectors of so many bits, as far as one can tell."""
    features = [item for item in options.features.split(",") if item]
    needed = {item[1:] for item in features if item[0] == "+"}
    if architecture_of(options.triple).startswith("x86_64"):
        needed |= {name for bits, names in _X86_FEATURES.items() if vector_bits >= bits for name in names}
    return needed - {item[1:] for item in features if item[0] == "-"}


def architecture_of(triple: str) -> str:
    """The processor family of a triple, of the host for an empty one."""
    return (triple or host_info().triple).split("-")[0]


def require_host(options: MachineOptions, features: Collection[str] = ()) -> None:
    """Refuse code that this process's processor cannot run, before it is loaded: it would end the process.

    Args:
        options: what it is for.
        features: LLVM's names of those that it uses beside :func:`required_features`.

    Raises:
        CodegenError: the code is for another architecture, or needs what this processor does not have.
    """
    if not (options.triple or options.cpu or options.features):
        return
    arch, here = architecture_of(options.triple), architecture_of("")
    named = options.cpu or f"{arch} with {options.features}"
    advice = "it can be exported, and run where it is for"
    if arch != here:
        raise CodegenError(f"code for {arch} processors does not run on this one ({here}); {advice}")
    switched = tuple(item for item in options.features.split(",") if item)
    bits = facts_of_cpu(options.cpu, options.triple, switched).vector_bits
    has = llvm.get_host_cpu_features()
    needed = required_features(options, bits) | set(features)
    missing = sorted(name for name in needed if not has.get(name, True))
    if missing:
        raise CodegenError(
            f"code for {named} needs {', '.join(missing)}, which this processor ({llvm.get_host_cpu_name()}) does not have;"
            f" {advice}"
        )


def options_text(options: MachineOptions) -> tuple[str, str]:
    """The processor and the features that LLVM is told, those of the host where no other one is named."""
    if options.triple or options.cpu not in ("", host_info().cpu):
        return options.cpu, options.features
    return host_info().cpu, ",".join(filter(None, (host_info().flags, options.features)))


@lru_cache(maxsize=16)
def target_machine(options: MachineOptions = MachineOptions()) -> llvm.TargetMachine:
    """The LLVM target machine for the options, made once per process.

    Raises:
        CodegenError: when LLVM does not know the triple, the cpu or a feature.
    """
    initialize()
    try:
        if options.triple:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            target = llvm.Target.from_triple(options.triple)
        else:
            target = llvm.Target.from_default_triple()
    except RuntimeError as error:
        raise CodegenError(f"LLVM has no target for triple {options.triple!r}: {error}") from error
    cpu, features = options_text(options)
    with _llvm_complaints() as complaints, LLVM_LOCK:
        machine = target.create_target_machine(
            cpu=cpu,
            features=features,
            opt=min(options.opt_level, 3),
            reloc="pic",
            codemodel="small",
            abiname=options.abi,
        )
    if complaints:
        triple = options.triple or host_info().triple
        hint = did_you_mean(cpu, _known_cpus(triple)) if repr(cpu) in complaints[0] else ""
        raise CodegenError(
            f"{'; '.join(complaints)} ({triple}){hint or '.'} -mcpu and LOOPSMITH_HOST_CPU take LLVM's names of"
            " processors, such as x86-64-v3 or znver4, -mattr its names of features, such as +avx2"
        )
    return machine


@lru_cache(maxsize=None)
def _known_cpus(triple: str) -> list[str]:
    """The names of processors that LLVM knows, which it tells whoever asks for the processor "help": once per process, so
    that there is nothing to hear of a second architecture."""
    with _CATCHING, _standard_error() as written:
        llvm.Target.from_triple(triple).create_target_machine(cpu="help")
    listed = b"".join(written).decode(errors="replace").partition("Available features")[0]
    return re.findall(r"^\s+(\S+)\s+- Select the ", listed, re.MULTILINE)


@contextmanager
def _standard_error() -> Iterator[list[bytes]]:
    """Collects the lines that are written to file descriptor 2 by whatever means."""
    lines: list[bytes] = []
    try:
        kept = os.dup(2)
    except OSError:  # a process without standard error: LLVM tells nobody
        yield lines
        return
    with tempfile.TemporaryFile() as caught:
        try:
            os.dup2(caught.fileno(), 2)
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            lines += caught.read().splitlines(keepends=True)


@contextmanager
def _llvm_complaints() -> Iterator[list[str]]:
    """Collects what LLVM says of names that it does not know.

    It tells nobody but file descriptor 2, takes the oldest processor of the family instead, and ends the process when that one
    has no 64-bit mode. Everything else that is written there meanwhile is passed on.
    """
    complaints: list[str] = []
    with _CATCHING:
        with _standard_error() as written:
            yield complaints
        for line in written:
            found = re.match(
                rb"('[^']*' is not a recognized (?:processor|feature) for this target) \(ignoring", line
            )
            if found is None:
                os.write(2, line)
            elif (text := found[1].decode()) not in complaints:
                complaints.append(text)


def optimize(
    text: str,
    options: MachineOptions = MachineOptions(),
    *,
    loop_vectorize: bool = False,
    unroll: bool = True,
    level: int | None = None,
) -> llvm.ModuleRef:
    """Parses assembly text, verifies it and runs LLVM's pipeline of a level (default: that of the options, 3).

    Raises:
        CodegenError: when the text is not valid LLVM assembly: a bug of the code generator, quoted with LLVM's message.
    """
    machine = target_machine(options)
    with LLVM_LOCK:
        module = _parsed(text, machine)
        tuning = llvm.create_pipeline_tuning_options(
            speed_level=options.opt_level if level is None else min(level, options.opt_level)
        )
        tuning.loop_vectorization = loop_vectorize
        tuning.slp_vectorization = False  # schedules have made the vectors
        tuning.loop_unrolling = unroll
        tuning.loop_interleaving = loop_vectorize
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    return module


def _parsed(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CodegenError(f"LLVM rejects the generated code: {error}") from error
    return module


def emit_object(module: llvm.ModuleRef, options: MachineOptions = MachineOptions()) -> bytes:
    """Machine code of an optimized module as an object file."""
    machine = target_machine(options)
    with LLVM_LOCK:
        return bytes(machine.emit_object(module))


def emit_assembly(module: llvm.ModuleRef, options: MachineOptions = MachineOptions()) -> str:
    """Machine code of an optimized module as assembler text."""
    machine = target_machine(options)
    with LLVM_LOCK:
        return machine.emit_assembly(module)


_HALF_PROBE = "define half @f(float %x) {\n %y = fptrunc float %x to half\n ret half %y\n}"


@lru_cache(maxsize=16)
def has_half_instructions(options: MachineOptions = MachineOptions()) -> bool:
    """Whether a machine converts float16 by itself. LLVM, which is asked here, calls a runtime library elsewhere."""
    return "__truncsfhf2" not in emit_assembly(optimize(_HALF_PROBE, options, level=0), options)


_FUSED_PROBE = """declare double @llvm.fma.f64(double, double, double)
define double @f(double %x, double %y, double %z) {
 %r = call double @llvm.fma.f64(double %x, double %y, double %z)
 ret double %r
}"""


@lru_cache(maxsize=16)
def has_fused_instructions(options: MachineOptions = MachineOptions()) -> bool:
    """Whether a machine multiplies and adds in one operation, rounded once. LLVM, which is asked here, calls ``fma`` of C elsewhere."""
    return re.search(r"\bfma\b", emit_assembly(optimize(_FUSED_PROBE, options, level=0), options)) is None


_VECTOR_PROBE = """define void @f(ptr %x, ptr %y) "prefer-vector-width"="512" "min-legal-vector-width"="512" {{
 %a = load <{lanes} x float>, ptr %x
 %b = load <{lanes} x float>, ptr %y
 %c = fadd <{lanes} x float> %a, %b
 store <{lanes} x float> %c, ptr %x
 ret void
}}"""
_X86_ADDITIONS = {128: r"\bv?addps\b.*%xmm", 256: r"\bvaddps\b.*%ymm", 512: r"\bvaddps\b.*%zmm"}
_ARM_ADDITIONS = {128: r"\bfadd(?:\.4s|\b.*\.4s)"}
"""Additions of whole vector registers of so many bits in assembler text."""


@lru_cache(maxsize=16)
def vector_constraints(options: MachineOptions = MachineOptions()) -> dict[int, str]:
    """The letters for vector registers of so many bits in LLVM's inline assembly.

    LLVM ends the process where a register of assembly does not exist, and is asked here by an addition, which it splits then.
    """
    architecture = architecture_of(options.triple)
    if architecture.startswith("x86_64"):
        letter, additions = "v", _X86_ADDITIONS
    elif architecture in ("aarch64", "arm64"):
        letter, additions = "w", _ARM_ADDITIONS
    else:
        return {}
    found = {}
    for bits, addition in additions.items():
        probe = _VECTOR_PROBE.format(lanes=bits // 32)
        if len(re.findall(addition, emit_assembly(optimize(probe, options, level=0), options))) == 1:
            found[bits] = letter
    return found


def has_scaling_instruction(options: MachineOptions = MachineOptions()) -> bool:
    """Whether a machine multiplies vectors of 512 bits by powers of two in one operation, as AVX-512 does (``vscalefps``)."""
    return architecture_of(options.triple).startswith("x86_64") and 512 in vector_constraints(options)


_REPAIRING = frozenset({"znver5"})
"""Processors on which ``vfixupimm`` was measured: maxima that keep NaN take 1.46 of the time of those that do not, and 2.3 by comparing."""


def repairs_nan(options: MachineOptions = MachineOptions()) -> bool:
    """Whether NaN that an extreme has lost is put back by an instruction of its own, on machines with vectors of 512 bits."""
    return (options.cpu or host_info().cpu) in _REPAIRING and "-avx512f" not in options.features.split(",")


def find_linker() -> str | None:
    """The program that links shared libraries: what ``LOOPSMITH_LINKER`` names, or the system's compiler driver or linker."""
    return next((found for name in _linker_names() if (found := shutil.which(name))), None)


def _linker_names() -> list[str]:
    chosen = os.environ.get("LOOPSMITH_LINKER")
    return [chosen] if chosen else ["cc", "gcc", "clang", "ld", "ld.lld"]


def link_shared_library(
    objects: list[bytes],
    path: str | os.PathLike[str],
    *,
    export: list[str] | None = None,
    libraries: Sequence[str] = (),
    version: str = "",
) -> None:
    """Links object files into a shared library with the system's compiler driver or linker.

    Args:
        objects: object files as bytes.
        path: where to write the library.
        export: symbols to keep visible; all global ones when None.
        libraries: of C, by the names of their linker options, besides those that kernels need.
        version: of the exported symbols; the system's loader refuses a library without it to programs that were linked with it.

    Raises:
        CodegenError: when no linker is found (``LOOPSMITH_LINKER`` names one) or it fails; the linker's words are in the message.
    """
    linker = find_linker()
    if linker is None:
        raise CodegenError(
            f"cannot link {os.fspath(path)}: none of {', '.join(_linker_names())} is on PATH. Install gcc, clang or "
            "binutils, or set LOOPSMITH_LINKER; running in process needs no linker"
        )
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i, code in enumerate(objects):
            file = Path(folder, f"part{i}.o")
            file.write_bytes(code)
            files.append(str(file))
        # Symbolic: several libraries in one process each use their own runtime.
        direct = Path(linker).name.split(".")[0] in ("ld", "lld")
        wrap = (lambda o: [o]) if direct else (lambda o: [f"-Wl,{o}"])
        command = [linker, "-shared", "-o", os.fspath(path), *files, *wrap("-Bsymbolic")]
        if export is not None:
            script = Path(folder, "exports.map")
            script.write_text(
                f"{version} {{ global: " + " ".join(f"{s};" for s in export) + " local: *; };\n"
            )
            command += wrap(f"--version-script={script}")
        command += [f"-l{name}" for name in ("m", "pthread", *libraries)] if not direct else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CodegenError(
                f"linking {os.fspath(path)} with {linker} failed (LOOPSMITH_LINKER names another linker, such as that of a"
                f" processor of another kind):\n{done.stderr.strip()}"
            )
