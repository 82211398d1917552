"""Which targets this machine can measure: records say how long a kernel takes on their target, and build for that one."""

from __future__ import annotations

from ir.codegen.cuda.toolkit import toolkit
from ir.codegen.llvm.compile import options_of, require_host, target_machine
from ir.relax.vm_build import require_buildable
from ir.target import Target
from ir.target.cuda_device import cuda_attributes
from ir.target.gpu_facts import architecture_number
from ir.target.host import available_cores
from runners.cuda.context import context, identity
from runners.cuda.nvml import DeviceMonitor
from runners.energy import EnergyMeter

from .error import TunerError


def require_measurable(target: Target) -> None:
    """Refuse a target whose times this machine does not tell, before minutes are spent on them and records keep them.

    Raises:
        CudaUnavailable: the target is of kind ``cuda``, and there is no driver or no device; the message names the library.
        CudaToolkitError: there is no NVRTC.
        CodegenError: no code is generated for its kind, LLVM does not know the processor, or it is another one than this machine's.
        TunerError: the target has more cores than there are, or is another device.
    """
    require_buildable(target)
    if target.is_gpu:
        _require_device(target)
        toolkit()
        return
    options = options_of(target)
    target_machine(options)
    require_host(options)
    here = available_cores()
    if target.num_cores > here:
        cores = "the one core" if here == 1 else f"the {here} cores"
        raise TunerError(
            f"the target has {target.num_cores} cores (-num-cores), more than {cores} that this process may use: how long it takes on them"
            " cannot be measured here; leave -num-cores out, or tune on such a machine"
        )


def _require_device(target: Target) -> None:
    """Refuse a device other than the first of this machine, for which candidates would be compiled, and on which they would be timed."""
    here = cuda_attributes(0)
    if here is None:
        context(0)  # says what is missing
        return
    differ = []
    if architecture_number(str(target.arch)) != architecture_number(here["arch"]):
        differ.append(f"it is {target.arch}, this machine's device {here['arch']}")
    count, found = target.attrs.get("multi_processor_count"), here.get("multi_processor_count")
    if count is not None and found is not None and count != found:
        differ.append(f"it has {count} multiprocessors, this machine's device {found}")
    if differ:
        raise TunerError(
            f"the target {target.tag or target} cannot be measured here: {'; '.join(differ)}. The target cuda is this"
            " machine's device; `build` makes code for others"
        )


def require_energy(target: Target) -> None:
    """Refuse to minimize the energy where what runs the target's kernels does not tell it.

    Raises:
        RunnerError: there are no counters, or they may not be read.
    """
    if target.is_gpu:
        DeviceMonitor(identity(0)).joules()
    else:
        EnergyMeter()
