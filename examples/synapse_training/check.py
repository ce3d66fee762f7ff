#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the training steps of main.c with PyTorch from the inputs that it wrote, and compares every result.

Usage: check.py FOLDER
"""
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

IMAGES, CHANNELS, WIDTH, HEIGHT = 4, 3, 9, 8
FILTERS, KERNEL, STRIDE, PAD = 8, 3, (1, 2), 1  # Strides of PyTorch: height, width.
CLASSES, RATE, STEPS = 10, 0.05, 3
# f32 sums of up to 320 products in another order.
TOLERANCE = 2e-5


def read(folder, name, shape, step=None):
    """A file's numbers; `shape` has the slowest dimension first, as numpy wants it."""
    file = os.path.join(folder, name + ("" if step is None else f".{step}") + ".f32")
    return torch.from_numpy(np.fromfile(file, dtype=np.float32).reshape(shape).copy())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    # Sizes {K, C, S, R} lie in memory as R, S, C, K; PyTorch wants K, C, R, S.
    conv = read(folder, "conv_weights", (KERNEL, KERNEL, CHANNELS, FILTERS)).permute(3, 2, 0, 1).contiguous()
    out = F.conv2d(torch.zeros(1, CHANNELS, HEIGHT, WIDTH), conv, stride=STRIDE, padding=PAD).shape
    features = FILTERS * out[2] * out[3]
    gemm = read(folder, "gemm_weights", (features, CLASSES))
    conv.requires_grad_(True)
    gemm.requires_grad_(True)
    worst = 0.0

    def compare(name, step, wanted):
        nonlocal worst
        got = read(folder, name, wanted.shape, step)
        error = ((got - wanted).abs().max() / wanted.abs().max()).item()
        worst = max(worst, error)
        print(f"step {step} {name:18} largest error {error:.2e} of the largest value")
        if not error <= TOLERANCE:
            sys.exit(f"step {step}: {name} differs from PyTorch by {error:.2e}, more than {TOLERANCE}")

    for step in range(STEPS):
        x = read(folder, "x", (IMAGES, HEIGHT, WIDTH, CHANNELS), step).permute(0, 3, 1, 2).contiguous()
        x.requires_grad_(True)
        gradient = read(folder, "loss_gradient", (IMAGES, CLASSES), step)
        hidden = F.relu(F.conv2d(x, conv, stride=STRIDE, padding=PAD))
        scores = hidden.permute(0, 2, 3, 1).reshape(IMAGES, features) @ gemm
        scores.backward(gradient)
        with torch.no_grad():
            conv -= RATE * conv.grad
            gemm -= RATE * gemm.grad
        conv.grad = gemm.grad = None
        compare("scores", step, scores.detach())
        compare("input_gradient", step, x.grad.permute(0, 2, 3, 1))
        compare("new_conv_weights", step, conv.detach().permute(2, 3, 1, 0))
        compare("new_gemm_weights", step, gemm.detach())
    print(f"all {STEPS} steps agree with PyTorch; the largest error is {worst:.2e}")


if __name__ == "__main__":
    main()
