"""Rewriting of module trees."""

from __future__ import annotations

from typing import Any

from ir.relax.frontend import nn


class Block(nn.Module):
    def __init__(self) -> None:
        self.linear = nn.Linear(2, 2)
        self.act = nn.ReLU()
        self.cache = nn.KVCache(4, [2])


class Model(nn.Module):
    def __init__(self) -> None:
        self.blocks = nn.ModuleList([Block(), Block()])
        self.heads = nn.ModuleDict({"a": nn.ReLU()})
        self.weight = nn.Parameter((2,))


class Recorder(nn.Mutator):
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def visit(self, name: str, node: Any) -> Any:
        self.seen.append((type(node).__name__, name))
        return super().visit(name, node)


def test_everything_is_visited_with_its_name() -> None:
    recorder, model = Recorder(), Model()
    assert recorder.visit("model", model) is model
    names = {name for _, name in recorder.seen}
    assert {
        "model.blocks",
        "model.blocks.1.linear.bias",
        "model.blocks.0.cache",
        "model.heads.a",
        "model.weight",
    } <= names


def test_layers_are_replaced() -> None:
    class Swap(nn.Mutator):
        def visit_module(self, name: str, node: nn.Module) -> Any:
            return nn.GELU() if isinstance(node, nn.ReLU) else super().visit_module(name, node)

    model = Swap().visit("", Model())
    assert all(isinstance(block.act, nn.GELU) for block in model.blocks)
    assert isinstance(model.heads["a"], nn.GELU)


def test_parameters_effects_and_lists_are_replaced() -> None:
    class Replace(nn.Mutator):
        def visit_param(self, name: str, node: Any) -> Any:
            return nn.Parameter(node.shape, "float16")

        def visit_effect(self, name: str, node: Any) -> Any:
            return nn.KVCache(8, [2])

        def visit_modulelist(self, name: str, node: nn.ModuleList) -> Any:
            super().visit_modulelist(name, node)
            return nn.ModuleList(list(node)[:1])

    model = Replace().visit("", Model())
    assert {param.dtype for param in model.parameters()} == {"float16"}
    assert len(model.blocks) == 1 and model.blocks[0].cache.init_seq_len == 8
