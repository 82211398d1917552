"""MobileNetV2 (Sandler et al., 2018) for inference: batch normalization is part of the convolutions."""

from __future__ import annotations

from dataclasses import dataclass

from ir.relax.frontend import nn

from .architecture import architecture
from .layers import global_average_pool


@dataclass(frozen=True)
class MobileNetConfig:
    """``settings`` rows are (expansion, channels, repeats, stride)."""

    settings: tuple[tuple[int, int, int, int], ...] = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    stem: int = 32
    head: int = 1280
    classes: int = 1000
    image_size: int = 224
    batch: int = 1


def inputs(config: MobileNetConfig) -> dict[str, nn.spec.Tensor]:
    """The image."""
    return {"x": nn.spec.Tensor([config.batch, 3, config.image_size, config.image_size], "float32")}


class ConvReLU6(nn.Module):
    """A convolution that keeps the size (up to the stride), and ReLU6."""

    def __init__(
        self, channels_in: int, channels: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        self.conv = nn.Conv2D(channels_in, channels, kernel, stride, kernel // 2, groups=groups)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """``[B, C_in, H, W]`` to ``[B, C, H/stride, W/stride]``."""
        return nn.op.relu6(self.conv(x))


class InvertedResidual(nn.Module):
    """Expand 1x1, depthwise 3x3, project 1x1, with a shortcut where shapes allow it."""

    def __init__(self, channels_in: int, channels: int, stride: int, expansion: int) -> None:
        hidden = channels_in * expansion
        self.expand = ConvReLU6(channels_in, hidden, 1) if expansion != 1 else None
        self.depthwise = ConvReLU6(hidden, hidden, 3, stride, groups=hidden)
        self.project = nn.Conv2D(hidden, channels, 1)
        self.shortcut = stride == 1 and channels_in == channels

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """``[B, C_in, H, W]`` to ``[B, C, H/stride, W/stride]``."""
        y = x if self.expand is None else self.expand(x)
        y = self.project(self.depthwise(y))
        return x + y if self.shortcut else y


@architecture(
    "mobilenet_v2",
    full=MobileNetConfig(),
    small=MobileNetConfig(settings=((1, 8, 1, 1), (3, 12, 2, 2)), stem=8, head=24, classes=10, image_size=32),
    inputs=inputs,
)
class MobileNetV2(nn.Module):
    """The network; ``main`` returns the logits ``[batch, classes]``."""

    def __init__(self, config: MobileNetConfig) -> None:
        width = config.stem
        layers: list[nn.Module] = [ConvReLU6(3, width, 3, 2)]
        for expansion, channels, repeats, stride in config.settings:
            for index in range(repeats):
                layers.append(InvertedResidual(width, channels, stride if index == 0 else 1, expansion))
                width = channels
        layers.append(ConvReLU6(width, config.head, 1))
        self.features = nn.ModuleList(layers)
        self.classifier = nn.Linear(config.head, config.classes)

    def main(self, x: nn.Tensor) -> nn.Tensor:
        """The logits."""
        return self.classifier(global_average_pool(self.features(x)))
