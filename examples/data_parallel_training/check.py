#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the training steps of main.c with PyTorch, all devices' images as one batch, and compares the weights.

Usage: check.py FOLDER
"""
import glob
import os
import sys

import numpy as np
import torch

LAYERS, BATCH, WIDTH, STEPS, RATE = 4, 128, 768, 2, 0.05
# f32 sums of up to 1024 products in another order, and four layers of them.
TOLERANCE = 5e-5


def read(folder, name, shape):
    return torch.from_numpy(np.fromfile(os.path.join(folder, name + ".f32"), dtype=np.float32).reshape(shape).copy())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    devices = len(glob.glob(os.path.join(folder, "x.0.*.f32")))
    weights = list(read(folder, "weights", (LAYERS, WIDTH, WIDTH)))
    worst = 0.0
    for step in range(STEPS):
        x = torch.cat([read(folder, f"x.{step}.{d}", (BATCH, WIDTH)) for d in range(devices)])
        gradient = torch.cat([read(folder, f"loss_gradient.{step}.{d}", (BATCH, WIDTH)) for d in range(devices)])
        weights = [w.detach().requires_grad_(True) for w in weights]
        hidden = x
        for w in weights:
            hidden = torch.tanh(hidden @ w)
        hidden.backward(gradient)
        with torch.no_grad():
            weights = [w - RATE * w.grad / devices for w in weights]
        for layer, wanted in enumerate(weights):
            got = read(folder, f"new_weights.{step}.{layer}", (WIDTH, WIDTH))
            error = ((got - wanted).abs().max() / wanted.abs().max()).item()
            worst = max(worst, error)
            print(f"step {step} layer {layer} largest error {error:.2e} of the largest value")
            if not error <= TOLERANCE:
                sys.exit(f"step {step}: the weights of layer {layer} differ from PyTorch by {error:.2e}, more than {TOLERANCE}")
    print(f"{devices} devices, {STEPS} steps: all weights agree with PyTorch; the largest error is {worst:.2e}")


if __name__ == "__main__":
    main()
