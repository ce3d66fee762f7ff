# SPDX-License-Identifier: Apache-2.0
"""A PyTorch model with an op of its own, exported to ONNX as example::RmsNorm, compiled with ops.mlir and compared with
PyTorch, at several sizes of one recipe.

    PYTHONPATH=build/python /usr/bin/python3 examples/custom_op/check.py
"""
import os
import tempfile

import numpy as np
import torch
from torch import nn

import openhpu


class RmsNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, epsilon):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * scale

    @staticmethod
    def symbolic(g, x, scale, epsilon):
        return g.op("example::RmsNorm", x, scale, epsilon_f=epsilon).setType(x.type())


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))

    def forward(self, x):
        return RmsNormFunction.apply(x, self.scale, 1e-5)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), RmsNorm(96), nn.GELU(), nn.Linear(96, 32)).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(model, torch.randn(4, 64), path, input_names=["x"], output_names=["y"], opset_version=17,
                          dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, custom_opsets={"example": 1})
        plugin = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops.mlir")
        recipe = openhpu.compile(path, plugins=plugin, dims={"batch": (1, 256)})
        session = openhpu.Session(recipe)
        for batch in 1, 7, 200:
            x = torch.randn(batch, 64)
            [y] = session.run(x.numpy())
            with torch.no_grad():
                error = np.abs(y - model(x).numpy()).max()
            print(f"batch {batch}: largest difference from PyTorch {error:.1e}")
            assert error < 1e-5


if __name__ == "__main__":
    main()
