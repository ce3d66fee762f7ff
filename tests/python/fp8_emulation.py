# SPDX-License-Identifier: Apache-2.0
"""fp8 inference in PyTorch, by rounding: the yardstick for --precision=fp8.

Linear layers and convolutions multiply 8-bit operands (x / scale rounded to nearest even, beyond the largest
value saturated) and accumulate in f32; everything else is PyTorch's bf16. Scales follow the rule in
docs/precision.md, written here a second time. Nothing is taken from OpenHPU.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

# name: mantissa bits, exponent bias, largest value
FORMATS = {"e4m3_ieee": (3, 7, 240.0), "e4m3_fn": (3, 7, 448.0), "e5m2": (2, 15, 57344.0)}
# What a target's --precision=fp8 and fp8_e5m2 are: format and scales.
GAUDI2_SCALES = [2.0**-8, 2.0**-4, 1.0, 2.0**4]
POWERS = [2.0**k for k in range(-56, 8)]
TARGETS = {("gaudi2", "fp8"): ("e4m3_ieee", GAUDI2_SCALES), ("gaudi3", "fp8"): ("e4m3_fn", POWERS),
           ("gaudi2", "fp8_e5m2"): ("e5m2", POWERS), ("gaudi3", "fp8_e5m2"): ("e5m2", POWERS)}
HEADROOM = 2.0  # Of calibrated activations.


def quantise(x, name):
    """The values that fp8 codes of x stand for, as f32."""
    mantissa, bias, largest = FORMATS[name]
    x = x.double().clamp(-largest, largest)
    exponent = torch.frexp(x)[1].double() - 1  # |x| = [1, 2) * 2^exponent
    step = torch.exp2(exponent.clamp(min=1 - bias) - mantissa)
    return (torch.round(x / step) * step).float()  # torch.round: halves to even


def choose_scale(largest_magnitude, name, scales):
    """The smallest scale that holds the magnitude; the largest one when none does."""
    if not largest_magnitude > 0:
        return 1.0
    return next((s for s in scales if largest_magnitude <= s * FORMATS[name][2]), scales[-1])


class Fp8:
    """Runs a module with every F.linear and F.conv2d replaced; calls count in program order."""

    def __init__(self, target, precision):
        self.name, self.scales = TARGETS[target, precision]
        self.ranges, self.used = [], []
        self.call = 0

    def _operands(self, x, weight):
        """Both operands rounded to codes (unscaled), and the product of the scales."""
        if self.ranges:
            scale_x = choose_scale(HEADROOM * self.ranges[self.call], self.name, self.scales)
        else:  # As at run time: the largest magnitude becomes the largest code.
            scale_x = max(x.float().abs().max().item(), 1e-12) / FORMATS[self.name][2]
        weight32 = self.weights[self.call]
        scale_w = choose_scale(weight32.abs().max().item(), self.name, self.scales)
        self.used.append((scale_x, scale_w))
        self.call += 1
        return (quantise(x.float() / scale_x, self.name), quantise(weight32 / scale_w, self.name),
                scale_x * scale_w)

    def _patched(self, linear, conv2d, run):
        saved = functional.linear, functional.conv2d
        functional.linear, functional.conv2d = linear, conv2d
        try:
            with torch.no_grad():
                return run()
        finally:
            functional.linear, functional.conv2d = saved

    def calibrate(self, module, inputs):
        """Records the largest magnitude of each call's activations, and its f32 weights."""
        plain_linear, plain_conv = functional.linear, functional.conv2d
        self.ranges, self.weights = [], []

        def record(x, weight):
            self.ranges.append(x.abs().max().item())
            self.weights.append(weight.detach())

        def linear(x, weight, bias=None):
            record(x, weight)
            return plain_linear(x, weight, bias)

        def conv2d(x, weight, bias=None, *args):
            if args[3] == 1:  # Depthwise and grouped convolutions are left to bf16.
                record(x, weight)
            return plain_conv(x, weight, bias, *args)

        return self._patched(linear, conv2d, lambda: module(inputs))

    def run(self, module, inputs, dynamic=False):
        """The module's output in fp8; calibrate() must have seen it."""
        plain_conv = functional.conv2d
        self.call, self.used = 0, []
        if dynamic:
            self.ranges = []

        def finish(product, scale, bias):
            product = product * scale
            return (product if bias is None else product + bias.float()).to(torch.bfloat16)

        def linear(x, weight, bias=None):
            a, b, scale = self._operands(x, weight)
            return finish(a @ b.t(), scale, bias)

        def conv2d(x, weight, bias=None, *args):
            if args[3] != 1:
                return plain_conv(x, weight, bias, *args)
            a, b, scale = self._operands(x, weight)
            bias = None if bias is None else bias.reshape(-1, 1, 1)
            return finish(plain_conv(a, b, None, *args), scale, bias)

        narrow = copy.deepcopy(module).to(torch.bfloat16)
        return self._patched(linear, conv2d, lambda: narrow(inputs.to(torch.bfloat16)).float())


def rel_rms(actual, expected):
    """sqrt(sum (a-b)^2 / sum b^2)."""
    actual, expected = actual.double(), expected.double()
    return math.sqrt(((actual - expected)**2).sum().item() / (expected**2).sum().item())


class Gemm(nn.Module):
    """One linear layer."""

    def __init__(self, depth=512, width=384):
        super().__init__()
        self.layer = nn.Linear(depth, width)

    def forward(self, x):
        return self.layer(x)
