"""AttachExternModules: compiled modules of others are kept for linking."""

from __future__ import annotations

from ir.relax import transform
from ir.script import ir as I
from ir.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        return x


class _Source:
    def load(self):
        return "loaded"


def test_modules_are_loaded_and_appended():
    once = transform.AttachExternModules([_Source(), "object"])(Module)
    assert once.attrs["external_mods"] == ("loaded", "object")
    twice = transform.AttachExternModules(["more"])(once)
    assert twice.attrs["external_mods"] == ("loaded", "object", "more")
    assert once.attrs["external_mods"] == ("loaded", "object")
    assert twice["main"] is Module["main"] and "external_mods" not in Module.attrs
