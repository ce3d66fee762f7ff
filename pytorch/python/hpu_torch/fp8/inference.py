# SPDX-License-Identifier: Apache-2.0
"""Inference in fp8: ranges from a few batches, then linear layers whose weights are codes."""
import contextlib

import torch
from torch import nn

from .ops import E4M3, cast_to_fp8, fp8_gemm, largest


@contextlib.contextmanager
def calibration(model):
    """Gathers the largest magnitude of each linear layer's input: {name of the layer: a tensor of one number}, for quantize().

        with fp8.calibration(net) as ranges, torch.no_grad():
            net(x)"""
    ranges, handles = {}, []

    def hook(name):
        def measure(module, inputs):
            amax = inputs[0].detach().abs().amax().float()
            ranges[name] = torch.maximum(ranges[name], amax) if name in ranges else amax
        return measure

    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            handles.append(module.register_forward_pre_hook(hook(name)))
    try:
        yield ranges
    finally:
        for handle in handles:
            handle.remove()


def _power_of_two(amax, limit):
    """The largest power of two with which amax comes to at most limit."""
    return torch.exp2(torch.floor(torch.log2(limit / amax.clamp(min=1e-30)))).clamp(2. ** -100, 2. ** 100)


class QuantizedLinear(nn.Module):
    """y = (codes of x) @ (codes of the weight)^T, times both scales, plus the bias. The weight is a byte for each element."""

    def __init__(self, linear, amax, dtype=E4M3, per_channel=True, headroom=1.):
        super().__init__()
        self.in_features, self.out_features, self.dtype = linear.in_features, linear.out_features, dtype
        weight = linear.weight.detach()
        limit = largest(dtype, weight.device)
        of_weight = weight.float().abs()
        of_weight = of_weight.amax(1) if per_channel else of_weight.amax()
        # Found on the CPU, once, where powers of two are exact.
        scale, x_scale = _power_of_two(of_weight.cpu(), limit), _power_of_two(amax.detach().float().cpu() * headroom, limit)
        self.register_buffer("weight", cast_to_fp8(weight, (scale[:, None] if per_channel else scale).to(weight.device), dtype))
        self.register_buffer("weight_scale_inv", scale.reciprocal().to(weight.device))
        self.register_buffer("input_scale", x_scale.to(weight.device))
        self.register_buffer("input_scale_inv", x_scale.reciprocal().to(weight.device))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().clone())

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        codes = cast_to_fp8(flat, self.input_scale, self.dtype)
        y = fp8_gemm(codes, self.weight, self.input_scale_inv, self.weight_scale_inv, self.bias, x.dtype, trans_b=True)
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self):
        channels = "each channel" if self.weight_scale_inv.dim() else "the weight"
        return f"{self.in_features}, {self.out_features}, {'E4M3' if self.dtype == E4M3 else 'E5M2'}, a scale for {channels}"


def quantize(model, ranges, dtype=E4M3, per_channel=True, headroom=1., skip=()):
    """Replaces the linear layers that have a range (of calibration()) and are not in skip; returns the model. It must be on hpu.
    per_channel: a scale for each output of a layer. headroom=2: other data may be twice as large before they saturate."""
    unknown = [name for name in ranges if not isinstance(dict(model.named_modules()).get(name), nn.Linear)]
    if unknown:
        raise ValueError(f"ranges are of layers that the model does not have as linear ones: {', '.join(unknown)}")
    for name, amax in ranges.items():
        if name in skip:
            continue
        owner, _, leaf = name.rpartition(".")
        module = model.get_submodule(name)
        if module.weight.device.type != "hpu":
            raise ValueError(f"{name or 'the layer'} is on {module.weight.device}; move the model to hpu first")
        if not name:
            return QuantizedLinear(module, amax, dtype, per_channel, headroom)
        setattr(model.get_submodule(owner), leaf, QuantizedLinear(module, amax, dtype, per_channel, headroom))
    return model
