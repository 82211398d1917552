"""ResNet-18 (He et al., 2015) for inference: batch normalization is part of the convolutions' weights and biases."""

from __future__ import annotations

from dataclasses import dataclass

from ir.relax.frontend import nn

from .architecture import architecture
from .layers import global_average_pool, max_pool2d


@dataclass(frozen=True)
class ResNetConfig:
    """Channels and blocks per stage; the input is ``[batch, 3, image_size, image_size]``."""

    stages: tuple[int, ...] = (64, 128, 256, 512)
    blocks: int = 2
    classes: int = 1000
    image_size: int = 224
    batch: int = 1


def inputs(config: ResNetConfig) -> dict[str, nn.spec.Tensor]:
    """The image."""
    return {"x": nn.spec.Tensor([config.batch, 3, config.image_size, config.image_size], "float32")}


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        self.conv1 = nn.Conv2D(channels_in, channels, 3, stride, 1)
        self.conv2 = nn.Conv2D(channels, channels, 3, 1, 1)
        self.downsample: nn.Conv2D | None = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Conv2D(channels_in, channels, 1, stride)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """``[B, C_in, H, W]`` to ``[B, C, H/stride, W/stride]``."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.conv2(nn.op.relu(self.conv1(x)))
        return nn.op.relu(y + shortcut)


@architecture(
    "resnet18",
    full=ResNetConfig(),
    small=ResNetConfig(stages=(8, 16), blocks=1, classes=10, image_size=32),
    inputs=inputs,
)
class ResNet(nn.Module):
    """The network; ``main`` returns the logits ``[batch, classes]``."""

    def __init__(self, config: ResNetConfig) -> None:
        width = config.stages[0]
        self.conv1 = nn.Conv2D(3, width, 7, 2, 3)
        layers: list[nn.Module] = []
        for stage, channels in enumerate(config.stages):
            for block in range(config.blocks):
                layers.append(BasicBlock(width, channels, 2 if stage > 0 and block == 0 else 1))
                width = channels
        self.layers = nn.ModuleList(layers)
        self.fc = nn.Linear(width, config.classes)

    def main(self, x: nn.Tensor) -> nn.Tensor:
        """The logits."""
        x = max_pool2d(nn.op.relu(self.conv1(x)), 3, 2, 1)
        return self.fc(global_average_pool(self.layers(x)))
