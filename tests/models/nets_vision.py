# SPDX-License-Identifier: Apache-2.0
"""The image networks of nets.py that torchvision has no builder for, and image-like inputs."""

import torch
import torchvision
from torch import nn


def double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Four levels down and up; each way up is another one: two transposed convolutions (kernel 2
    and overlapping kernel 4), nearest and bilinear resize, and skips by concatenation."""

    def __init__(self, classes=4, base=32):
        super().__init__()
        widths = [base, 2 * base, 4 * base, 8 * base, 8 * base]
        self.down = nn.ModuleList([double_conv(3, widths[0])] + [
            double_conv(a, b) for a, b in zip(widths[:-1], widths[1:])])
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList([
            nn.ConvTranspose2d(widths[4], widths[3], 2, stride=2),
            nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"),
                          nn.Conv2d(widths[3], widths[2], 1)),
            nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
                          nn.Conv2d(widths[2], widths[1], 3, padding=1)),
            nn.ConvTranspose2d(widths[1], widths[0], 4, stride=2, padding=1)])
        self.merge = nn.ModuleList(double_conv(2 * w, w) for w in reversed(widths[:4]))
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, image):
        skips = [self.down[0](image)]
        for level in list(self.down)[1:]:
            skips.append(level(self.pool(skips[-1])))
        x = skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


def vit_tiny():
    return torchvision.models.VisionTransformer(image_size=224, patch_size=16, num_layers=12,
                                                num_heads=3, hidden_dim=192, mlp_dim=768)


def images(batch, size, generator, width=None):
    """Image-like N(0,1) data: noise at four scales, so that neighbouring pixels are correlated. Square without a width."""
    width = width or size
    total = torch.zeros(batch, 3, size, width)
    for cells in (4, 16, 64, size):
        noise = torch.randn(batch, 3, cells, cells, generator=generator)
        total += nn.functional.interpolate(noise, size=(size, width), mode="bilinear",
                                           align_corners=False)
    return (total - total.mean()) / total.std()


class Segmentation(nn.Module):
    """The main output of a torchvision segmentation network, which gives a dictionary."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, image):
        return self.network(image)["out"]


def deeplabv3():
    return Segmentation(torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=21))
